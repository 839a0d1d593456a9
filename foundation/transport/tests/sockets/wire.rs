//! What the bytes on a stream are, and that noise harms nobody.

use crate::fixtures::{ONE, Running, bytes, client_of};
use crate::processes::Ask;
use crate::raw;
use fulmar_node::Random;
use fulmar_transport::Limits;
use std::io::Write;

#[test]
fn the_wire_is_as_documented_byte_by_byte() {
    let server = Running::start(ONE, Limits::default());
    let mut stream = raw::connect(&server.address);
    for byte in [raw::hello(), raw::question(7, 2)].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    let welcome = raw::frame(&mut stream).unwrap();
    assert_eq!(welcome[..12], *b"fulmar\x01\x00\x03\x00\x00\x00");
    assert_eq!(welcome[12..15], [0, 1, 0xf]);
    assert_eq!(welcome[29..], [1, 0, 0, 0, 0, 0, 0, 0x80]);
    assert_eq!(raw::frame(&mut stream).unwrap(), [7, 0, 0, 0, 0, 0, 0, 0x80, 0, 7, 7]);
    server.stop();
}

#[test]
fn noise_harms_nobody() {
    let limits = Limits { message: 1000, ..Limits::default() };
    let server = Running::start(ONE, limits);
    let answer = raw::exchange(&server.address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(String::from_utf8_lossy(&answer).contains("this is a Fulmar server"), "{answer:?}");
    let mut random = Random::new(3);
    for _ in 0..300 {
        let mut noise = if random.one_in(3) { Vec::new() } else { raw::hello() };
        if random.one_in(2) && !noise.is_empty() {
            let at = random.index(noise.len());
            noise[at] ^= 1 << random.below(8);
        }
        for _ in 0..random.below(3) {
            noise.extend(raw::question(1, random.index(1100)));
        }
        noise.extend(bytes(&mut random, 40));
        raw::exchange(&server.address, &noise);
    }
    let mut client = client_of(&[(ONE, &server)]);
    assert_eq!(client.request(Ask::together(vec![vec![1]])).unwrap(), [[[1]]]);
    server.stop();
}
