//! The processes that tests run.

use fulmar_node::{Lsn, MulticastId, NodeId, Outbox, Process, Time};
use fulmar_transport::{Malformed, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What is sent: a tag of the sender's choice, which comes back, servers to pass the body on to, and the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) tag: u64,
    pub(crate) path: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Wire for Parcel {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.tag.to_le_bytes());
        into.push(u8::try_from(self.path.len()).expect("a short path"));
        into.extend_from_slice(&self.path);
        into.extend_from_slice(&self.body);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let parse = || {
            let (tag, rest) = bytes.split_first_chunk()?;
            let (&length, rest) = rest.split_first()?;
            let (path, body) = rest.split_at_checked(length.into())?;
            Some(Self { tag: u64::from_le_bytes(*tag), path: path.to_vec(), body: body.to_vec() })
        };
        parse().ok_or_else(|| Malformed::new("a parcel is cut short"))
    }
}

/// A question with this tag is answered by [`LARGE_ANSWER`] bytes.
pub(crate) const ASKS_FOR_MUCH: u8 = 77;
pub(crate) const LARGE_ANSWER: usize = 1 << 20;

/// Tells an answer from a question.
const ANSWER: u64 = 1 << 63;
/// Tells what is relayed: no number of it is one of a question, which may stand for something.
const RELAYED: u64 = 1 << 62;

/// Sends back what it receives: at once, or when a record of it is durable, or when the servers on its path have.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    is_durable: bool,
    waiting: BTreeMap<Lsn, (NodeId, Parcel)>,
    /// Who gets the answer to a relayed parcel, by the tag that it was relayed under.
    relayed: BTreeMap<u64, (NodeId, u64)>,
    next_tag: u64,
    pub(crate) requests: u32,
    /// Who hears which other servers are busy.
    pub(crate) told_of_busy: Option<Sender<NodeId>>,
}

impl Echo {
    pub(crate) fn durable() -> Self {
        Self { is_durable: true, ..Self::default() }
    }
}

impl Process for Echo {
    type Message = Parcel;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = u8;

    fn busy(&mut self, _now: Time, peer: NodeId, _out: &mut Outbox<Self>) {
        // A test that has seen enough no longer listens.
        let _ = self.told_of_busy.as_ref().map(|told| told.send(peer));
    }

    fn receive(&mut self, _now: Time, from: NodeId, mut parcel: Parcel, out: &mut Outbox<Self>) {
        if parcel.tag & ANSWER != 0 {
            if let Some((to, tag)) = self.relayed.remove(&(parcel.tag & !ANSWER)) {
                out.send(to, Parcel { tag, ..parcel });
            }
        } else if !parcel.path.is_empty() {
            let next = parcel.path.remove(0);
            self.next_tag += 1;
            let tag = self.next_tag | RELAYED;
            self.relayed.insert(tag, (from, parcel.tag | ANSWER));
            out.send(NodeId(next.into()), Parcel { tag, ..parcel });
        } else {
            if parcel.tag == ASKS_FOR_MUCH.into() {
                parcel.body.resize(LARGE_ANSWER, ASKS_FOR_MUCH);
            }
            parcel.tag |= ANSWER;
            if self.is_durable {
                let at = out.record(parcel.body[0]);
                self.waiting.insert(at, (from, parcel));
            } else {
                out.send(from, parcel);
            }
        }
    }

    fn request(&mut self, _now: Time, (): (), _out: &mut Outbox<Self>) {
        self.requests += 1;
    }

    fn durable(&mut self, _now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= upto) {
            let (to, parcel) = entry.remove();
            out.send(to, parcel);
        }
    }
}

/// What a [`Caller`] is asked: bodies to send to all its servers, so many times one after the other.
#[derive(Debug)]
pub(crate) struct Ask {
    rounds: u32,
    bodies: Vec<Vec<u8>>,
    path: Vec<u8>,
    group: Option<MulticastId>,
}

impl Ask {
    pub(crate) fn together(bodies: Vec<Vec<u8>>) -> Self {
        Self::rounds(1, bodies)
    }

    pub(crate) fn rounds(rounds: u32, bodies: Vec<Vec<u8>>) -> Self {
        Self { rounds, bodies, path: Vec::new(), group: None }
    }

    pub(crate) fn relayed(path: &[u8]) -> Self {
        Self { path: path.to_vec(), ..Self::rounds(1, vec![b"relayed".to_vec()]) }
    }

