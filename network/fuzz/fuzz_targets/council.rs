//! Any bytes from all other members of a council, at any time.
#![no_main]

use fulmar_byzantine::{Agreement, Message, Wire};
use fulmar_council::{Council, Digest, Frame, Identity, Link, Member, Session};
use fulmar_node::{NodeId, Outbox, Process, Time, TimerChange};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// n = 7 and t = 2: two that send what means nothing do not end it yet.
const MEMBERS: u8 = 7;
/// Nodes of whole trees: of D_2, and of D_1 and D_0, which each of the four monitor sequences may invoke.
const MOST_NODES: usize = 260 + 4 * (50 + 8);

static IDENTITY: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::from_seed(&[0; 32])));
static COUNCIL: LazyLock<Arc<Council>> = LazyLock::new(|| {
    let member = |seed| Member {
        address: format!("10.0.0.1:{}", 7600 + u16::from(seed)),
        key: Identity::from_seed(&[seed; 32]).public(),
    };
    let members = (0..MEMBERS).map(member).collect();
    Arc::new(Council::new("eggs".into(), members, 2, Duration::from_secs(1)).expect("7 > 6"))
});

// A byte says which member sends the frame that follows; 0 stands for the time until the next timer.
fuzz_target!(|bytes: &[u8]| {
    let agreement = Agreement::new(MEMBERS.into(), 2, 0, Some(Digest::of(b"eggs"))).expect("7 > 6");
    let mut session = Session::new(COUNCIL.clone(), IDENTITY.clone(), 0, Duration::from_secs(9), agreement);
    let (mut out, mut now, mut bytes) = (Outbox::default(), Time::ZERO, bytes);
    session.start(now, &mut out);
    for member in 1..MEMBERS.into() {
        session.request(now, Link::Called(member), &mut out);
        session.request(now, Link::Heard(member), &mut out);
    }
    let mut deadline = None;
    while let Some((&from, rest)) = bytes.split_first()
        && !session.is_over()
    {
        bytes = rest;
        if from % MEMBERS == 0 {
            for ((), change) in out.timers.drain(..) {
                deadline = match change {
                    TimerChange::Set(time) => Some(time),
                    TimerChange::Cancel => None,
                };
            }
            now = deadline.unwrap_or(now);
            session.expire(now, (), &mut out);
        } else {
            let before = bytes;
            let Ok(frame) = Frame::read(&mut bytes) else { continue };
            assert_eq!(frame.to_bytes(), before[..before.len() - bytes.len()]);
            if let Frame::Round { message, .. } = &frame {
                round_trip(message);
            }
            session.receive(now, NodeId(u32::from(from % MEMBERS)), frame, &mut out);
        }
    }
    assert!(session.into_protocol().nodes() <= MOST_NODES);
});

/// What is read of a message is written so that the same is read again.
fn round_trip(bytes: &[u8]) {
    if let Some(message) = Message::<Digest>::decode(&mut &bytes[..]) {
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(Message::decode(&mut &written[..]), Some(message));
    }
}
