//! The client: what its user wants of one database, asked of the servers that hold it.
//!
//! *Known as:* the client library, smart client.

mod coordinator;
mod scan;
mod waiting;

use crate::OUTCOME_KEPT;
use crate::map::Layout;
use crate::message::{Answer, Message, Question};
use crate::name::{DatabaseName, DatabaseNumber};
use coordinator::Committing;
use fulmar_kv::{Basis, Commit, Durability, ShardCounts, ShardId, Timestamp, TransactionId};
use fulmar_node::{NodeId, Outbox, Process, Time};
use scan::Prefetch;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// After so long without an answer the question is asked again, and after half as long it is found out anew whom to ask…
const PATIENCE: Duration = Duration::from_millis(500);
/// …or after as long as it takes at so many bytes a second: a large one that is sent again before it has arrived gets in
/// its own way.
const SLOWEST: u64 = 32 << 20;
/// How long a client waits for servers to hear of a change that others have told it of, and twice as long each time that they
/// have not, a few times.
const PAUSE: Duration = Duration::from_millis(20);
const MOST_DOUBLINGS: u32 = 3;
/// Who does not answer may be gone, and another in its place in a moment: so often, and so many times, is asked who that is.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 10;
/// After so long a client gives up, if it was told nothing else; a question is sent twice at least.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// What a client can be asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A question about a shard, which is answered by an event.
    Question(ShardId, Question),
    /// To read a part of a leaf, from a snapshot that is open, after which the reader is going to want the next part: that
    /// is asked for, so many bytes, while the reader is busy with this one.
    Scan(ShardId, Question, u64),
    /// To commit a transaction of this shard alone; on the newest snapshot, if what was read is as the basis says.
    Commit(ShardId, Arc<Commit>, Option<Basis>, Durability),
    /// To commit a transaction whose parts are these shards', two at least.
    CommitParts(BTreeMap<ShardId, Commit>, Durability),
    /// How many shards the database has.
    ShardCounts,
    /// The same, after a little while and of another server: what is known of where the shards are seems to be old.
    Reconsider,
    /// From now on this server is asked where the database is.
    Server(NodeId),
    /// From now on an answer may take so long in all, and [`Reply::Waiting`] tells that it takes its time.
    Limit(Option<Duration>),
    /// To tell who has opened it that a snapshot has ended: nothing answers.
    CloseSnapshot(Timestamp),
    /// Not to wait any longer for what was asked: [`Reply::Silence`] follows.
    GiveUp,
}

/// What a client tells its user: one for each question, but for [`Reply::Waiting`].
#[derive(Clone, Debug)]
pub enum Reply {
    /// What the server said.
    Answer(Answer),
    /// How many shards there are.
    ShardCounts(ShardCounts),
    /// There is no answer yet, and the question was sent again.
    Waiting,
    /// There was no answer for a minute, or for as long as the client waits, or it was told to give up. Whether what was asked is done is
    /// unknown.
    Silence,
}

/// A process that asks servers, and asks again. It finds out where the database is when it has to, as often as it has to.
pub struct Client {
    /// Distinguishes its transactions from those of others.
    name: u64,
    /// The newest time that the clock has reached, as far as it has heard, and when it last heard one.
    heard: Timestamp,
    heard_at: Time,
    /// Whom to ask where the database is: nobody at first.
    server: Option<NodeId>,
    database: DatabaseName,
    /// Whether to make the database, if there is none, when it is first opened.
    create: bool,
    layout: Option<Layout>,
    /// Where servers of the database listen, or did.
    known: BTreeMap<NodeId, String>,
    number: u64,
    asked: BTreeMap<u64, Asked>,
    prefetch: Option<Prefetch>,
    /// How many bytes to ask for ahead, when what is asked now is answered.
    scanning: Option<u64>,
    committing: Option<Committing>,
    /// How long an answer may take in all, and whether it tells that it waits.
    limit: Option<Duration>,
    tells: bool,
    /// Who was asked last.
    waits_for: Option<NodeId>,
    /// What somebody has said that takes no part there, while nobody answers.
    told: Option<(NodeId, String)>,
    was_sent: bool,
    /// How often since the user has asked a shard was not where it was taken to be, or who holds it was gone.
    misses: u32,
    /// Whether it was told so since it has asked last.
    has_missed: bool,
    /// Snapshots that are open, and the servers that have opened them.
    snapshots: BTreeMap<Timestamp, Vec<NodeId>>,
    /// The last question that was answered with one, and by whom.
    opened: Option<(u64, NodeId)>,
}

