//! One connection: greetings and frames, laid out by hand so that they can also be wrong.

use fulmar_node::Random;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// What servers and clients greet each other with, as far as it is the same for all of them.
#[derive(Clone, Copy)]
pub(super) struct Greeting {
    /// The version of the messages.
    pub(super) version: u32,
    /// Which cluster; 0 for whichever it is.
    pub(super) cluster: u128,
}

impl Greeting {
    /// As `fulmar_transport`'s `hello` lays it out.
    pub(super) fn hello(self, name: Option<u32>) -> Vec<u8> {
        let mut bytes = b"fulmar".to_vec();
        bytes.extend_from_slice(&1_u16.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        bytes.extend_from_slice(&name.unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        bytes
    }

    /// Greets, as a client or as a server of this name, and hears whether it is welcome.
    pub(super) fn greet(self, stream: &mut TcpStream, name: Option<u32>) -> io::Result<()> {
        welcome(&self.ask(stream, name)?).map(drop)
    }

    /// The same, with the cluster that it is found to be.
    pub(super) fn meet(self, address: &str) -> io::Result<Self> {
        let answer = self.ask(&mut TcpStream::connect(address)?, None)?;
        Ok(Self { cluster: welcome(&answer)?, ..self })
    }

    /// The same, with the version that is spoken there, welcome or not.
    pub(super) fn learn(self, address: &str) -> io::Result<Self> {
        let answer = self.ask(&mut TcpStream::connect(address)?, None)?;
        let version = answer.get(8..12).and_then(|version| version.try_into().ok());
        let version = version.map(u32::from_le_bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { version, ..self })
    }

    /// What is answered to a greeting.
    fn ask(self, stream: &mut TcpStream, name: Option<u32>) -> io::Result<Vec<u8>> {
        send(stream, &self.hello(name))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_le_bytes(length).min(1 << 10) as usize];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

/// The cluster that this answer to a greeting names, unless it is a refusal.
fn welcome(answer: &[u8]) -> io::Result<u128> {
    let cluster = answer.get(13..29).and_then(|cluster| cluster.try_into().ok()).filter(|_| answer[12] == 0);
    Ok(cluster.map(u128::from_le_bytes).ok_or(io::ErrorKind::ConnectionRefused)?)
}

/// Connects and says up to some hundred things, most of the time after a greeting: as a client or under a name from `name`. Counts the
/// frames.
pub(super) fn speak(
    address: &str,
    greeting: Greeting,
    random: &mut Random,
    frames: &mut u64,
    name: impl FnOnce(&mut Random) -> Option<u32>,
    mut body: impl FnMut(&mut Random, u64) -> Vec<u8>,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let reads = random.below(4) > 0;
    match random.below(8) {
        0 => stream.write_all(&noise(random, 200))?,
        1 => stream.write_all(&greeting.hello(None)[..random.index(36)])?,
        _ => greeting.greet(&mut stream, name(random))?,
    }
    for turn in 0..random.below(300) {
        let body = match random.below(30) {
            0 => noise(random, 1 << 16),
            _ => body(random, turn),
        };
        send(&mut stream, &body)?;
        *frames += 1;
        if reads {
            stream.set_read_timeout(Some(Duration::from_micros(10)))?;
            let mut answers = [0; 1 << 14];
            match stream.read(&mut answers) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
    if random.below(2) == 0 { stream.shutdown(Shutdown::Both) } else { Ok(()) }
}

fn noise(random: &mut Random, longest: usize) -> Vec<u8> {
    (0..random.index(longest)).map(|_| random.next().to_le_bytes()[0]).collect()
}

fn send(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    stream.write_all(&[&length.to_le_bytes(), body].concat())
}
