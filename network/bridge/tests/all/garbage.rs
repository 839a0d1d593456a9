//! Any bytes, and many of them, do not make a switch grow without bound.

use crate::client::Client;
use crate::network::address;
use crate::served::Served;
use fulmar_node::Random;
use fulmar_port::{Offload, packet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

/// So many bytes are sent: more, if `FULMAR_GARBAGE` says so, in a long run.
fn amount() -> u64 {
    let asked = std::env::var("FULMAR_GARBAGE").ok().and_then(|megabytes| megabytes.parse().ok());
    asked.unwrap_or(100) << 20
}

/// What the process may grow meanwhile, whatever comes: by 200,000 megaflows, and the connections of half a minute. 5, 10 and 20 GiB of frames
/// made it grow by 191, 256 and 241 MiB. Other tests run in it, too.
const ROOM: u64 = 512 << 20;

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is told");
    let kibibytes: u64 =
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kibibytes << 10
}

fn fill(bytes: &mut [u8], random: &mut Random) {
    for chunk in bytes.chunks_mut(8) {
        let word = random.next().to_be_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

#[test]
fn garbage_on_the_wire_does_not_fill_the_memory() {
    let served = Served::secure("frames", 2);
    let network = &served.network;
    // What is decided depends on all there is in packets, and each is from another station.
    let mut client = served.client();
    for flow in [
        "priority=9,tcp,nw_src=10.0.0.0/8,tp_dst=80 actions=drop",
        "priority=8,ipv6,ipv6_dst=fd09::/64 actions=drop",
        "priority=7,dl_vlan=7 actions=pop_vlan,normal",
        "priority=6,ip actions=ct(commit,table=1)",
        "table=1,priority=1 actions=normal",
        "priority=0 actions=normal",
    ] {
        client.add_flow(flow);
    }
    let mut port = network.host(1).within(|| packet::open("eth0").expect("it is there"));
    let (mut random, mut sent, mut frame) = (Random::new(5), 0, vec![0; 1500]);
    let before = resident();
    while sent < amount() {
        let length = 14 + usize::try_from(random.below(1486)).expect("short");
        fill(&mut frame[..length], &mut random);
        // One of a few types, so that what follows is looked into.
        let kinds = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x08, 0x06], [frame[12], frame[13]]];
        let kind = kinds[usize::try_from(random.below(5)).expect("short")];
        frame[12..14].copy_from_slice(&kind);
        if length > 34 && kind == [0x08, 0x00] {
            frame[14] = 0x45;
            frame[16..18].copy_from_slice(&u16::try_from(length - 14).expect("short").to_be_bytes());
            frame[20..22].fill(0);
            frame[23] = [1, 6, 17, 132][usize::from(frame[23] % 4)];
        }
        port.send(&frame[..length], Offload::NONE);
        sent += length as u64;
    }
    port.flush();
    // It still works. Who said nothing meanwhile may have been given up.
    served.client().add_flow("priority=99,udp,tp_dst=9 actions=output:2");
    network.knows(1, address(2), 2);
    let socket = |host| network.host(host).within(|| UdpSocket::bind((address(host), 9)).expect("a port"));
    let (from, to) = (socket(1), socket(2));
    from.send_to(&[7], (address(2), 9)).expect("it is sent");
    assert_eq!(to.recv(&mut [0; 9]).expect("it arrives"), 1);
    let grown = resident().saturating_sub(before);
    assert!(grown < ROOM, "it has grown by {} MiB after {} MiB", grown >> 20, sent >> 20);
    println!("{} MiB of frames: {} MiB more", sent >> 20, grown >> 20);
}

/// Messages of all types with any content, some in earnest; a stream that is none; and one who does not read the answers.
#[test]
fn garbage_from_a_controller_does_not_fill_the_memory() {
    let served = Served::secure("messages", 2);
    let before = resident();
    let connect = || UnixStream::connect(served.path("br0.mgmt")).expect("it listens");
    let mut random = Random::new(6);
    let mut content = vec![0; 64 << 10];

    let client = Client::greet(connect());
    let mut stream = client.into_stream();
    let reader = stream.try_clone().expect("another file");
    let (sent, heard) = thread::scope(|scope| {
        let heard =
            scope.spawn(move || std::io::copy(&mut &reader, &mut std::io::sink()).expect("it speaks"));
        let mut sent = 0;
        while sent < amount() {
            let length = 8 + usize::try_from(random.below(200)).expect("short");
            fill(&mut content[..length], &mut random);
            content[0] = 4;
            content[1] = u8::try_from(random.below(32)).expect("short");
            content[2..4].copy_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
            stream.write_all(&content[..length]).expect("it is heard");
            sent += length as u64;
        }
        stream.shutdown(Shutdown::Write).expect("it can");
        (sent, heard.join().expect("it has ended"))
    });
    assert!(heard > sent / 64, "{heard} bytes of answers");

    for _ in 0..100 {
        fill(&mut content, &mut random);
        // It may be closed before all has been heard.
        let _ = connect().write_all(&content);
    }

    let mut deaf = connect();
    deaf.set_write_timeout(Some(Duration::from_secs(1))).expect("it is not 0");
    let hello = [4, 0, 0, 8, 0, 0, 0, 1];
    deaf.write_all(&hello).expect("it is heard");
    let mut echo = vec![0; 60_000];
    echo[..8].copy_from_slice(&[4, 2, 0xea, 0x60, 0, 0, 0, 2]);
    // Until it is not asked for more.
    while deaf.write(&echo).is_ok_and(|length| length == echo.len()) {}
    deaf.read_exact(&mut [0; 16]).expect("it has said hello, and lives");

    served.client().add_flow("actions=output:2");
    let grown = resident().saturating_sub(before);
    assert!(grown < ROOM, "it has grown by {} MiB after {} MiB", grown >> 20, sent >> 20);
    println!("{} MiB of messages: {} MiB of answers, {} MiB more", sent >> 20, heard >> 20, grown >> 20);
}