    pub(crate) fn of(self, body: Vec<u8>) -> Self {
        Self { bodies: vec![body], ..self }
    }

    pub(crate) fn multicast(group: MulticastId, body: &[u8]) -> Self {
        Self { group: Some(group), ..Self::rounds(1, vec![body.to_vec()]) }
    }
}

/// Sends what it is asked to, and tells the bodies of the last round when all have come back.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) servers: Vec<NodeId>,
    retry: Option<Duration>,
    asked: Option<Ask>,
    /// The tag of the first body of this round.
    first: u64,
    /// What has not come back.
    missing: BTreeSet<(NodeId, u64)>,
    echoed: BTreeMap<u64, Vec<u8>>,
}

impl Caller {
    pub(crate) fn new(servers: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            servers: servers.into_iter().collect(),
            retry: None,
            asked: None,
            first: 0,
            missing: BTreeSet::new(),
            echoed: BTreeMap::new(),
        }
    }

    pub(crate) fn with_retry(self, after: Duration) -> Self {
        Self { retry: Some(after), ..self }
    }

    fn parcels(&self) -> Vec<Parcel> {
        let parcel =
            |ask: &Ask, tag, body: &Vec<u8>| Parcel { tag, path: ask.path.clone(), body: body.clone() };
        let ask = self.asked.iter();
        ask.flat_map(|ask| (self.first..).zip(&ask.bodies).map(|(tag, body)| parcel(ask, tag, body)))
            .collect()
    }

    /// Begins the next round, or ends the last.
    fn go_on(&mut self, now: Time, out: &mut Outbox<Self>) {
        let Some(ask) = &mut self.asked else { return };
        if ask.rounds == 0 || ask.bodies.is_empty() {
            out.event(std::mem::take(&mut self.echoed).into_values().collect());
            out.cancel_timer(());
            self.asked = None;
            return;
        }
        ask.rounds -= 1;
        let group = ask.group;
        self.first += ask.bodies.len() as u64;
        self.echoed.clear();
        for parcel in self.parcels() {
            self.missing.extend(self.servers.iter().map(|&server| (server, parcel.tag)));
        }
        match group {
            Some(group) => self.parcels().into_iter().for_each(|parcel| out.multicast(group, parcel)),
            None => self.send(now, out),
        }
    }

    /// Sends what is missing.
    fn send(&self, now: Time, out: &mut Outbox<Self>) {
        for parcel in self.parcels() {
            for &server in &self.servers {
                if self.missing.contains(&(server, parcel.tag)) {
                    out.send(server, parcel.clone());
                }
            }
        }
        if let Some(after) = self.retry {
            out.set_timer((), now + after);
        }
    }
}

impl Process for Caller {
    type Message = Parcel;
    type Timer = ();
    type Request = Ask;
    type Event = Vec<Vec<u8>>;
    type Record = ();

    fn receive(&mut self, now: Time, from: NodeId, parcel: Parcel, out: &mut Outbox<Self>) {
        let tag = parcel.tag & !ANSWER;
        if self.missing.remove(&(from, tag)) {
            self.echoed.insert(tag, parcel.body);
            if self.missing.is_empty() {
                self.go_on(now, out);
            }
        }
    }

    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        self.send(now, out);
    }

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        // Tags are never used twice, whatever becomes of the request before.
        self.first += 1 << 20;
        self.missing.clear();
        self.echoed.clear();
        self.asked = Some(ask);
        self.go_on(now, out);
    }
}

/// Sets a deadline in the past whenever one expires, and sends itself a message whenever one comes.
#[derive(Debug, Default)]
pub(crate) struct Restless {
    pub(crate) turns: u64,
}

impl Process for Restless {
    type Message = Vec<u8>;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = ();

    fn start(&mut self, _now: Time, out: &mut Outbox<Self>) {
        out.set_timer((), Time::ZERO);
        out.send(NodeId(1), Vec::new());
    }

    fn receive(&mut self, _now: Time, _from: NodeId, message: Vec<u8>, out: &mut Outbox<Self>) {
        out.send(NodeId(1), message);
    }

    fn expire(&mut self, _now: Time, (): (), out: &mut Outbox<Self>) {
        self.turns += 1;
        out.set_timer((), Time::ZERO);
    }
}
