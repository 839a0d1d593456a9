//! What one replica does under any driver that keeps to the contract of [`fulmar_node::Process`], however late, early or often.

use crate::applications::Timestamps;
use crate::group::Defect;
use crate::{
    Checkpoint, ClientId, Entry, Event, Group, Log, Member, Message, Options, Protocol, Record, Replica,
    SequenceNumber, StateMachine, Summary, Timer, View, Wish,
};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::sync::Arc;
use std::time::Duration;

const ME: NodeId = NodeId(1);
const LEADER: NodeId = NodeId(0);

fn at(number: u64) -> SequenceNumber {
    SequenceNumber(number)
}

fn group(protocol: Protocol) -> Group {
    Group::new([0, 1, 2].map(NodeId), protocol).expect("three")
}

fn entry(number: u64) -> Entry {
    let (session, operation) = (at(0), Timestamps::take(1).into());
    Entry { client: ClientId(number), session, number: 1, operation, is_query: false }
}

fn log(numbers: impl IntoIterator<Item = u64>) -> Log {
    let mut log = Log::default();
    for number in numbers {
        log.append(entry(number));
    }
    log
}

/// The second of three replicas, and all that it has ever written down.
struct One {
    replica: Replica<Timestamps>,
    out: Outbox<Replica<Timestamps>>,
    records: Vec<Record>,
    sent: Vec<(NodeId, Message)>,
    behind: Vec<NodeId>,
}

impl One {
    fn new(protocol: Protocol, options: Options, records: &[Record]) -> Self {
        let me = Member { node: ME, incarnation: 0 };
        let replica = Replica::new(me, group(protocol), options, Timestamps::default(), records);
        let out = Outbox::after(Lsn(records.len() as u64));
        let mut one = Self { replica, out, records: records.to_vec(), sent: Vec::new(), behind: Vec::new() };
        one.step(|replica, out| replica.start(Time::ZERO, out));
        one
    }

    /// As it is when all that it has written down is on the disk.
    fn begun(protocol: Protocol, options: Options) -> Self {
        let mut one = Self::new(protocol, options, &[]);
        one.sync();
        one
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<Timestamps>, &mut Outbox<Replica<Timestamps>>)) {
        step(&mut self.replica, &mut self.out);
        self.records.append(&mut self.out.records.clone());
        self.sent.append(&mut self.out.sends.clone());
        self.behind.extend(self.out.events.iter().filter_map(|event| match event {
            Event::Behind(from) => Some(*from),
            Event::View(_) => None,
        }));
        self.out.clear();
        assert_eq!(self.replica.problems(), Vec::<String>::new());
    }

    fn hear(&mut self, from: NodeId, message: Message) {
        self.step(|replica, out| replica.receive(Time::ZERO, from, message, out));
    }

    /// A client asks for this.
    fn ask(&mut self, number: u64) {
        let Entry { client, session, number, operation, is_query } = entry(number);
        self.hear(NodeId(7), Message::Request { client, epoch: 0, session, number, operation, is_query });
    }

    fn sync(&mut self) {
        self.sync_until(self.records.len());
    }

    fn sync_until(&mut self, records: usize) {
        let upto = Lsn(records as u64);
        self.step(|replica, out| replica.durable(Time::ZERO, upto, out));
    }

    /// The leader of the first view has the log go on with these, of which so many are committed.
    fn follow(&mut self, before: &Log, numbers: impl IntoIterator<Item = u64>, committed: u64) {
        let message = Message::Prepare {
            view: View::first_of(0),
            from: before.last().next(),
            before: before.summary(before.last()).expect("its own"),
            entries: numbers.into_iter().map(entry).collect(),
            committed: at(committed),
        };
        self.hear(LEADER, message);
    }

    fn said(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.sent).into_iter().map(|(_, message)| message).collect()
    }
}

/// What those come to who have carried out the log up to a place.
fn checkpoint(protocol: Protocol, log: &Log, upto: u64) -> Arc<Checkpoint> {
    let mut execution = crate::execution::Execution::new(Timestamps::default());
    log.entries_after(at(0))
        .take(usize::try_from(upto).expect("few"))
        .for_each(|entry| execution.execute(entry));
    execution.commit(at(upto));
    Arc::new(execution.checkpoint(log.summary(at(upto)).expect("its own"), group(protocol)))
}

