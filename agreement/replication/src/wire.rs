//! Messages and records as bytes: a tag, and integers and byte strings in the order of the fields.

use crate::execution::Answered;
use crate::{
    Checkpoint, ClientId, Entry, Group, Log, Member, Message, Operation, Protocol, Record, SequenceNumber,
    Summary, View,
};
use fulmar_coding::{Reader, list, put_bytes, put_varint};
use fulmar_node::NodeId;
use fulmar_transport::{Malformed, Wire};
use std::sync::Arc;

/// The lists of a message take no more memory, bytes. An entry, which may have four bytes in a message, has eighty in memory; but a message holds
/// a mebibyte of entries, each counted as 32 at least ([`Options::bytes`](crate::Options::bytes)), and some ten thousand clients' last answers.
const LISTS: usize = 8 << 20;

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.push(entry.flags());
    if entry.was_let_in() {
        put_varint(out, entry.session.0);
    }
    put_varint(out, entry.client.0);
    put_varint(out, entry.number);
    put_bytes(out, &entry.operation);
}

fn entry(input: &mut Reader<'_>) -> Option<Entry> {
    let flags = input.byte().filter(|byte| *byte < 4)?;
    let session = if flags & 2 > 0 { sequence_number(input)? } else { SequenceNumber(0) };
    let (client, number) = (ClientId(input.varint()?), input.varint()?);
    let entry = Entry { client, session, number, operation: input.bytes()?.into(), is_query: flags & 1 > 0 };
    // One form for each.
    (entry.flags() == flags).then_some(entry)
}

fn put_entries<'a>(out: &mut Vec<u8>, entries: impl ExactSizeIterator<Item = &'a Entry>) {
    put_varint(out, entries.len() as u64);
    entries.for_each(|entry| put_entry(out, entry));
}

fn put_summary(out: &mut Vec<u8>, summary: Summary) {
    out.extend(summary.0.to_be_bytes());
}

fn summary(input: &mut Reader<'_>) -> Option<Summary> {
    let bytes = input.take(16)?.try_into().ok()?;
    Some(Summary(u128::from_be_bytes(bytes)))
}

/// Summaries but for the first are not sent: they follow from the entries.
fn put_log(out: &mut Vec<u8>, log: &Log) {
    put_varint(out, log.start().0);
    put_summary(out, log.summary(log.start()).unwrap_or_default());
    put_entries(out, log.entries_after(log.start()));
}

fn log(input: &mut Reader<'_>) -> Option<Log> {
    let mut log = Log::after(sequence_number(input)?, summary(input)?);
    for entry in list(input, entry)? {
        log.append(entry);
    }
    Some(log)
}

fn put_end(out: &mut Vec<u8>, (last, summary): (SequenceNumber, Summary)) {
    put_varint(out, last.0);
    put_summary(out, summary);
}

fn end(input: &mut Reader<'_>) -> Option<(SequenceNumber, Summary)> {
    Some((sequence_number(input)?, summary(input)?))
}

fn sequence_number(input: &mut Reader<'_>) -> Option<SequenceNumber> {
    // A log that ends at the largest number has no place for another entry.
    input.varint().filter(|number| *number < 1 << 62).map(SequenceNumber)
}

impl View {
    /// Appends it to a message.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch);
        put_varint(out, self.number);
    }

    /// Reads what [`View::encode`] has appended; nothing, if that is no view.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let view = Self { epoch: input.varint()?, number: input.varint()? };
        // The largest numbers have no next.
        (view.epoch < 1 << 62 && view.number < 1 << 62).then_some(view)
    }
}

impl Protocol {
    /// Appends it to a message.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Viewstamped => 0,
            Self::Fast => 1,
            Self::Speculative => 2,
        });
    }

    /// Reads what [`Protocol::encode`] has appended; nothing, if that is no protocol.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(match input.byte()? {
            0 => Self::Viewstamped,
            1 => Self::Fast,
            2 => Self::Speculative,
            _ => return None,
        })
    }
}

