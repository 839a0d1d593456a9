//! The client: one question at a time.

use super::message::{Answer, Message, Question};
use crate::Timestamp;
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::time::Duration;

/// After so long without an answer a question is asked again.
const PATIENCE: Duration = Duration::from_millis(500);
/// After so many a client gives up.
const ATTEMPTS: u32 = 120;

/// What a client tells its user: one for each question.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What the server said.
    Answer(Answer),
    /// It has not answered for a minute. Whether it has done what it was asked is unknown.
    Silence,
}

/// A process that asks a server, and asks again.
pub struct Client {
    server: NodeId,
    number: u64,
    asked: Option<Asked>,
}

struct Asked {
    question: Question,
    attempts: u32,
}

impl Client {
    /// A client of this server.
    pub fn new(server: NodeId) -> Self {
        Self { server, number: 0, asked: None }
    }

    fn ask(&mut self, now: Time, out: &mut Outbox<Self>) {
        if let Some(asked) = &self.asked {
            let question = asked.question.clone();
            let again = asked.attempts > 1;
            out.send(self.server, Message::Question { number: self.number, again, question });
            out.set_timer((), now + PATIENCE);
        }
    }
}

/// What a client can be asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A question to the server, which is answered by an event.
    Question(Question),
    /// To tell the server that a snapshot has ended: nothing answers.
    CloseSnapshot(Timestamp),
}

impl Process for Client {
    type Message = Message;
    type Timer = ();
    type Request = Ask;
    type Event = Reply;
    type Record = ();

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        match ask {
            Ask::Question(question) => {
                self.number += 1;
                self.asked = Some(Asked { question, attempts: 1 });
                self.ask(now, out);
            }
            Ask::CloseSnapshot(at) => out.send(self.server, Message::SnapshotClosed(at)),
        }
    }

    fn receive(&mut self, _now: Time, _from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Answer { number, answer } if number == self.number && self.asked.is_some() => {
                self.asked = None;
                out.cancel_timer(());
                out.event(Reply::Answer(answer));
            }
            // An answer to a question that was asked twice.
            _ => {}
        }
    }

    fn expire(&mut self, now: Time, _timer: (), out: &mut Outbox<Self>) {
        let Some(asked) = &mut self.asked else { return };
        if asked.attempts == ATTEMPTS {
            self.asked = None;
            out.event(Reply::Silence);
        } else {
            asked.attempts += 1;
            self.ask(now, out);
        }
    }
}
