//! Scans: parts of leaves, each asked for before it is wanted.
//!
//! *Known as:* prefetch, read-ahead.

use super::Client;
use crate::message::{Answer, Direction, Found, Message, Question, Sight};
use fulmar_kv::ShardId;
use fulmar_node::{Outbox, Time};

/// A part of a leaf that was asked for before anybody wanted it. It is not asked for again if the answer is lost.
pub(super) struct Prefetch {
    pub(super) number: u64,
    pub(super) shard: ShardId,
    pub(super) question: Question,
    pub(super) answer: Option<Answer>,
    /// What is wanted by now.
    pub(super) wanted: Option<(Question, u64)>,
}

impl Prefetch {
    /// Whether this is about the same cells of the same snapshot, if it is about the same tree.
    fn may_be_for(&self, shard: ShardId, question: &Question) -> bool {
        match (&self.question, question) {
            (
                Question::Read { from, direction, at, .. },
                Question::Read { from: wanted, direction: towards, at: sight, .. },
            ) => self.shard == shard && from == wanted && direction == towards && at == sight,
            _ => false,
        }
    }
}

/// Whether this is the part of the leaf that was asked for.
fn is_of(answer: &Answer, question: &Question) -> bool {
    match (answer, question) {
        (Answer::Found(Found::Object(part)), Question::Read { object, .. }) => {
            part.id() == *object && part.level() == 0
        }
        (Answer::Found(Found::Piece(piece)), Question::Read { object, .. }) => piece.object == *object,
        _ => false,
    }
}

impl Client {
    /// Asks for a part of a leaf, if that was not done ahead.
    pub(super) fn scan(
        &mut self,
        shard: ShardId,
        question: Question,
        bytes: u64,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        match self.prefetch.take_if(|prefetch| prefetch.may_be_for(shard, &question)) {
            Some(mut prefetch) => match prefetch.answer.take() {
                Some(answer) => self.scanned(shard, (question, bytes), answer, now, out),
                None => {
                    prefetch.wanted = Some((question, bytes));
                    self.prefetch = Some(prefetch);
                    out.set_timer((), now + self.patience() / 2);
                }
            },
            None => self.scan_afresh(shard, question, bytes, now, out),
        }
    }

    fn scan_afresh(
        &mut self,
        shard: ShardId,
        question: Question,
        bytes: u64,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        self.scanning = Some(bytes);
        let number = self.begin(shard, question);
        self.send(number, now, out);
    }

    /// What was asked for ahead, and is wanted, has not come.
    pub(super) fn scan_again(&mut self, prefetch: Prefetch, now: Time, out: &mut Outbox<Self>) {
        let Some((question, bytes)) = prefetch.wanted else { return };
        self.scanning = Some(bytes);
        self.doubt();
        let number = self.begin(prefetch.shard, question);
        if let Some(asked) = self.asked.get_mut(&number) {
            asked.attempts += 1;
        }
        self.send(number, now, out);
    }

    /// What was asked for ahead is here, and wanted.
    pub(super) fn scanned(
        &mut self,
        shard: ShardId,
        (question, bytes): (Question, u64),
        answer: Answer,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !is_of(&answer, &question) {
            return self.scan_afresh(shard, question, bytes, now, out);
        }
        self.prefetch_after(&question, &answer, bytes, out);
        self.tell(answer, out);
    }

    /// Asks for what comes after a part, of the same leaf: a server finds the next leaf from there, if it has it.
    pub(super) fn prefetch_after(
        &mut self,
        question: &Question,
        answer: &Answer,
        bytes: u64,
        out: &mut Outbox<Self>,
    ) {
        let (Question::Read { direction, at, .. }, Answer::Found(Found::Object(part))) = (question, answer)
        else {
            return;
        };
        let end = match direction {
            Direction::Up => part.interval().high(),
            Direction::Down | Direction::DownFromEnd => {
                Some(part.interval().low()).filter(|low| !low.is_empty())
            }
        };
        let is_leaf = part.level() == 0 && matches!(at, Sight::Open(_));
        let (Some(end), Some(layout)) = (end.filter(|_| is_leaf), &self.layout) else { return };
        let direction = if *direction == Direction::Up { Direction::Up } else { Direction::Down };
        let (object, at) = (part.id(), at.clone());
        let question = Question::Read { object, from: end.into(), direction, at, bytes, begun: None };
        let shard = object.shard();
        if let Some(server) = layout.server(shard) {
            self.number += 1;
            let (number, database) = (self.number, layout.database);
            let prefetch =
                Message::Question { number, again: false, database, shard, question: question.clone() };
            out.send(server, prefetch);
            self.prefetch = Some(Prefetch { number, shard, question, answer: None, wanted: None });
        }
    }
}
