//! The server of the text.

use crate::figures::Figures;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// So many ask at once. Who comes then takes the place of the one that came first.
pub const ASKING: usize = 64;
/// How long a question may take to come, and its answer to be read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is seen whether this is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// A longer question is answered before it is whole, bytes.
const LONGEST: usize = 8192;

/// Answers whoever asks until it is to stop. Nobody waits for another who says nothing, or reads nothing.
///
/// # Errors
/// What the system says if `listener` cannot be waited for.
pub fn serve(listener: &TcpListener, figures: impl Fn() -> Figures, stops: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut asking: VecDeque<Asker> = VecDeque::new();
    while !stops.load(SeqCst) {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(asking.iter().map(Asker::poll));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        // If it fails, nobody has been seen to ask.
        let _ = poll(&mut fds, Some(&timeout));
        let now = Instant::now();
        for _ in 0..ASKING / 4 {
            match listener.accept() {
                Ok((stream, _)) => asking.extend(Asker::new(stream, now)),
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                // There are no descriptors left: one is had back.
                Err(_) if asking.pop_front().is_some() => {}
                Err(_) => {
                    std::thread::sleep(LOOK);
                    break;
                }
            }
        }
        asking.drain(..asking.len().saturating_sub(ASKING));
        asking.retain_mut(|asker| {
            now.duration_since(asker.since) < PATIENCE
                && matches!(asker.go_on(&figures), Err(why) if is_early(&why))
        });
    }
    Ok(())
}

fn is_early(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Somebody who asks.
struct Asker {
    stream: TcpStream,
    since: Instant,
    question: Vec<u8>,
    /// What is still to be sent, once the question is whole.
    answer: Option<VecDeque<u8>>,
}

impl Asker {
    /// Nothing, if it has gone already.
    fn new(stream: TcpStream, since: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, since, question: Vec::new(), answer: None })
    }

    fn poll(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Reads and writes until all is answered, or an error says that it has to be waited for, or that nobody is there.
    fn go_on(&mut self, figures: &impl Fn() -> Figures) -> io::Result<()> {
        loop {
            match &mut self.answer {
                None => {
                    let mut buffer = [0; 1024];
                    let read = self.stream.read(&mut buffer)?;
                    self.question.extend_from_slice(&buffer[..read]);
                    // All that is told is told to every question: only where it ends matters.
                    let is_whole = self.question.windows(4).any(|end| end == b"\r\n\r\n");
                    match read {
                        0 => return Ok(()),
                        _ if is_whole || self.question.len() > LONGEST => {
                            self.answer = Some(answer(&figures().text()).into());
                        }
                        _ => {}
                    }
                }
                Some(answer) if answer.is_empty() => return Ok(()),
                Some(answer) => {
                    let sent = self.stream.write(answer.as_slices().0)?;
                    answer.drain(..sent);
                }
            }
        }
    }
}

fn answer(text: &str) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_keeps_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stops = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let figures = || {
                let mut figures = Figures::default();
                figures.sample("birds", &[], 7);
                figures
            };
            scope.spawn(move || serve(&listener, figures, stops));
            let begin = || {
                let mut silent = TcpStream::connect(address).expect("it listens");
                silent.write_all(b"GET / HTTP/1.1\r\n").expect("it is there");
                silent
            };
            let silent: Vec<TcpStream> = (0..4 * ASKING).map(|_| begin()).collect();
            let mut asker = TcpStream::connect(address).expect("it listens");
            asker.set_read_timeout(Some(PATIENCE * 30)).expect("it can be");
            asker.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is there");
            let mut answer = String::new();
            asker.read_to_string(&mut answer).expect("an answer");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nbirds 7\n"),
                "{answer}"
            );
            drop(silent);
            stops.store(true, SeqCst);
        });
    }
}