/// How far it says that it holds the log of a view.
fn promised(messages: &[Message]) -> Option<(SequenceNumber, Summary)> {
    let promise = |message: &Message| match message {
        Message::PrepareOk { upto, summary, .. } => Some((*upto, *summary)),
        _ => None,
    };
    messages.iter().filter_map(promise).max()
}

fn heartbeat(committed: u64, log: &Log) -> Message {
    heartbeat_in(View::first_of(0), committed, log)
}

fn heartbeat_in(view: View, committed: u64, log: &Log) -> Message {
    let summary = log.summary(at(committed)).expect("its own");
    Message::Commit { view, committed: at(committed), summary, round: 0 }
}

/// A checkpoint that its own log leads to says how far that is committed, and no more: what it has promised after it stays.
#[test]
fn a_checkpoint_of_its_own_log_takes_nothing_of_that_away() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        let whole = log(1..=6);
        one.follow(&Log::default(), 1..=6, 0);
        one.sync();
        one.said();
        one.hear(NodeId(2), Message::State(checkpoint(protocol, &whole, 3)));
        assert_eq!(one.replica.committed(), at(3), "{protocol:?}");
        one.sync();
        one.hear(LEADER, heartbeat(3, &whole));
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
        let mut again = One::new(protocol, Options::default(), &one.records);
        again.sync();
        again.said();
        again.hear(LEADER, heartbeat(3, &whole));
        assert_eq!(promised(&again.said()), Some(last), "{protocol:?}: after a crash");
    }
}

#[test]
fn after_another_checkpoint_nothing_is_said_that_is_not_durable() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        // Where it found them, or its leader put them, they do not stay.
        let numbers = [9, 8, 7, 6, 5, 4];
        match protocol {
            Protocol::Viewstamped => one.follow(&Log::default(), numbers, 0),
            Protocol::Fast | Protocol::Speculative => numbers.into_iter().for_each(|number| one.ask(number)),
        }
        let unsynced = one.records.len();
        one.sync_until(unsynced - 2);
        let whole = log(1..=6);
        one.said();
        // The next one that this leader leads.
        let view = View { epoch: 0, number: 3 };
        let start = |log: Log| Message::StartView {
            view,
            checkpoint: Some(checkpoint(protocol, &whole, 3)),
            log,
            end: whole.end(),
            committed: at(3),
        };
        one.hear(LEADER, start(whole.part(at(3), usize::MAX)));
        // What was promised before, and what is on the disk now, was another log.
        one.sync_until(unsynced);
        one.hear(LEADER, heartbeat_in(view, 3, &whole));
        assert_eq!(promised(&one.said()), None, "{protocol:?}");
        one.sync();
        one.hear(LEADER, heartbeat_in(view, 3, &whole));
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
    }
}

/// It leads the second view, in which it has begun with what it has written down.
fn leading(protocol: Protocol, options: Options) -> One {
    let mut one = One::begun(protocol, options);
    one.hear(NodeId(2), Message::StartViewChange { view: View { epoch: 0, number: 1 } });
    one.sync();
    let empty = Message::DoViewChange {
        view: View { epoch: 0, number: 1 },
        last_normal: View::first_of(0),
        log: Log::default(),
        end: Log::default().end(),
        ordered: at(0),
        committed: at(0),
    };
    one.hear(NodeId(2), empty);
    one.sync();
    assert!(one.replica.leads());
    one
}