impl Group {
    /// Appends it to a message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch());
        self.protocol().encode(out);
        put_varint(out, self.members().len() as u64);
        for Member { node, incarnation } in self.members() {
            put_varint(out, node.0.into());
            put_varint(out, *incarnation);
        }
    }

    /// Reads what [`Group::encode`] has appended; nothing, if that is no group.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let epoch = input.varint().filter(|epoch| *epoch < 1 << 62)?;
        let protocol = Protocol::decode(input)?;
        let member = |input: &mut Reader<'_>| {
            let node = NodeId(u32::try_from(input.varint()?).ok()?);
            Some(Member { node, incarnation: input.varint()? })
        };
        Self::of_epoch(epoch, list(input, member)?, protocol).ok()
    }
}

/// A group as the operation that makes it follow another.
pub(crate) fn encode_group(group: &Group) -> Operation {
    let mut out = Vec::new();
    group.encode(&mut out);
    out.into()
}

pub(crate) fn decode_group(operation: &[u8]) -> Option<Group> {
    let mut input = Reader::new(operation);
    Group::decode(&mut input).filter(|_| input.is_empty())
}

fn put_checkpoint(out: &mut Vec<u8>, checkpoint: &Checkpoint) {
    let Checkpoint { at, summary, group, answered, state } = checkpoint;
    put_varint(out, at.0);
    put_summary(out, *summary);
    group.encode(out);
    put_varint(out, answered.len() as u64);
    for (client, Answered { session, number, at, result }) in answered {
        [client.0, session.0, *number, at.0].into_iter().for_each(|n| put_varint(out, n));
        put_bytes(out, result);
    }
    put_bytes(out, state);
}

/// A checkpoint; of those that were written when no client was let in none of the clients has a session.
fn checkpoint(input: &mut Reader<'_>, has_sessions: bool) -> Option<Arc<Checkpoint>> {
    let (at, summary, group) = (sequence_number(input)?, summary(input)?, Group::decode(input)?);
    let answer = |input: &mut Reader<'_>| {
        let client = ClientId(input.varint()?);
        let session = if has_sessions { sequence_number(input)? } else { SequenceNumber(0) };
        let (number, at) = (input.varint()?, sequence_number(input)?);
        Some((client, Answered { session, number, at, result: input.bytes()?.into() }))
    };
    let answered = list(input, answer)?.into_iter().collect();
    Some(Arc::new(Checkpoint { at, summary, group, answered, state: input.bytes()?.into() }))
}