struct Asked {
    shard: ShardId,
    question: Question,
    attempts: u32,
    /// Since when.
    since: Option<Time>,
    /// About how long it is, bytes.
    size: u64,
    /// Whether it has been sent: then a server may have done what it asks, whatever it said when it was sent again.
    sent: bool,
    /// Who has it, since when, and may answer yet.
    awaited: Option<(NodeId, Time)>,
}

impl Asked {
    /// Whether a server may have forgotten by now that it has done what this asks.
    fn is_too_late_to_ask_again(&self, now: Time) -> bool {
        let commits =
            matches!(self.question, Question::Commit(..) | Question::CommitUnread(..) | Question::Decide(..));
        commits && self.since.is_some_and(|since| now.since(since) >= OUTCOME_KEPT / 2)
    }
}

impl Client {
    /// A client for the database of this name; `name` is a number that no other client has, such as one by chance.
    pub fn new(name: u64, database: DatabaseName, create: bool) -> Self {
        Self {
            // The first bit is for servers' own.
            name: name & (u64::MAX >> 1),
            heard: Timestamp(0),
            heard_at: Time::ZERO,
            server: None,
            database,
            create,
            layout: None,
            known: BTreeMap::new(),
            number: 0,
            asked: BTreeMap::new(),
            prefetch: None,
            scanning: None,
            committing: None,
            limit: None,
            tells: false,
            waits_for: None,
            told: None,
            was_sent: false,
            misses: 0,
            has_missed: false,
            snapshots: BTreeMap::new(),
            opened: None,
        }
    }

    /// Where a server of the database listens, if that is known.
    pub fn address(&self, server: NodeId) -> Option<&str> {
        self.known.get(&server).map(String::as_str)
    }

    /// Whether anything of what it was asked for last has been sent.
    pub(super) const fn was_sent(&self) -> bool {
        self.was_sent
    }

    fn begin(&mut self, shard: ShardId, question: Question) -> u64 {
        self.number += 1;
        if self.asked.is_empty() {
            self.misses = 0;
        }
        let size = size(&question);
        self.asked.insert(
            self.number,
            Asked { shard, question, attempts: 1, since: None, size, sent: false, awaited: None },
        );
        self.number
    }

    /// Sends what was asked to who should know.
    fn send(&mut self, number: u64, now: Time, out: &mut Outbox<Self>) {
        self.send_by(number, false, now, out);
    }

    /// As [`Client::send`]; the layout has just been asked for, if `is_new`.
    fn send_by(&mut self, number: u64, is_new: bool, now: Time, out: &mut Outbox<Self>) {
        let patience = self.patience();
        let Some(asked) = self.asked.get_mut(&number) else { return };
        if asked.sent && asked.is_too_late_to_ask_again(now) {
            // It is over as soon as the process is asked whether it is.
            return out.set_timer((), now);
        }
        let until = match asked.attempts {
            1 => patience / 2,
            attempts if attempts < 2 + LOOKS => LOOK,
            _ => patience,
        };
        out.set_timer((), now + until);
        asked.since.get_or_insert(now);
        self.waits_for = self.server;
        let begins_unread = !asked.sent && matches!(asked.question, Question::CommitUnread(..));
        if begins_unread && now.since(self.heard_at) >= OUTCOME_KEPT / 2 {
            // Others that have committed since may be forgotten when this is asked again: who tells where it is tells a newer time.
            self.layout = None;
        }
        let Some(layout) = &self.layout else { return self.open(number, out) };
        let Some(server) = layout.server(asked.shard) else {
            // The shard is newer than what is known here. If it is newer than what the server knows, too, it is asked again
            // in a while.
            self.layout = None;
            if !is_new {
                self.open(number, out);
            }
            return;
        };
        self.waits_for = Some(server);
        if is_new && asked.awaited.is_some_and(|(by, since)| by == server && now.since(since) < patience) {
            return;
        }
        asked.awaited = Some((server, now));
        let again = std::mem::replace(&mut asked.sent, true);
        if let Question::CommitUnread(_, _, basis, _) = &mut asked.question
            && !again
        {
            basis.after = self.heard;
        }
        if let Question::Prepare(_) = asked.question
            && let Some(committing) = &mut self.committing
        {
            committing.asked.insert((server, layout.database, asked.shard));
        }
        self.was_sent = true;
        let (database, shard) = (layout.database, asked.shard);
        let question = asked.question.clone();
        out.send(server, Message::Question { number, again, database, shard, question });
    }