/// What is sent to who does not read fills the connection, and what comes then is lost.
#[test]
fn who_does_not_read_is_sent_nothing_again() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let heartbeat = Duration::from_millis(10);
        let options = Options { heartbeat, patience: Duration::from_secs(10), ..Options::default() };
        let mut one = leading(protocol, options);
        one.said();
        one.ask(1);
        one.step(|replica, out| replica.expire(Time::ZERO, Timer::Batch, out));
        one.sync();
        let (mut now, silent) = (Time::ZERO, NodeId(2));
        let mut sends = |one: &mut One, signs: u32| {
            for _ in 0..signs {
                now = now + heartbeat;
                one.step(|replica, out| replica.expire(now, Timer::Heartbeat, out));
            }
            let sent = std::mem::take(&mut one.sent);
            sent.iter().filter(|(to, said)| *to == silent && matches!(said, Message::Prepare { .. })).count()
        };
        assert_eq!(sends(&mut one, 20), 1, "{protocol:?}");
        let (view, summary) = (View { epoch: 0, number: 1 }, log([]).end().1);
        let has_nothing = Message::PrepareOk { view, ordered: at(0), upto: at(0), summary, round: 0 };
        one.hear(silent, has_nothing);
        assert_eq!(sends(&mut one, 20), 1, "{protocol:?}: it may have been lost");
    }
}

/// It lost what a client had asked for first, as its connection was full. Where a client believes nobody but all, nobody has believed
/// what it answered then, and no view has to change for it.
#[test]
fn who_has_found_other_places_than_the_leader_takes_those() {
    for protocol in [Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        [2, 3].into_iter().for_each(|number| one.ask(number));
        one.sync();
        one.said();
        one.follow(&log([]), 1..=3, 0);
        one.sync();
        assert_eq!(
            (one.replica.view(), &one.replica.log),
            (Some(View::first_of(0)), &log(1..=3)),
            "{protocol:?}"
        );
        let promised = promised(&one.said());
        assert_eq!(promised, Some(log(1..=3).end()), "{protocol:?}");
        one.hear(LEADER, heartbeat(3, &log(1..=3)));
        assert_eq!(one.replica.committed(), at(3), "{protocol:?}");
    }
}

#[test]
fn a_leader_whose_log_is_not_what_others_have_committed_leads_no_more() {
    let records = [
        Record::View { view: View::first_of(0), last_normal: View::first_of(0) },
        Record::Install { view: View { epoch: 0, number: 1 }, after: at(0), entries: vec![] },
    ];
    let mut one = leading(Protocol::Viewstamped, Options::default());
    assert_eq!(one.records[one.records.len() - 1], records[1]);
    one.hear(NodeId(2), Message::State(checkpoint(Protocol::Viewstamped, &log(1..=3), 3)));
    assert!(!one.replica.leads());
    assert_eq!(one.replica.committed(), at(3));
}

/// One that has missed what the others no longer have in their logs, up to the third operation, and has all of their log since.
fn copying(protocol: Protocol) -> (One, Log) {
    let mut one = One::begun(protocol, Options { is_copied: true, ..Options::default() });
    one.follow(&Log::default(), 1..=2, 0);
    one.sync();
    let others = log([9, 8, 7]);
    let checkpoint = checkpoint(protocol, &others, 3);
    one.said();
    one.hear(NodeId(2), Message::State(checkpoint));
    assert_eq!(std::mem::take(&mut one.behind), [NodeId(2)]);
    one.follow(&others, 4..=6, 5);
    let mut whole = others;
    for number in 4..=6 {
        whole.append(entry(number));
    }
    (one, whole)
}

#[test]
fn who_copies_follows_and_promises_nothing() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let (mut one, whole) = copying(protocol);
        assert_eq!((one.replica.committed(), one.replica.log().last()), (at(3), at(6)));
        one.sync();
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(promised(&one.said()), None, "{protocol:?}");
        // It carries out no more than those had of whom the parts are: the next part may be as old as the last.
        let copied = |upto, is_whole| Wish::Copied { upto: at(upto), is_whole };
        one.step(|replica, out| replica.request(Time::ZERO, copied(4, false), out));
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(one.replica.committed(), at(4));
        one.step(|replica, out| replica.request(Time::ZERO, copied(4, true), out));
        assert_eq!(promised(&one.said()), None, "not before that is durable");
        one.sync();
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(one.replica.committed(), at(5));
    }
}

