//! What attackers say to a replica, of databases or of a service.

use fulmar_coding::{put_bytes, put_varint};
use fulmar_node::{NodeId, Random};
use fulmar_replication::applications::{LockMode, LockOperation, SessionId, Timestamps};
use fulmar_replication::{
    ClientId, Entry, Group, Log, Member, Message, Protocol, SequenceNumber, Summary, View,
};
use fulmar_transport::Wire as _;

/// What an attacker says: the form is that of a good message, its numbers are near what is, or far from it.
pub(super) struct Said<'r> {
    random: &'r mut Random,
    /// Of the group that is attacked.
    members: [NodeId; 3],
}

impl<'r> Said<'r> {
    pub(super) const fn new(random: &'r mut Random, members: [NodeId; 3]) -> Self {
        Self { random, members }
    }

    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.random.index(N)]
    }

    fn number(&mut self) -> u64 {
        let near = self.random.below(2_000);
        self.one([0, 0, 1, 1, 2, 3, near, near, 1 << 20, 1 << 32, (1 << 32) + 1, 1 << 56, (1 << 62) - 1])
    }

    fn place(&mut self) -> SequenceNumber {
        SequenceNumber(self.number())
    }

    fn view(&mut self) -> View {
        let epoch = self.one([0, 0, 0, 0, 1, 2, 1 << 32, (1 << 62) - 1]);
        View { epoch, number: self.number() }
    }

    fn summary(&mut self) -> Summary {
        let any = u128::from(self.random.next());
        Summary(self.one([0, 1, any]))
    }

    fn client(&mut self) -> ClientId {
        let any = self.random.next();
        self.one([ClientId(7), ClientId(8), ClientId(any), ClientId::GROUP])
    }

    fn group(&mut self) -> Group {
        let mut nodes = self.members;
        if self.one([true, false, false]) {
            nodes[0] = NodeId(4);
        }
        let members = nodes.map(|node| {
            let incarnation = self.one([0, 0, 1, u64::MAX]);
            Member { node, incarnation }
        });
        let protocol = self.one([Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative]);
        let mut group = Group::new(self.members, protocol).expect("three");
        for _ in 0..self.random.below(4) {
            group = group.followed_by(members.into(), protocol).expect("three");
        }
        group
    }

    fn operation(&mut self) -> Vec<u8> {
        let number = self.random.below(6);
        let session = self.one([SessionId(number), SessionId::drawn(number)]);
        let name = vec![b'a' + self.one([0, 1, 2])];
        match self.random.below(10) {
            0 => Timestamps::take(self.number()),
            1 => {
                let (ticks, drawn) = (self.one([0, 1]), SessionId::drawn(number));
                LockOperation::Open { ticks, session: self.one([None, Some(drawn)]) }.encode()
            }
            2 => LockOperation::KeepAlive(session).encode(),
            3 => LockOperation::Close(session).encode(),
            4 => {
                let mode = self.one([LockMode::Read, LockMode::Write]);
                LockOperation::Acquire { session, name, mode, waits: self.one([true, false]) }.encode()
            }
            5 => LockOperation::Release(session, name).encode(),
            6 => LockOperation::Look(session, name).encode(),
            7 => LockOperation::Tick(self.number()).encode(),
            8 => vec![0xff; self.random.index(2_000)],
            _ => {
                let mut group = Vec::new();
                self.group().encode(&mut group);
                group
            }
        }
    }

    fn entry(&mut self) -> Entry {
        let (client, session) = (self.client(), self.place());
        let (number, operation) = (self.number(), self.operation().into());
        Entry { client, session, number, operation, is_query: self.one([true, false]) }
    }

    fn log(&mut self) -> Log {
        let mut log = Log::after(self.place(), self.summary());
        for _ in 0..self.random.below(4) {
            log.append(self.entry());
        }
        log
    }

    /// As `fulmar_replication` lays it out.
    fn state(&mut self, out: &mut Vec<u8>) {
        put_varint(out, self.number());
        out.extend(self.summary().0.to_be_bytes());
        self.group().encode(out);
        put_varint(out, 0);
        let state = self.one([&[][..], &[7], &[0; 4], &[0xff; 40]]);
        put_bytes(out, state);
    }

    /// A message, as bytes.
    pub(super) fn message(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let (view, committed) = (self.view(), self.place());
        let message = match self.random.below(20) {
            0..6 => {
                let Entry { client, session, number, operation, is_query } = self.entry();
                let epoch = self.one([0, 0, 0, 1]);
                Message::Request { client, epoch, session, number, operation, is_query }
            }
            6 => Message::Doubt { view },
            7 => {
                let from = SequenceNumber(self.number().max(1));
                let entries = (0..self.random.below(3)).map(|_| self.entry()).collect();
                Message::Prepare { view, from, before: self.summary(), entries, committed }
            }
            8 => Message::Commit { view, committed, summary: self.summary(), round: self.number() },
            9 => {
                let (ordered, upto, received) = (self.place(), self.place(), self.place());
                let (summary, round) = (self.summary(), self.number());
                Message::PrepareOk { view, ordered, upto, summary, received, round }
            }
            10 => Message::Alive { view },
            11 => Message::Suspect { view },
            12 => Message::StartViewChange { view },
            13 => {
                let (last_normal, log, ordered) = (self.view(), self.log(), self.place());
                let end = self.one([log.end(), (committed, Summary(0))]);
                Message::DoViewChange { view, last_normal, log, end, ordered, committed }
            }
            14 => {
                let log = self.log();
                let end = log.end();
                Message::StartView { view, checkpoint: None, log, end, committed }
            }
            15 => Message::GetState { view, committed, after: self.place() },
            16 => Message::Group(self.group()),
            17 | 18 => {
                out.push(13);
                self.state(&mut out);
                return out;
            }
            _ => {
                let (client, number, result) = (self.client(), self.number(), self.operation());
                Message::Reply { view, client, number, result }
            }
        };
        message.encode(&mut out);
        out
    }
}
