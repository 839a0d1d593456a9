//! A door for fuzzers.

use crate::closed::Closed;
use crate::election::{Election, Standing};
use crate::event::Event;
use crate::interest::Kind;
use crate::session::Session;
use crate::share::Pools;
use crate::switch::{Asker, SessionId, Switch};
use crate::task::carry_out;
use fulmar_node::Time;
use fulmar_openflow::error::{BadRequest, FlowModFailed};
use fulmar_openflow::packet_in::{PacketIn2, PacketInReason};
use fulmar_openflow::{Body, Decoder, Dialect, ErrorCode, HEADER, Habits, Hello, Message, Version};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Refuses some of what it is asked.
struct Whimsical;

impl Switch for Whimsical {
    fn request(&self, asker: &Asker, body: Body) -> Result<Vec<Body>, ErrorCode> {
        match body {
            _ if asker.xid.is_multiple_of(3) => Err(BadRequest::NotPermitted.into()),
            Body::FeaturesRequest => Ok(vec![Body::EchoReply(vec![0; 70_000])]),
            body => Ok(vec![body]),
        }
    }

    fn commit(&self, _: &Asker, messages: &[Message]) -> Result<(), (usize, ErrorCode)> {
        let at = messages.iter().position(|message| message.xid.is_multiple_of(3));
        at.map_or(Ok(()), |at| Err((at, FlowModFailed::Overlap.into())))
    }

    fn gone(&self, _: SessionId) {}
}

/// Has a session go through what these bytes say: a version; then messages, of their types and contents, well framed or not; packets to be told, time
/// that passes, and somebody who reads or does not. For fuzzers, which find out whether there are bytes for which this panics.
///
/// # Panics
/// If what the session sends are no messages.
pub fn run_session(bytes: &[u8]) {
    let (standing, election) = (Arc::<Standing>::default(), Mutex::default());
    let (mut now, mut sent) = (Time::ZERO, Decoder::default());
    let [choice, rest @ ..] = bytes else { return };
    let (version, mut rest) = (Version::ALL[usize::from(choice % 2)], rest);
    let inactivity = Some(Duration::from_secs(5));
    let pools = Pools::default();
    let mut session = Session::new(ID, Kind::Controller, inactivity, Version::ALL.to_vec(), &pools, now);
    let mut hello = Vec::new();
    if (Message { xid: 0, body: Body::Hello(Hello::of(&[version])) }).encode(&mut hello).is_ok() {
        session.receive(now, &hello);
    }
    while let [step, length, after @ ..] = rest {
        let content;
        (content, rest) = after.split_at(after.len().min((*length).into()));
        match step {
            0 => session.receive(now, content),
            1 => {
                let packet = PacketIn2::new(content.to_vec(), PacketInReason::Action);
                let event = Event::PacketIn { controller: 0, packet: Box::new(packet) };
                session.tell(&event, standing.role());
            }
            2 => now = now + Duration::from_millis((*length).into()),
            3 => read(&mut session, &mut sent, version),
            _ => session.receive(now, &framed(version, *step, content)),
        }
        if session.expire(now).is_err() || work(&mut session, &standing, &election).is_err() {
            break;
        }
    }
    read(&mut session, &mut sent, version);
}

/// Of that type, with that content.
fn framed(version: Version, kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER - 4 + content.len().max(4)).unwrap_or(u16::MAX);
    let mut bytes = vec![version.number(), kind % 31];
    bytes.extend(length.to_be_bytes());
    bytes.extend(content);
    bytes.resize(length.into(), 0);
    bytes
}

const ID: SessionId = SessionId(1);

fn work(session: &mut Session, standing: &Arc<Standing>, election: &Mutex<Election>) -> Result<(), Closed> {
    while let Some((origin, answer)) =
        carry_out(ID, standing, &Whimsical, election, |role| session.next_task(role, true))?
    {
        session.answer(&origin, answer);
    }
    Ok(())
}

/// All that is to be sent.
fn read(session: &mut Session, sent: &mut Decoder, version: Version) {
    // Where no table was agreed on, none is said.
    let dialect = match version {
        Version::V10 => Dialect::V10(Habits { names_tables: true, tells_all: false }),
        Version::V13 => Dialect::V13,
    };
    loop {
        let mut bytes = Vec::new();
        session.take(&mut bytes);
        if bytes.is_empty() {
            return;
        }
        sent.push(&bytes);
        loop {
            match sent.next_frame() {
                Ok(Some(frame)) => assert!(frame.decode_in(dialect).is_ok(), "sent {:?}", frame.bytes()),
                Ok(None) => break,
                Err(why) => panic!("sent what is no message: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    /// Messages of each type, mostly of zeros, in which something may be.
    fn any(random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..random.index(40) {
            let length = 8 * random.index(10);
            bytes.extend([random.next().to_le_bytes()[0] % 35, u8::try_from(length).unwrap_or(0)]);
            bytes.extend((0..length).map(|_| {
                let byte = random.next().to_le_bytes()[0];
                if random.one_in(4) {
                    byte % 32
                } else if random.one_in(16) {
                    byte
                } else {
                    0
                }
            }));
        }
        bytes
    }

    #[test]
    fn no_bytes_make_a_session_panic() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            run_session(&any(&mut random));
        }
    }
}