#[test]
fn who_copies_goes_on_with_that_after_a_crash() {
    let (mut one, _) = copying(Protocol::Viewstamped);
    one.sync();
    let options = Options { is_copied: true, ..Options::default() };
    for kept in 0..=one.records.len() {
        let copies = one.records[..kept].contains(&Record::Copying(true));
        let mut again = One::new(Protocol::Viewstamped, options.clone(), &one.records[..kept]);
        assert_eq!((again.replica.is_copying(), again.behind.len()), (copies, usize::from(copies)));
        let is_whole = |upto| Wish::Copied { upto, is_whole: true };
        let upto = again.replica.committed();
        again.step(|replica, out| replica.request(Time::ZERO, is_whole(upto), out));
        let again = One::new(Protocol::Viewstamped, options.clone(), &again.records);
        assert!(!again.replica.is_copying());
    }
}

#[test]
fn who_copies_leads_no_view() {
    let (mut one, _) = copying(Protocol::Viewstamped);
    let view = View { epoch: 0, number: 1 };
    one.hear(NodeId(2), Message::StartViewChange { view });
    one.sync();
    let log = log([9, 8, 7]);
    let (end, last_normal) = (log.end(), View::first_of(0));
    one.hear(
        NodeId(2),
        Message::DoViewChange { view, last_normal, log, end, ordered: at(3), committed: at(3) },
    );
    one.sync();
    assert!(!one.replica.leads());
    let whole = Wish::Copied { upto: at(3), is_whole: true };
    one.step(|replica, out| replica.request(Time::ZERO, whole, out));
    assert!(one.replica.leads());
}

/// Whether there is a place at which a crash leaves a log that is neither that of the view before nor that of the one that begins.
fn mixes_views_after_a_crash(protocol: Protocol, defect: Option<Defect>) -> bool {
    let mut one = One::begun(protocol, Options::default());
    one.replica.group = one.replica.group.clone().with_defect(defect);
    Arc::make_mut(&mut one.replica.checkpoint).group = one.replica.group.clone();
    for number in [9, 8] {
        one.ask(number);
    }
    let mut whole = log(1..=3);
    let members = one.replica.group().members()[..1].to_vec();
    let next = one.replica.group().followed_by(members, protocol).expect("one is odd");
    whole.append(Entry::for_group(&next));
    let (view, before) = (View { epoch: 0, number: 2 }, one.records.len());
    let (log, end) = (whole.clone(), whole.end());
    one.hear(NodeId(2), Message::StartView { view, checkpoint: None, log, end, committed: at(0) });
    (before..=one.records.len()).any(|kept| {
        let again = One::new(protocol, Options::default(), &one.records[..kept]);
        let has = |number| again.replica.log().summary(at(number)) == whole.summary(at(number));
        let is_later = again.replica.last_normal == view;
        (is_later, is_later) != (has(4), (1..=4).any(has))
    })
}

#[test]
fn a_crash_leaves_the_log_of_one_view() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        assert!(!mixes_views_after_a_crash(protocol, None), "{protocol:?}");
        assert!(mixes_views_after_a_crash(protocol, Some(Defect::TearsInstall)), "{protocol:?}");
    }
}

/// One whose queries tell how much was executed, and that nobody may execute.
#[derive(Default)]
struct Counter(u64);

impl StateMachine for Counter {
    fn execute(&mut self, _number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        assert_eq!(operation, b"add", "not a query");
        self.0 += 1;
        vec![]
    }
    fn rollback(&mut self, _from: SequenceNumber) {
        self.0 = 0;
    }
    fn commit(&mut self, _upto: SequenceNumber) {}
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        self.0.to_be_bytes().into()
    }
    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }
    fn restore(&mut self, _at: SequenceNumber, _snapshot: &[u8]) -> bool {
        true
    }
}

