//! What may be said to a server by who means no good: bytes that are often a message, and questions that have the form of good ones.

use fulmar_cluster::{Begun, DatabaseNumber, Direction, Message, Question, Sight};
use fulmar_coding::{put_bytes, put_varint};
use fulmar_kv::{
    Basis, Change, Commit, Durability, Exclusion, Expected, Interval, Key, ObjectId, Prepare, Restructuring,
    ShardId, Timestamp, TransactionId, Write,
};
use fulmar_node::Random;
use std::sync::Arc;

/// Bytes that are often a message: kinds, places and counts as they are, and numbers from all over.
pub(crate) fn bytes(random: &mut Random, object: ObjectId) -> Vec<u8> {
    let mut bytes = vec![random.below(58).to_le_bytes()[0]];
    let extremes = [1 << 20, 1 << 32, 1 << 48, 1 << 61, (1 << 63) - 1, u64::MAX];
    for _ in 0..random.below(16) {
        match random.below(8) {
            0 => put_varint(&mut bytes, extremes[random.index(extremes.len())]),
            1 => put_varint(&mut bytes, object.0),
            2 => put_bytes(&mut bytes, b"birds"),
            3 => bytes.push(random.next().to_le_bytes()[0]),
            _ => bytes.push(random.below(4).to_le_bytes()[0]),
        }
    }
    bytes
}

/// A question about what is there, what is not, and what is nobody's; it changes all but the cells of one object.
pub(crate) fn question(random: &mut Random, number: u64, clock: u64, spared: ObjectId) -> Message {
    let mut saying = Saying { random, clock, spared };
    let question = saying.question();
    let shard = saying.shard();
    Message::Question { number, again: saying.is(4), database: DatabaseNumber(0), shard, question }
}

struct Saying<'r> {
    random: &'r mut Random,
    /// About where it is.
    clock: u64,
    spared: ObjectId,
}

impl Saying<'_> {
    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.random.index(N)]
    }

    /// Once in so many times.
    fn is(&mut self, rare: u64) -> bool {
        self.random.below(rare) == 0
    }

    fn some<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.one([0, 0, 1, 1, 2, 3])).map(|_| make(self)).collect()
    }

    fn time(&mut self) -> Timestamp {
        let clock = self.clock;
        Timestamp(self.one([
            0,
            clock / 2,
            clock,
            clock,
            clock,
            clock + 1,
            clock + 100,
            1 << 31,
            1 << 33,
            1 << 41,
            1 << 62,
        ]))
    }

    fn shard(&mut self) -> ShardId {
        ShardId(self.one([0, 0, 0, 0, 0, 0, 0, 1, 2, 60_000]))
    }

    fn object(&mut self) -> ObjectId {
        let number =
            self.one([2, 3, 4, 4, 5, 5, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, 1 << 33, (1 << 48) - 1]);
        ObjectId::new(self.shard(), number)
    }

    fn any_object(&mut self) -> ObjectId {
        if self.is(3) { self.spared } else { self.object() }
    }

    fn key(&mut self) -> Key {
        self.one([&b""[..], b"a", b"b", b"c", &[0; 8], &[0xff; 8], &[7; 100]]).into()
    }

    fn cell(&mut self) -> (ObjectId, Key) {
        (self.any_object(), self.key())
    }

    fn transaction(&mut self) -> TransactionId {
        TransactionId { client: self.one([8, 8, 9, 1 << 63]), number: self.one([1, 2, 3, 4, 5, u64::MAX]) }
    }

    fn durability(&mut self) -> Durability {
        self.one([Durability::Synced, Durability::Written])
    }

    fn restructuring(&mut self) -> Restructuring {
        let (object, other) = (self.object(), self.object());
        match self.random.below(8) {
            0 => Restructuring::Remove { object: self.spared },
            1 => Restructuring::Split { object, cuts: vec![(self.key(), other)] },
            2 => Restructuring::Join { left: object, right: other },
            _ => Restructuring::Create { object },
        }
    }

    fn write(&mut self) -> Write {
        let change = |saying: &mut Self| {
            let value = (!saying.is(3)).then(|| (&*saying.key()).into());
            Change { key: saying.key(), value }
        };
        let mut changes = self.some(change);
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes.dedup_by(|a, b| a.key == b.key);
        let interval = |saying: &mut Self| Interval::new(saying.key(), Some(saying.key()));
        Write { object: self.object(), cleared: self.some(interval), changes: changes.into() }
    }

    fn commit(&mut self) -> Commit {
        Commit {
            snapshot: self.time(),
            restructurings: self.some(Self::restructuring),
            writes: self.some(Self::write),
            required: self.some(Self::cell),
            touched: self.some(Self::cell),
            is_exclusive: self.is(4),
        }
    }

    fn expected(&mut self) -> Option<Expected> {
        let (object, key) = self.cell();
        (!self.is(2)).then(|| Expected {
            object,
            key,
            value: (!self.is(2)).then(|| b"row".as_slice().into()),
        })
    }

    fn question(&mut self) -> Question {
        let commit = self.commit();
        let transaction = self.transaction();
        match self.random.below(17) {
            0 => Question::OpenSnapshot,
            1 => Question::Newest,
            2 => Question::ReopenSnapshot(self.time()),
            3 => Question::Exclude(self.one([Exclusion::Begin, Exclusion::End, Exclusion::Look])),
            4 => {
                let (next, count) =
                    (self.one([i64::MIN, 0, 1, i64::MAX]), self.one([i64::MIN, 0, 1, i64::MAX]));
                Question::Pick { tree: self.any_object(), next, count, at: self.time() }
            }
            5 | 6 => Question::Read {
                object: self.any_object(),
                from: self.key(),
                direction: self.one([Direction::Up, Direction::Down, Direction::DownFromEnd]),
                at: match self.random.below(3) {
                    0 => Sight::Open(self.time()),
                    1 => Sight::New(self.expected()),
                    _ => Sight::Once(self.expected()),
                },
                bytes: self.one([0, 1, 1 << 20, u64::MAX]),
                begun: self.random.one_in(3).then(|| Begun {
                    bytes: self.one([0, 1, 1 << 20, u64::MAX]),
                    fingerprint: self.one([0, u64::MAX]),
                }),
            },
            7 | 8 => {
                let (primary, mut others) = (self.shard(), self.some(Self::shard));
                if !self.is(4) {
                    others.sort();
                    others.dedup();
                    others.retain(|other| *other != primary);
                }
                Question::Prepare(Prepare { transaction, primary, others, commit })
            }
            9 => Question::Decide(transaction, self.time(), self.durability()),
            10..12 => {
                let basis =
                    Basis { present: self.some(Self::cell), expected: self.expected(), after: self.time() };
                Question::CommitUnread(transaction, Arc::new(commit), basis, self.durability())
            }
            12 => Question::Size,
            _ => Question::Commit(transaction, Arc::new(commit), self.durability()),
        }
    }
}