impl Wire for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request { client, epoch, session, number, operation, is_query } => {
                out.push(u8::from(*is_query));
                [*epoch, client.0, session.0, *number].into_iter().for_each(|n| put_varint(out, n));
                put_bytes(out, operation);
            }
            Self::Reply { view, client, number, result } => {
                out.push(2);
                view.encode(out);
                [client.0, *number].into_iter().for_each(|n| put_varint(out, n));
                put_bytes(out, result);
            }
            Self::Forgotten { view, client, number } => {
                out.push(17);
                view.encode(out);
                [client.0, *number].into_iter().for_each(|n| put_varint(out, n));
            }
            Self::SpeculativeReply { view, client, number, at, summary, result } => {
                out.push(3);
                view.encode(out);
                [client.0, *number, at.0].into_iter().for_each(|n| put_varint(out, n));
                put_summary(out, *summary);
                put_bytes(out, result);
            }
            Self::Doubt { view } => {
                out.push(4);
                view.encode(out);
            }
            Self::Prepare { view, from, before, entries, committed } => {
                out.push(5);
                view.encode(out);
                [from.0, committed.0].into_iter().for_each(|n| put_varint(out, n));
                put_summary(out, *before);
                put_entries(out, entries.iter());
            }
            Self::Commit { view, committed, summary, round } => {
                out.push(6);
                view.encode(out);
                [committed.0, *round].into_iter().for_each(|n| put_varint(out, n));
                put_summary(out, *summary);
            }
            Self::PrepareOk { view, ordered, upto, summary, received, round } => {
                out.push(7);
                view.encode(out);
                [ordered.0, upto.0, received.0, *round].into_iter().for_each(|n| put_varint(out, n));
                put_summary(out, *summary);
            }
            Self::Alive { view } => {
                out.push(15);
                view.encode(out);
            }
            Self::Suspect { view } => {
                out.push(16);
                view.encode(out);
            }
            Self::StartViewChange { view } => {
                out.push(8);
                view.encode(out);
            }
            Self::DoViewChange { view, last_normal, log, end, ordered, committed } => {
                out.push(9);
                view.encode(out);
                last_normal.encode(out);
                put_end(out, *end);
                [ordered.0, committed.0].into_iter().for_each(|n| put_varint(out, n));
                put_log(out, log);
            }
            Self::StartView { view, checkpoint, log, end, committed } => {
                out.push(10 + u8::from(checkpoint.is_some()));
                view.encode(out);
                put_end(out, *end);
                put_varint(out, committed.0);
                if let Some(checkpoint) = checkpoint {
                    put_checkpoint(out, checkpoint);
                }
                put_log(out, log);
            }
            Self::GetState { view, committed, after } => {
                out.push(12);
                view.encode(out);
                [committed.0, after.0].into_iter().for_each(|n| put_varint(out, n));
            }
            Self::State(checkpoint) => {
                out.push(13);
                put_checkpoint(out, checkpoint);
            }
            Self::Group(group) => {
                out.push(14);
                group.encode(out);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::within(bytes, LISTS);
        let message = message(&mut input).filter(|_| input.is_empty());
        message.ok_or_else(|| Malformed::new("no message between replicas and clients"))
    }
}

fn message(input: &mut Reader<'_>) -> Option<Message> {
    Some(match input.byte()? {
        tag @ (0 | 1) => {
            let (epoch, client) = (input.varint()?, ClientId(input.varint()?));
            let (session, number) = (sequence_number(input)?, input.varint()?);
            let operation = input.bytes()?.into();
            Message::Request { client, epoch, session, number, operation, is_query: tag == 1 }
        }
        2 => {
            let (view, client, number) = (View::decode(input)?, ClientId(input.varint()?), input.varint()?);
            Message::Reply { view, client, number, result: input.bytes()?.into() }
        }
        3 => {
            let (view, client, number) = (View::decode(input)?, ClientId(input.varint()?), input.varint()?);
            let (at, summary) = (sequence_number(input)?, summary(input)?);
            Message::SpeculativeReply { view, client, number, at, summary, result: input.bytes()?.into() }
        }
        4 => Message::Doubt { view: View::decode(input)? },
        5 => {
            let (view, from, committed) =
                (View::decode(input)?, sequence_number(input)?, sequence_number(input)?);
            let before = summary(input)?;
            if from == SequenceNumber(0) {
                return None;
            }
            Message::Prepare { view, from, before, entries: list(input, entry)?, committed }
        }
        6 => {
            let (view, committed, round) = (View::decode(input)?, sequence_number(input)?, input.varint()?);
            Message::Commit { view, committed, summary: summary(input)?, round }
        }
        7 => {
            let (view, ordered) = (View::decode(input)?, sequence_number(input)?);
            let (upto, received) = (sequence_number(input)?, sequence_number(input)?);
            let round = input.varint()?;
            Message::PrepareOk { view, ordered, upto, summary: summary(input)?, received, round }
        }
        8 => Message::StartViewChange { view: View::decode(input)? },
        9 => {
            let (view, last_normal, end) = (View::decode(input)?, View::decode(input)?, end(input)?);
            let (ordered, committed) = (sequence_number(input)?, sequence_number(input)?);
            Message::DoViewChange { view, last_normal, log: log(input)?, end, ordered, committed }
        }
        tag @ (10 | 11) => {
            let (view, end, committed) = (View::decode(input)?, end(input)?, sequence_number(input)?);
            let checkpoint = if tag == 11 { Some(checkpoint(input, true)?) } else { None };
            Message::StartView { view, checkpoint, log: log(input)?, end, committed }
        }
        12 => {
            let (view, committed) = (View::decode(input)?, sequence_number(input)?);
            Message::GetState { view, committed, after: sequence_number(input)? }
        }
        13 => Message::State(checkpoint(input, true)?),
        14 => Message::Group(Group::decode(input)?),
        15 => Message::Alive { view: View::decode(input)? },
        16 => Message::Suspect { view: View::decode(input)? },
        17 => Message::Forgotten {
            view: View::decode(input)?,
            client: ClientId(input.varint()?),
            number: input.varint()?,
        },
        _ => return None,
    })
}