#[test]
fn a_query_is_not_executed_under_speculation() {
    let me = Member { node: ME, incarnation: 0 };
    let group = group(Protocol::Speculative);
    let options = Options { is_durable: false, ..Options::default() };
    let mut replica = Replica::new(me, group, options, Counter::default(), &[]);
    let mut out = Outbox::default();
    replica.start(Time::ZERO, &mut out);
    let request = |client, operation: &[u8], is_query| Message::Request {
        client: ClientId(client),
        epoch: 0,
        session: at(0),
        number: 1,
        operation: operation.into(),
        is_query,
    };
    replica.receive(Time::ZERO, NodeId(7), request(1, b"add", false), &mut out);
    out.clear();
    replica.receive(Time::ZERO, NodeId(7), request(2, b"how many", true), &mut out);
    let told = out.sends.iter().find_map(|(_, message)| match message {
        Message::SpeculativeReply { result, at, .. } => Some((result.clone(), *at)),
        _ => None,
    });
    assert_eq!(told, Some((1_u64.to_be_bytes().into(), at(2))));
    assert_eq!(replica.state_machine().0, 1);
}

#[test]
fn a_timer_that_was_put_off_means_nothing() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    one.step(|replica, out| replica.expire(Time::ZERO, Timer::Patience, out));
    assert_eq!(one.replica.view(), Some(View::first_of(0)));
}

#[test]
fn who_leaves_the_group_promises_nothing_in_the_next() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let others = [0, 2, 3].map(|node| Member { node: NodeId(node), incarnation: 0 });
    let next = one.replica.group().followed_by(others.to_vec(), Protocol::Viewstamped).expect("three");
    let mut whole = Log::default();
    whole.append(Entry::for_group(&next));
    let view = View { epoch: 0, number: 2 };
    one.hear(
        NodeId(2),
        Message::StartView { view, checkpoint: None, log: whole.clone(), end: whole.end(), committed: at(0) },
    );
    one.sync();
    one.said();
    let summary = whole.summary(at(1)).expect("its own");
    one.hear(NodeId(2), Message::Commit { view, committed: at(1), summary, round: 1 });
    assert_eq!(one.replica.group(), &next);
    assert_eq!(promised(&one.said()), None);
}

/// Before, nobody can tell whether it is in the view that the others are in.
#[test]
fn who_begins_again_takes_part_when_it_hears_its_leader() {
    let before = One::begun(Protocol::Viewstamped, Options::default());
    let mut one = One::new(Protocol::Viewstamped, Options::default(), &before.records);
    one.sync();
    assert!(one.replica.view().is_some() && !one.replica.takes_part());
    one.hear(LEADER, heartbeat(0, &Log::default()));
    assert!(one.replica.takes_part());
    let silence = Time::ZERO + Options::default().patience * 4;
    one.step(|replica, out| replica.expire(silence, Timer::Patience, out));
    assert!(!one.replica.takes_part());
}

#[test]
fn a_leader_that_is_slow_is_waited_for_longer_and_not_for_ever() {
    let options = Options::default();
    let mut one = One::begun(Protocol::Viewstamped, options.clone());
    let log = Log::default();
    let mut now = Time::ZERO;
    let mut waits = |gap: Duration| {
        now = now + gap;
        one.step(|replica, out| replica.receive(now, LEADER, heartbeat(0, &log), out));
        one.replica.patience_until.since(now)
    };
    assert_eq!(waits(options.heartbeat), options.patience);
    // It was cut off.
    assert_eq!(waits(options.patience * 4), options.patience);
    assert_eq!(waits(options.patience * 3 / 4), options.patience * 3 / 2);
    assert_eq!(waits(options.patience * 2), options.patience * 3);
    // What is long ago does not count.
    let last = (0..500).map(|_| waits(options.heartbeat)).last();
    assert_eq!(last, Some(options.patience));
}

/// Where one of two backups was cut off, it waited for longer than the other, who could do nothing without it.
#[test]
fn a_leader_that_is_slow_is_waited_for_no_longer_where_another_does_not_hear_it_either() {
    let patience = Options::default().patience;
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let silence = Message::Suspect { view: View::first_of(0) };
    let heard = Time::ZERO + patience;
    for (since, is_patient) in [(patience / 2, true), (patience, false)] {
        one.step(|replica, out| replica.receive(heard, LEADER, heartbeat(0, &Log::default()), out));
        assert!(one.replica.patience_until.since(heard) > patience * 3 / 2);
        one.step(|replica, out| replica.receive(heard + since, NodeId(2), silence.clone(), out));
        // A sign of the leader that has come by now would be heard first.
        assert!(one.replica.view().is_some());
        one.step(|replica, out| replica.expire(heard + since, Timer::Patience, out));
        assert_eq!(one.replica.view().is_some(), is_patient);
        assert!(one.replica.patience_until <= heard + since + patience);
    }
}