    /// The clock has reached this.
    fn hear(&mut self, reached: Timestamp, now: Time) {
        self.heard = self.heard.max(reached);
        self.heard_at = now;
    }

    /// The database may be elsewhere by now, and who has told where it is may be gone: another server is to say.
    fn doubt(&mut self) {
        self.layout = None;
        let after = |server: NodeId| self.known.range(NodeId(server.0 + 1)..).next();
        let next = self.server.and_then(after).or_else(|| self.known.iter().next());
        if let Some((next, _)) = next {
            self.server = Some(*next);
        }
    }

    /// Another may hold a shard in a moment. The server that has told where it is hears of that, too, unless it never does.
    fn ask_soon(&mut self, now: Time, out: &mut Outbox<Self>) {
        // If nobody has said since where it is, it is another's turn already: who doubts twice passes over one that may know.
        if self.misses > 0 && self.layout.is_some() {
            self.doubt();
        }
        self.layout = None;
        let pause = PAUSE * (1 << self.misses.min(MOST_DOUBLINGS));
        self.misses += 1;
        self.has_missed = true;
        out.set_timer((), now + pause.min(self.patience()));
    }

    fn opening(&self) -> Question {
        Question::Open { name: self.database.clone(), create: self.create }
    }

    fn open(&self, number: u64, out: &mut Outbox<Self>) {
        let Some(server) = self.server else { return };
        let question = self.opening();
        let (database, shard) = (DatabaseNumber::default(), ShardId(0));
        out.send(server, Message::Question { number, again: false, database, shard, question });
    }

    fn tell(&mut self, answer: Answer, out: &mut Outbox<Self>) {
        self.asked.clear();
        self.committing = None;
        out.cancel_timer(());
        out.event(Reply::Answer(answer));
    }

    /// What is asked still when something else is asked for has failed, as far as the user knows: no answer to it is told.
    fn abandon(&mut self) {
        self.asked.clear();
        self.committing = None;
        self.scanning = None;
    }

    /// Waits no longer for what was asked.
    fn fall_silent(&mut self, out: &mut Outbox<Self>) {
        self.give_up(out);
        self.abandon();
        out.event(Reply::Silence);
    }

    fn send_all(&mut self, is_new: bool, now: Time, out: &mut Outbox<Self>) {
        let numbers: Vec<_> = self.asked.keys().copied().collect();
        for number in numbers {
            self.send_by(number, is_new, now, out);
        }
    }
}

