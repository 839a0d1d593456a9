//! Figures for Prometheus, in its text format, over HTTP.

use crate::bridge::Remembered;
use crate::clock::Clock;
use crate::switches::Bridges;
use fulmar_node::Time;
use fulmar_port::vxlan::Dropped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// So many ask at once. Who comes then takes the place of the one that came first.
const ASKING: usize = 64;
/// How long a question may take to come, and its answer to be read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is seen whether this is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// A longer question is answered before it is whole, bytes.
const LONGEST: usize = 8192;

/// Answers whoever asks until it is to stop. Nobody waits for another who says nothing, or reads nothing.
pub(crate) fn serve(listener: &TcpListener, bridges: &Bridges, stops: &AtomicBool) {
    let clock = Clock::start();
    let mut asking: VecDeque<Asker> = VecDeque::new();
    while !stops.load(SeqCst) {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(asking.iter().map(Asker::poll));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        // If it fails, nobody has been seen to ask.
        let _ = poll(&mut fds, Some(&timeout));
        let now = clock.now();
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
            now.since(asker.since) < PATIENCE && matches!(asker.go_on(bridges), Err(why) if is_early(&why))
        });
    }
}

fn is_early(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Somebody who asks.
struct Asker {
    stream: TcpStream,
    since: Time,
    question: Vec<u8>,
    /// What is still to be sent, once the question is whole.
    answer: Option<VecDeque<u8>>,
}

impl Asker {
    /// Nothing, if it has gone already.
    fn new(stream: TcpStream, since: Time) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, since, question: Vec::new(), answer: None })
    }

    fn poll(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Reads and writes until all is answered, or an error says that it has to be waited for, or that nobody is there.
    fn go_on(&mut self, bridges: &Bridges) -> io::Result<()> {
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
                            self.answer = Some(answer(&figures(bridges)).into());
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

/// As the text format has it in quotes: names are anybody's who reaches the configuration database.
fn label(name: &str) -> String {
    name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// What a figure is called, of what kind it is, and what it says.
const FIGURES: [(&str, &str, &str); 9] = [
    ("fulmar_switch_microflow_hits_total", "counter", "Packets decided about by a hint."),
    ("fulmar_switch_megaflow_hits_total", "counter", "Packets decided about by a megaflow."),
    ("fulmar_switch_misses_total", "counter", "Packets decided about by the tables."),
    ("fulmar_switch_renewed_total", "counter", "Packets decided about anew after a change."),
    ("fulmar_switch_megaflows", "gauge", "Megaflows."),
    (
        "fulmar_switch_megaflow_masks",
        "gauge",
        "Different masks of megaflows, of the thread that has the most.",
    ),
    ("fulmar_switch_flows", "gauge", "Flows in tables."),
    ("fulmar_switch_connections", "gauge", "Tracked connections."),
    ("fulmar_switch_controllers_connected", "gauge", "Controllers that are connected."),
];

fn figures(bridges: &Bridges) -> String {
    let all: Vec<_> = bridges.lock().iter().map(|(name, bridge)| (name.clone(), bridge.clone())).collect();
    let told: Vec<(&String, [u64; 9])> = all
        .iter()
        .filter_map(|(name, bridge)| {
            let Remembered { hits, megaflows, masks, .. } = bridge.remembered()?;
            let connected = bridge.status().iter().filter(|status| status.is_connected).count();
            let connections = bridge.switch().tracker().len();
            let values = [
                hits.microflow,
                hits.megaflow,
                hits.missed,
                hits.renewed,
                megaflows as u64,
                masks as u64,
                bridge.switch().flows() as u64,
                connections as u64,
                connected as u64,
            ];
            Some((name, values))
        })
        .collect();
    let mut text = String::new();
    for (at, (figure, kind, about)) in FIGURES.iter().enumerate() {
        // Text in memory takes what is written.
        let _ = write!(text, "# HELP {figure} {about}\n# TYPE {figure} {kind}\n");
        for (name, values) in &told {
            let _ = writeln!(text, "{figure}{{bridge=\"{}\"}} {}", label(name), values[at]);
        }
    }
    let ports = [("received", 0), ("refused", 1), ("sent", 2), ("dropped", 3)];
    for (what, at) in ports {
        let _ = writeln!(text, "# TYPE fulmar_switch_port_{what}_packets_total counter");
        for (name, bridge) in &all {
            for (_, port) in bridge.switch().ports() {
                let packets = port.counters.all()[at].packets;
                let _ = writeln!(
                    text,
                    "fulmar_switch_port_{what}_packets_total{{bridge=\"{}\",port=\"{}\"}} {packets}",
                    label(name),
                    label(&port.name)
                );
            }
        }
    }
    // Ports are shared by bridges.
    let dropped: BTreeMap<u16, Dropped> = all.iter().flat_map(|(_, bridge)| bridge.dropped()).collect();
    if !dropped.is_empty() {
        let _ = writeln!(text, "# TYPE fulmar_switch_tunnel_dropped_packets_total counter");
    }
    for (udp_port, Dropped { malformed, unclaimed, congested, late }) in dropped {
        let reasons =
            [("malformed", malformed), ("unclaimed", unclaimed), ("congested", congested), ("late", late)];
        for (reason, packets) in reasons {
            let _ = writeln!(
                text,
                "fulmar_switch_tunnel_dropped_packets_total{{udp_port=\"{udp_port}\",reason=\"{reason}\"}} {packets}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_keeps_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it can be");
        let address = listener.local_addr().expect("an address");
        let (bridges, stops) = (Bridges::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &bridges, &stops));
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
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("fulmar_switch_flows"),
                "{answer}"
            );
            drop(silent);
            stops.store(true, SeqCst);
        });
    }

    #[test]
    fn names_stay_in_their_quotes() {
        assert_eq!(label("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