impl Wire for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::View { view, last_normal } => {
                out.push(0);
                view.encode(out);
                last_normal.encode(out);
            }
            Self::Append(entry) => {
                out.push(1);
                put_entry(out, entry);
            }
            Self::Truncate(last) => {
                out.push(2);
                put_varint(out, last.0);
            }
            Self::Ordered(upto) => {
                out.push(3);
                put_varint(out, upto.0);
            }
            Self::Checkpoint(checkpoint) => {
                out.push(8);
                put_checkpoint(out, checkpoint);
            }
            Self::Adopt(checkpoint) => {
                out.push(9);
                put_checkpoint(out, checkpoint);
            }
            Self::Install { view, after, entries } => {
                out.push(6);
                view.encode(out);
                put_varint(out, after.0);
                put_entries(out, entries.iter());
            }
            Self::Copying(is_copying) => out.extend([7, u8::from(*is_copying)]),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let record = record(&mut input).filter(|_| input.is_empty());
        record.ok_or_else(|| Malformed::new("no record of a replica"))
    }
}

fn record(input: &mut Reader<'_>) -> Option<Record> {
    Some(match input.byte()? {
        0 => Record::View { view: View::decode(input)?, last_normal: View::decode(input)? },
        1 => Record::Append(entry(input)?),
        2 => Record::Truncate(sequence_number(input)?),
        3 => Record::Ordered(sequence_number(input)?),
        tag @ (4 | 8) => Record::Checkpoint(checkpoint(input, tag == 8)?),
        tag @ (5 | 9) => Record::Adopt(checkpoint(input, tag == 9)?),
        6 => Record::Install {
            view: View::decode(input)?,
            after: sequence_number(input)?,
            entries: list(input, entry)?,
        },
        7 => Record::Copying(match input.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    fn samples() -> (Vec<Message>, Vec<Record>) {
        let entry = |number| Entry {
            client: ClientId(7),
            session: SequenceNumber(number / 2),
            number,
            operation: [1, 2, 3].into(),
            is_query: number == 2,
        };
        let mut log = Log::after(SequenceNumber(4), Summary(u128::MAX / 3));
        (1..4).for_each(|number| assert!(log.append(entry(number)) > SequenceNumber(4)));
        let (view, at, summary) = (View { epoch: 2, number: 300 }, SequenceNumber(5), Summary(1 << 100));
        let answer =
            Answered { session: SequenceNumber(1), number: 9, at: SequenceNumber(2), result: vec![] };
        let answered = [(ClientId(1), answer)].into();
        let group = Group::new([1, 2, 3].map(NodeId), Protocol::Fast).expect("three");
        let again = Member { node: NodeId(2), incarnation: u64::MAX };
        let group = group.with_incarnation(again).expect("a member");
        let checkpoint =
            Arc::new(Checkpoint { at, summary, group: group.clone(), answered, state: vec![0; 200] });
        let request = |is_query| Message::Request {
            epoch: 3,
            client: ClientId(u64::MAX),
            session: SequenceNumber(2),
            number: 1,
            operation: [].into(),
            is_query,
        };
        let end = log.end();
        let start =
            |checkpoint| Message::StartView { view, checkpoint, log: log.clone(), end, committed: at };
        let messages = vec![
            request(false),
            request(true),
            Message::Reply { view, client: ClientId(5), number: 3, result: vec![1] },
            Message::Forgotten { view, client: ClientId(5), number: 3 },
            Message::SpeculativeReply { view, client: ClientId(5), number: 3, at, summary, result: vec![1] },
            Message::Doubt { view },
            Message::Prepare { view, from: at, before: summary, entries: vec![entry(8)], committed: at },
            Message::Commit { view, committed: at, summary, round: 1 << 40 },
            Message::PrepareOk { view, ordered: at, upto: at, summary, received: at, round: 0 },
            Message::StartViewChange { view },
            Message::Alive { view },
            Message::Suspect { view },
            Message::DoViewChange {
                view,
                last_normal: View::first_of(2),
                log: log.clone(),
                end,
                ordered: at,
                committed: at,
            },
            start(None),
            start(Some(checkpoint.clone())),
            Message::GetState { view, committed: at, after: at },
            Message::State(checkpoint.clone()),
            Message::Group(group),
        ];
        let records = vec![
            Record::View { view, last_normal: View::first_of(1) },
            Record::Append(entry(2)),
            Record::Truncate(at),
            Record::Ordered(at),
            Record::Checkpoint(checkpoint.clone()),
            Record::Adopt(checkpoint),
            Record::Copying(true),
            Record::Install { view, after: at, entries: vec![entry(1), entry(2)] },
        ];
        (messages, records)
    }

    fn check<T: Wire + PartialEq + std::fmt::Debug>(samples: &[T]) {
        let mut random = Random::new(1);
        for sample in samples {
            let mut bytes = Vec::new();
            sample.encode(&mut bytes);
            assert_eq!(T::decode(&bytes).as_ref(), Ok(sample));
            for length in 0..bytes.len() {
                assert!(T::decode(&bytes[..length]).is_err(), "{length} bytes of {sample:?}");
            }
            bytes.push(0);
            assert!(T::decode(&bytes).is_err(), "{sample:?} and more");
            // Whatever comes is a value or none, and a value is read back from its own bytes.
            for _ in 0..2_000 {
                let mut broken = bytes.clone();
                broken.truncate(random.index(bytes.len()) + 1);
                for _ in 0..1 + random.below(3) {
                    let place = random.index(broken.len());
                    broken[place] = random.next().to_be_bytes()[0];
                }
                if let Ok(value) = T::decode(&broken) {
                    let mut again = Vec::new();
                    value.encode(&mut again);
                    assert_eq!(T::decode(&again), Ok(value));
                }
            }
        }
    }

    /// Of files that were written when no client was let in yet.
    #[test]
    fn records_without_sessions_are_read() {
        let entry = [1, 0, 7, 2, 3, 1, 2, 3];
        let append = Entry {
            client: ClientId(7),
            session: SequenceNumber(0),
            number: 2,
            operation: [1, 2, 3].into(),
            is_query: false,
        };
        assert_eq!(Record::decode(&entry), Ok(Record::Append(append)));
        let group = Group::new([NodeId(1)], Protocol::Viewstamped).expect("one");
        let mut checkpoint = vec![4, 5];
        checkpoint.extend([0; 16]);
        group.encode(&mut checkpoint);
        // One client, the number of its last request, its place, and two bytes of result; then the state.
        checkpoint.extend([1, 7, 9, 3, 2, 0, 0, 1, 8]);
        let Ok(Record::Checkpoint(found)) = Record::decode(&checkpoint) else { panic!("no checkpoint") };
        let at = SequenceNumber(3);
        let answered = Answered { session: SequenceNumber(0), number: 9, at, result: vec![0, 0] };
        assert_eq!((&found.answered, &found.state), (&[(ClientId(7), answered)].into(), &vec![8]));
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let (messages, records) = samples();
        check(&messages);
        check(&records);
    }
}