impl Process for Client {
    type Message = Message;
    type Timer = ();
    type Request = Ask;
    type Event = Reply;
    type Record = ();

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        if !matches!(ask, Ask::Server(_) | Ask::Limit(_) | Ask::CloseSnapshot(_) | Ask::GiveUp) {
            self.abandon();
            self.was_sent = false;
            self.told = None;
        }
        match ask {
            Ask::Question(shard, question) => {
                let number = self.begin(shard, question);
                self.send(number, now, out);
            }
            Ask::Scan(shard, question, bytes) => self.scan(shard, question, bytes, now, out),
            Ask::Commit(shard, commit, basis, durability) => {
                let transaction = TransactionId { client: self.name, number: self.number + 1 };
                let question = match basis {
                    Some(basis) => Question::CommitUnread(transaction, commit, basis, durability),
                    None => Question::Commit(transaction, commit, durability),
                };
                let number = self.begin(shard, question);
                self.send(number, now, out);
            }
            Ask::CommitParts(parts, durability) => self.commit(parts, durability, now, out),
            Ask::ShardCounts => {
                self.layout = None;
                let number = self.begin(ShardId(0), self.opening());
                self.send(number, now, out);
            }
            Ask::Reconsider => {
                self.doubt();
                self.begin(ShardId(0), self.opening());
                out.set_timer((), now + PAUSE);
            }
            Ask::Server(server) => self.server = Some(server),
            Ask::Limit(limit) => (self.limit, self.tells) = (limit, true),
            Ask::CloseSnapshot(at) => {
                self.prefetch = None;
                if let Some(servers) = self.snapshots.get_mut(&at)
                    && let Some(server) = servers.pop()
                {
                    if servers.is_empty() {
                        self.snapshots.remove(&at);
                    }
                    out.send(server, Message::SnapshotClosed(at));
                }
            }
            Ask::GiveUp => self.fall_silent(out),
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let (number, answer) = match message {
            Message::Answer { number, answer } => (number, answer),
            Message::Status(status) => return self.note_failures(from, status.failures),
            _ => return,
        };
        if let Some(prefetch) = &mut self.prefetch
            && prefetch.number == number
        {
            match prefetch.wanted.take() {
                None => prefetch.answer = Some(answer),
                Some(wanted) => {
                    let shard = prefetch.shard;
                    self.prefetch = None;
                    self.scanned(shard, wanted, answer, now, out);
                }
            }
            return;
        }
        // Others answer what was asked twice.
        let Some(asked) = self.asked.get_mut(&number) else {
            // A snapshot that was opened for that is nobody's, unless this tells of the same once more.
            if let Answer::Opened(at, _) = answer
                && self.opened != Some((number, from))
                && !self.snapshots.contains_key(&at)
            {
                out.send(from, Message::SnapshotClosed(at));
            }
            return;
        };
        match answer {
            Answer::Open(layout, reached) => {
                let asks_shards = matches!(asked.question, Question::Open { .. });
                self.hear(reached, now);
                if self.layout.is_none() {
                    let shards = ShardCounts {
                        founded: layout.founded,
                        all: u16::try_from(layout.shards.len()).unwrap_or(u16::MAX),
                    };
                    self.known.extend(layout.servers.clone());
                    self.layout = Some(layout);
                    // Whoever has had it open once does not mean to have an empty one instead.
                    self.create = false;
                    if asks_shards {
                        self.asked.clear();
                        out.cancel_timer(());
                        return out.event(Reply::ShardCounts(shards));
                    }
                    self.send_all(true, now, out);
                }
            }
            // Where it is, is asked in a while: a server that has just begun does not know it either.
            Answer::Elsewhere => {
                asked.awaited = None;
                self.ask_soon(now, out);
            }
            answer => {
                if let (Answer::Opened(at, _), _)
                | (Answer::At(at), Question::OpenSnapshot | Question::ReopenSnapshot(_)) =
                    (&answer, &asked.question)
                {
                    self.snapshots.entry(*at).or_default().push(from);
                    self.opened = Some((number, from));
                }
                // What is only prepared may be ahead of the clock.
                if let Answer::Opened(at, _) | Answer::At(at) = &answer
                    && !matches!(asked.question, Question::Prepare(_))
                {
                    self.hear(*at, now);
                }
                let asked = self.asked.remove(&number);
                if let (Some(bytes), Some(asked)) = (self.scanning.take(), asked) {
                    self.prefetch_after(&asked.question, &answer, bytes, out);
                }
                self.conclude(answer, now, out);
            }
        }
    }

    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        let layout = self.layout.as_ref();
        let is_asked =
            |shard| layout.and_then(|layout| layout.server(shard)).map_or(self.server, Some) == Some(peer);
        // What was asked for ahead, and is not wanted yet, is asked for when it is.
        let prefetch =
            self.prefetch.take_if(|prefetch| prefetch.answer.is_none() && is_asked(prefetch.shard));
        let wanted = prefetch.filter(|prefetch| prefetch.wanted.is_some());
        let waits = wanted.is_some() || self.asked.values().any(|asked| is_asked(asked.shard));
        self.prefetch = self.prefetch.take().or(wanted);
        if waits {
            self.asked
                .values_mut()
                .for_each(|asked| asked.awaited = asked.awaited.filter(|(by, _)| *by != peer));
            if self.server == Some(peer) {
                self.doubt();
            }
            self.ask_soon(now, out);
        }
    }

    fn expire(&mut self, now: Time, _timer: (), out: &mut Outbox<Self>) {
        if let Some(prefetch) = self.prefetch.take_if(|prefetch| prefetch.wanted.is_some()) {
            return self.scan_again(prefetch, now, out);
        }
        let fewest = if self.limit.is_some() { 1 } else { 2 };
        let limit = self.limit() + self.on_its_way();
        let is_over = |asked: &Asked| {
            let is_late = asked.since.is_some_and(|since| now.since(since) >= limit);
            is_late && asked.attempts >= fewest || asked.is_too_late_to_ask_again(now)
        };
        if self.asked.values().any(is_over) {
            return self.fall_silent(out);
        }
        self.asked.values_mut().for_each(|asked| asked.attempts += 1);
        if !std::mem::take(&mut self.has_missed) {
            self.doubt();
        }
        self.send_all(false, now, out);
        let has_waited = |asked: &Asked| asked.since.is_some_and(|since| now.since(since) >= PATIENCE);
        if self.tells && self.asked.values().any(has_waited) {
            let asked = BTreeSet::from_iter(self.server.into_iter().chain(self.waits_for));
            asked.into_iter().for_each(|server| out.send(server, Message::Examine));
            out.event(Reply::Waiting);
        }
    }
}

