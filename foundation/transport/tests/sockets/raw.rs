//! A connection made by hand: what the bytes on the wire are, whoever wrote the crate.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use fulmar_transport::Address;

/// A client's greeting: magic, framing 1, protocol version 3, cluster 0xf01, from a client, to whoever it is.
pub(crate) fn hello() -> Vec<u8> {
    let mut bytes = vec![36, 0, 0, 0];
    bytes.extend_from_slice(b"fulmar\x01\x00\x03\x00\x00\x00");
    bytes.extend_from_slice(&[1, 0xf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

/// The same of the server with this name.
pub(crate) fn hello_of_server(name: u8) -> Vec<u8> {
    let mut bytes = hello();
    let from = bytes.len() - 8;
    bytes[from..from + 4].copy_from_slice(&[name, 0, 0, 0]);
    bytes
}

/// The answer of the server with this name to the one that has greeted.
pub(crate) fn welcome(server: u8, you: u8) -> Vec<u8> {
    let mut bytes = vec![37, 0, 0, 0];
    bytes.extend_from_slice(b"fulmar\x01\x00\x03\x00\x00\x00\x00");
    bytes.extend_from_slice(&[1, 0xf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[server, 0, 0, 0, you, 0, 0, 0]);
    bytes
}

/// A frame with a question to an echo.
pub(crate) fn question(tag: u8, length: usize) -> Vec<u8> {
    let mut bytes = u32::try_from(length + 9).expect("a short body").to_le_bytes().to_vec();
    bytes.extend_from_slice(&[tag, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.resize(bytes.len() + length, tag);
    bytes
}

pub(crate) fn connect(address: &Address) -> TcpStream {
    try_connect(address).expect("the server runs")
}

/// To a server that may not run.
pub(crate) fn try_connect(address: &Address) -> std::io::Result<TcpStream> {
    let Address::Tcp(address) = address else { panic!("{address} is no TCP address") };
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(crate) fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Sends bytes, and nothing after them; returns all that comes back.
pub(crate) fn exchange(address: &Address, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    let mut answer = Vec::new();
    // The server may cut the connection before it has read everything; what it said is all the same to be read.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = stream.read_to_end(&mut answer);
    answer
}
