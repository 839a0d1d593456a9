//! Forwards all frames between two network interfaces: `wire FIRST SECOND [MICROSECONDS]`, and how long to look for more frames
//! before waiting. With `xdp:` before its name, one is opened by an XDP socket.

use fulmar_port::{Error, Port, packet, xdp};
use rustix::event::{PollFd, PollFlags, poll};
use std::env;
use std::time::{Duration, Instant};

const BATCH: usize = 64;

fn open(name: &str) -> Result<Port, Error> {
    match name.strip_prefix("xdp:") {
        Some(name) => xdp::open(name),
        None => packet::open(name),
    }
}

fn forward(from: &mut Port, to: &mut Port) -> Result<usize, Error> {
    let count = from.receive(BATCH, |frame| to.send(frame.bytes(), frame.offload))?;
    to.flush();
    Ok(count)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [first, second, rest @ ..] = &arguments[..] else {
        return Err("usage: wire FIRST SECOND [MICROSECONDS]".into());
    };
    let spin = Duration::from_micros(rest.first().map_or(Ok(20), |number| number.parse())?);
    let (mut first, mut second) = (open(first)?, open(second)?);
    let mut last = Instant::now();
    loop {
        if forward(&mut first, &mut second)? + forward(&mut second, &mut first)? > 0 {
            last = Instant::now();
        } else if last.elapsed() >= spin {
            let mut both = [PollFd::new(&first, PollFlags::IN), PollFd::new(&second, PollFlags::IN)];
            poll(&mut both, None)?;
            last = Instant::now();
        }
    }
}