/// About how long a question is, bytes.
fn size(question: &Question) -> u64 {
    match question {
        Question::Commit(_, commit, _) | Question::CommitUnread(_, commit, ..) => bytes(commit),
        Question::Prepare(prepare) => bytes(&prepare.commit),
        _ => 0,
    }
}

/// Bytes of what a commit writes.
pub(crate) fn bytes(commit: &Commit) -> u64 {
    commit.writes.iter().map(|write| write.changes.size() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that failed, as a server refused the connection, left its question: its answer was told to who asked next.
    #[test]
    fn nobody_is_told_the_answer_to_what_was_asked_before() {
        let server = NodeId(0);
        let mut client = Client::new(1, "birds".try_into().expect("a good name"), false);
        let mut out = Outbox::default();
        client.request(Time::ZERO, Ask::Server(server), &mut out);
        let newest = || Ask::Question(ShardId(0), Question::Newest);
        client.request(Time::ZERO, newest(), &mut out);
        client.request(Time::ZERO, newest(), &mut out);
        let layout = Layout {
            database: DatabaseNumber(0),
            founded: 1,
            shards: vec![server],
            servers: BTreeMap::from([(server, "127.0.0.1:1".into())]),
        };
        for (number, answer) in [
            (2, Answer::Open(layout, Timestamp(0))),
            (1, Answer::At(Timestamp(1))),
            (2, Answer::At(Timestamp(2))),
            (2, Answer::At(Timestamp(2))),
        ] {
            client.receive(Time::ZERO, server, Message::Answer { number, answer }, &mut out);
        }
        assert!(matches!(out.events[..], [Reply::Answer(Answer::At(Timestamp(2)))]), "{:?}", out.events);
    }

    /// The server that has told where things are ends, and so does its connection: all others have their turn. One was passed over each
    /// time, and might have been the only one that could be reached.
    #[test]
    fn nobody_is_passed_over_when_a_server_ends() {
        let [first, second, ending] = [0, 1, 2].map(NodeId);
        let mut client = Client::new(1, "birds".try_into().expect("a good name"), false);
        let mut out = Outbox::default();
        client.request(Time::ZERO, Ask::Server(ending), &mut out);
        client.request(Time::ZERO, Ask::Question(ShardId(0), Question::Newest), &mut out);
        let layout = Layout {
            database: DatabaseNumber(0),
            founded: 1,
            shards: vec![ending],
            servers: [first, second, ending].map(|server| (server, "127.0.0.1:1".into())).into(),
        };
        for answer in [Answer::Open(layout, Timestamp(0)), Answer::Elsewhere] {
            client.receive(Time::ZERO, ending, Message::Answer { number: 1, answer }, &mut out);
        }
        client.disconnected(Time::ZERO, ending, &mut out);
        let mut asked = Vec::new();
        for at in 1..=2 {
            out.sends.clear();
            client.expire(Time::from_nanos(at * 1_000_000_000), (), &mut out);
            asked.extend(out.sends.iter().map(|(to, _)| *to));
        }
        assert_eq!(asked, [first, second]);
    }
}