/// What was committed where it came, without a leader that had given it its place, keeps that in a view that begins with logs whose
/// parts come one by one, and of which the new leader has the rest itself.
#[test]
fn a_log_that_comes_in_parts_is_no_shorter_at_its_beginning() {
    let mut one = One::begun(Protocol::Fast, Options::default());
    let (whole, first) = (log(1..=6), View::first_of(0));
    one.hear(
        LEADER,
        Message::StartView {
            view: first,
            checkpoint: Some(checkpoint(Protocol::Fast, &whole, 3)),
            log: Log::after(at(3), whole.summary(at(3)).expect("its own")),
            end: log(1..=3).end(),
            committed: at(3),
        },
    );
    for number in 4..=6 {
        one.ask(number);
    }
    let view = first.after(1);
    [LEADER, NodeId(2)].into_iter().for_each(|other| one.hear(other, Message::StartViewChange { view }));
    one.sync();
    for parts in [1..=4, 5..=5] {
        let mut part = log(1..=*parts.end());
        part.drop_until(at(parts.start() - 1));
        one.hear(
            LEADER,
            Message::DoViewChange {
                view,
                last_normal: first,
                log: part,
                end: whole.end(),
                ordered: at(0),
                committed: at(0),
            },
        );
    }
    assert_eq!(one.replica.view(), Some(view));
    assert_eq!(one.replica.log, whole.part(at(3), usize::MAX));
}

/// Another has committed more, and has nothing before that in its log any more, as one that copies a state: who is to lead the view
/// has that itself, and needs nobody to say so (seed 11707).
#[test]
fn who_has_what_others_have_committed_begins_a_view_with_it() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let (whole, first) = (log(1..=6), View::first_of(0));
    one.follow(&log([]), 1..=6, 3);
    one.sync();
    let view = first.after(1);
    [LEADER, NodeId(2)].into_iter().for_each(|other| one.hear(other, Message::StartViewChange { view }));
    one.sync();
    let mut late = whole.clone();
    late.drop_until(at(5));
    let (end, ordered, committed) = (whole.end(), at(6), at(5));
    one.hear(
        NodeId(2),
        Message::DoViewChange { view, last_normal: first, log: late, end, ordered, committed },
    );
    assert_eq!(one.replica.view(), Some(view));
    assert_eq!(one.replica.log, whole);
}

/// A client is told that it is forgotten after all when it has been let in and asked again: it did not hear of that.
#[test]
fn who_asks_to_be_let_in_again_is_told_what_it_has() {
    let me = Member { node: LEADER, incarnation: 0 };
    let alone = Group::new([LEADER], Protocol::Viewstamped).expect("one");
    let options = Options { is_durable: false, ..Options::default() };
    let mut replica = Replica::new(me, alone, options, Timestamps::default(), &[]);
    let mut out = Outbox::default();
    replica.start(Time::ZERO, &mut out);
    let mut ask = |session: u64, number: u64| {
        let operation = if number == 0 { Vec::new() } else { Timestamps::take(1) };
        let (client, session, operation) = (ClientId(9), at(session), operation.into());
        let request = Message::Request { client, epoch: 0, session, number, operation, is_query: false };
        replica.receive(Time::ZERO, NodeId(7), request, &mut out);
        let replies = out.sends.iter().filter_map(|(_, message)| match message {
            Message::Reply { number, result, .. } => Some((*number, result.to_vec())),
            _ => None,
        });
        let replies: Vec<_> = replies.collect();
        out.clear();
        replies
    };
    let let_in = ask(0, 0);
    let [(0, session)] = &let_in[..] else { panic!("{let_in:?}") };
    let session = u64::from_be_bytes(session[..].try_into().expect("a place"));
    assert_eq!(ask(session, 4).len(), 1);
    assert_eq!(ask(0, 0), let_in);
}
