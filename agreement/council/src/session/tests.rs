//! Sessions in the simulator. What runs in them is the algorithm of Pease, Shostak and Lamport for n = 4 and t = 1: each says its value,
//! then what it has heard, and the majority decides.

use super::*;
use crate::council::Member;
use fulmar_sim::{Delay, Link as Cable, Seed, Sim, seeds};
use std::collections::BTreeMap;
use std::iter;

/// How long a round takes, in which a message takes up to a third.
const ROUND: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
const LIAR: usize = 3;

struct Majority {
    own: usize,
    value: Digest,
    /// What each says, and what each says that the others say.
    heard: Vec<Vec<Option<Digest>>>,
    decision: Option<Option<Digest>>,
}

fn majority(values: impl Iterator<Item = Option<Digest>> + Clone) -> Option<Digest> {
    let count = values.clone().count();
    let mut often =
        values.clone().filter(|value| 2 * values.clone().filter(|other| other == value).count() > count);
    often.next().flatten()
}

impl Majority {
    fn new(own: usize, value: Digest) -> Self {
        Self { own, value, heard: Vec::new(), decision: None }
    }
}

#[derive(Clone)]
struct Heard(Vec<Option<Digest>>);

impl Wire for Heard {
    fn encode(&self, bytes: &mut Vec<u8>) {
        for value in &self.0 {
            value.unwrap_or(Digest::from_bytes([0; 32])).encode(bytes);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let values = iter::from_fn(|| Digest::decode(bytes)).collect::<Vec<_>>();
        let is_whole = bytes.is_empty() && [1, 4].contains(&values.len());
        let none = Digest::from_bytes([0; 32]);
        is_whole.then(|| {
            Self(values.into_iter().map(|value| Some(value).filter(|value| *value != none)).collect())
        })
    }
}

impl Synchronous for Majority {
    type Message = Heard;
    type Value = Decision<Digest>;

    fn send(&mut self, round: u32) -> Heard {
        if round == 1 {
            return Heard(vec![Some(self.value)]);
        }
        Heard(self.heard.iter().map(|values| values.first().copied().flatten()).collect())
    }

    fn receive(&mut self, round: u32, messages: &[Option<Heard>]) {
        let values = |message: &Option<Heard>| message.clone().map_or_else(Vec::new, |Heard(values)| values);
        let mut heard = messages.iter().map(values).collect::<Vec<_>>();
        if round == 1 {
            heard[self.own] = vec![Some(self.value)];
            self.heard = heard;
            return;
        }
        heard[self.own] = self.send(2).0;
        let said = (0..4).map(|of| {
            let by = (0..4).filter(|by| *by != of).map(|by| heard[by].get(of).copied().flatten());
            majority(by.collect::<Vec<_>>().into_iter())
        });
        self.decision = Some(majority(said.collect::<Vec<_>>().into_iter()));
    }

    fn decision(&self) -> Option<Decision<Digest>> {
        self.decision.map(|value| value.map_or(Decision::Bottom, Decision::Value))
    }

    fn has_halted(&self) -> bool {
        self.decision.is_some()
    }
}

fn identity(number: usize) -> Arc<Identity> {
    Arc::new(Identity::from_seed(&[u8::try_from(number).expect("a few"); 32]))
}

fn council() -> Arc<Council> {
    let member = |number: usize| Member { address: number.to_string(), key: identity(number).public() };
    let council = Council::new("eggs".into(), (0..4).map(member).collect(), 1, ROUND);
    Arc::new(council.expect("four, of which one may lie"))
}

fn session(own: usize, value: Digest) -> Session<Majority> {
    Session::new(council(), identity(own), own, PATIENCE, Majority::new(own, value))
}

/// A member, correct or not: the liar says what chance has it say, whenever it is told anything.
enum Actor {
    Correct(Box<Session<Majority>>),
    Liar(fulmar_node::Random, Vec<Frame>),
}

impl Process for Actor {
    type Message = Frame;
    type Timer = ();
    type Request = Link;
    type Event = News;
    type Record = ();

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        if let Self::Correct(session) = self {
            out.take_over(|out| session.start(now, out), |()| (), |news| news, |()| ());
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, frame: Frame, out: &mut Outbox<Self>) {
        match self {
            Self::Correct(session) => {
                out.take_over(|out| session.receive(now, from, frame, out), |()| (), |news| news, |()| ());
            }
            Self::Liar(random, seen) => {
                // Seen before, now perhaps with another's number, or to another member.
                seen.push(frame);
                let number = usize::try_from(random.below(seen.len() as u64)).expect("it fits");
                let mut frame = seen[number].clone();
                if let Frame::Round { round, .. } = &mut frame
                    && random.below(4) == 0
                {
                    *round = u32::try_from(random.below(4)).expect("it fits");
                }
                out.send(node(usize::try_from(random.below(3)).expect("it fits")), frame);
            }
        }
    }

    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        if let Self::Correct(session) = self {
            out.take_over(|out| session.expire(now, (), out), |()| (), |news| news, |()| ());
        }
    }

    fn request(&mut self, now: Time, link: Link, out: &mut Outbox<Self>) {
        if let Self::Correct(session) = self {
            out.take_over(|out| session.request(now, link, out), |()| (), |news| news, |()| ());
        }
    }
}

type Outcomes = BTreeMap<NodeId, Result<Outcome, Failure>>;

/// Runs a session in which messages take between a tenth and all of `slowest`, each link always as long; members come in the first ten
/// seconds, and are connected with those that are there within twice `slowest`; member 3 is what `last` makes.
fn run(seed: Seed, slowest: Duration, last: fn(u64) -> Actor, values: [&'static [u8]; 4]) -> Outcomes {
    let mut random = fulmar_node::Random::new(seed.number);
    let number = seed.number;
    let mut sim = Sim::new(seed, move |id, _: &[()]| match id.0 as usize {
        LIAR => last(number),
        own => Actor::Correct(Box::new(session(own, Digest::of(values[own])))),
    });
    (0..4).for_each(|id| sim.add(NodeId(id)));
    let come = [(); 4].map(|()| random.below(10_000));
    let tenth = u64::try_from(slowest.as_nanos() / 10).expect("it fits");
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            let delay = Delay::Fixed(Duration::from_nanos(tenth + random.below(9 * tenth)));
            sim.network.set_link(node(from), node(to), Cable { latency: delay, ..Cable::default() });
            let when = Duration::from_millis(come[from].max(come[to]))
                + Duration::from_nanos(random.below(20 * tenth));
            sim.after(when, move |sim| {
                sim.request(node(to), Link::Heard(from));
                sim.request(node(from), Link::Called(to));
            });
        }
    }
    let mut outcomes = Outcomes::new();
    sim.run(Duration::from_secs(300), |_, id, news| {
        if let News::Over(outcome) = news {
            outcomes.insert(id, outcome);
        }
    });
    outcomes
}

/// Whether the first three have decided on this value.
fn have_decided(outcomes: &Outcomes, value: Option<&[u8]>) -> Result<(), String> {
    let expected = value.map(Digest::of);
    for id in 0..3 {
        match outcomes.get(&NodeId(id)) {
            Some(Ok(outcome)) if outcome.value == expected => {}
            other => return Err(format!("member {id} is to decide {expected:?}, and: {other:?}")),
        }
    }
    Ok(())
}

fn correct(_: u64) -> Actor {
    Actor::Correct(Box::new(session(LIAR, Digest::of(b"eggs"))))
}

fn liar(seed: u64) -> Actor {
    Actor::Liar(fulmar_node::Random::new(seed), vec![Frame::Ready])
}

const IN_TIME: Duration = Duration::from_millis(990);
const EGGS: [&[u8]; 4] = [b"eggs"; 4];

#[test]
fn correct_members_hear_each_other_in_every_round() {
    seeds("correct_members_hear_each_other_in_every_round", 0..300, |seed| {
        let outcomes = run(seed, IN_TIME, correct, EGGS);
        have_decided(&outcomes, Some(b"eggs"))?;
        for outcome in outcomes.values().flatten() {
            if !outcome.faulty.is_empty() || outcome.verdicts.contains(&None) {
                return Err(format!("nobody is faulty, and all have signed: {outcome:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_liar_changes_nothing_for_the_others() {
    seeds("a_liar_changes_nothing_for_the_others", 0..1_000, |seed| {
        let outcomes = run(seed, IN_TIME, liar, EGGS);
        have_decided(&outcomes, Some(b"eggs"))?;
        for outcome in outcomes.values().flatten() {
            if outcome.faulty.iter().any(|(member, ..)| *member != LIAR) {
                return Err(format!("only member {LIAR} may be blamed: {outcome:?}"));
            }
        }
        Ok(())
    });
}

/// The check of the checks: where messages take longer than the bound, members miss each other, and that shows.
#[test]
fn slow_messages_are_noticed() {
    let mut noticed = 0;
    for number in 0..100 {
        let outcomes = run(Seed::from(number), 3 * ROUND, correct, EGGS);
        noticed += usize::from(have_decided(&outcomes, Some(b"eggs")).is_err());
        for outcome in outcomes.values().flatten() {
            assert!(outcome.faulty.len() <= 1, "that is more than can be: {outcome:?}");
        }
    }
    assert!(noticed > 50, "{noticed} of 100");
}

/// A session whose news and sends are looked at, with three others that are played.
struct Played {
    session: Session<Majority>,
    out: Outbox<Session<Majority>>,
}

impl Played {
    fn new() -> Self {
        let mut played = Self { session: session(0, Digest::of(b"eggs")), out: Outbox::default() };
        played.session.start(Time::ZERO, &mut played.out);
        played
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn link(&mut self, links: impl IntoIterator<Item = Link>) -> Vec<News> {
        links.into_iter().for_each(|link| self.session.request(Time::ZERO, link, &mut self.out));
        self.news()
    }

    fn connect(&mut self, members: impl IntoIterator<Item = usize>) -> Vec<News> {
        self.link(members.into_iter().flat_map(|member| [Link::Called(member), Link::Heard(member)]))
    }

    fn hear(&mut self, from: usize, frame: Frame) -> Vec<News> {
        self.session.receive(Time::ZERO, node(from), frame, &mut self.out);
        self.news()
    }

    fn say(&mut self, from: usize, round: u32, value: &[u8]) -> Vec<News> {
        let mut message = Vec::new();
        let count = if round == 1 { 1 } else { 4 };
        Heard(vec![Some(Digest::of(value)); count]).encode(&mut message);
        self.hear(from, Frame::Round { round, message })
    }

    fn halt(&mut self, from: usize, value: &[u8]) -> Vec<News> {
        let verdict = Verdict::sign(&council(), &identity(from), Some(Digest::of(value)));
        self.hear(from, Frame::Halted(verdict))
    }

    fn expire(&mut self, seconds: u64) -> Vec<News> {
        self.session.expire(Self::at(seconds), (), &mut self.out);
        self.news()
    }

    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.out.events)
    }

    /// One in which the first round has begun.
    fn begun() -> Self {
        let mut played = Self::new();
        played.connect(1..4);
        played.hear(1, Frame::Ready);
        assert_eq!(played.hear(2, Frame::Ready), [News::Began]);
        played
    }

    /// One that has halted, with all of the others.
    fn halted() -> Self {
        let mut played = Self::begun();
        (1..4).for_each(|from| drop(played.say(from, 1, b"eggs")));
        (1..3).for_each(|from| drop(played.say(from, 2, b"eggs")));
        let news = played.say(3, 2, b"eggs");
        assert_eq!(news, [News::Decided { round: 2, value: Some(Digest::of(b"eggs")) }]);
        played
    }
}

fn faulty(member: usize, round: u32, fault: Fault) -> News {
    News::Faulty { member, round, fault }
}

#[test]
fn it_is_ready_when_all_are_connected_or_more_than_liars_say_so() {
    let mut played = Played::new();
    played.connect(1..3);
    assert_eq!(played.out.sends, []);
    played.connect([3]);
    assert_eq!(played.out.sends, [1, 2, 3].map(|to| (node(to), Frame::Ready)));

    let mut played = Played::new();
    played.connect([1]);
    played.hear(1, Frame::Ready);
    assert_eq!(played.out.sends, [], "one may lie");
    assert_eq!(played.hear(2, Frame::Ready), [News::Began]);
    assert_eq!(played.out.sends[0], (node(1), Frame::Ready));
}

#[test]
fn patience_ends_with_enough_or_with_too_few() {
    let mut played = Played::new();
    played.connect([1]);
    let absent = Failure::Absent { present: 2, needed: 3 };
    assert_eq!(played.expire(60), [News::Over(Err(absent))]);

    let mut played = Played::new();
    played.connect([1, 2]);
    assert_eq!(played.expire(59), [], "a timer may be early");
    assert_eq!(played.expire(60), []);
    assert_eq!(played.out.sends, [1, 2].map(|to| (node(to), Frame::Ready)));
    let unready = Failure::NotReady { ready: 1, needed: 3 };
    assert_eq!(played.expire(120), [News::Over(Err(unready))]);
}

#[test]
fn who_is_connected_in_the_first_round_misses_nothing() {
    let mut played = Played::new();
    played.connect([1, 2]);
    played.hear(1, Frame::Ready);
    played.hear(2, Frame::Ready);
    played.out.sends.clear();
    played.connect([3]);
    let sent =
        played.out.sends.iter().map(|(to, frame)| (to.0, matches!(frame, Frame::Round { round: 1, .. })));
    assert_eq!(sent.collect::<Vec<_>>(), [(3, false), (3, true)]);
}

#[test]
fn a_round_does_not_end_early_for_who_was_not_sent_to() {
    let mut played = Played::new();
    played.connect([1, 2]);
    played.link([Link::Heard(3)]);
    played.hear(1, Frame::Ready);
    played.hear(2, Frame::Ready);
    for from in 1..4 {
        assert_eq!(played.say(from, 1, b"eggs"), []);
    }
    assert!(played.session.is_open(), "member 3 can be called, but was not");
    played.link([Link::Called(3)]);
    assert!(!played.session.is_open());
}

#[test]
fn what_is_wrong_with_a_member_is_told() {
    let round = |round| Frame::Round { round, message: Vec::new() };
    let wrong = [
        (Frame::Round { round: 1, message: vec![1, 2, 3] }, Fault::Malformed),
        (round(0), Fault::Doubled),
        (round(2), Fault::Ahead),
        (Frame::Halted(Verdict::sign(&council(), &identity(3), None)), Fault::Ahead),
    ];
    for (frame, fault) in wrong {
        let mut played = Played::begun();
        assert_eq!(played.hear(3, frame), [faulty(3, 1, fault)]);
        assert_eq!(played.say(3, 1, b"eggs"), [], "nothing more is taken of it");
    }
    let mut played = Played::begun();
    played.say(3, 1, b"eggs");
    assert_eq!(played.say(3, 1, b"eggs"), [faulty(3, 1, Fault::Doubled)]);
    let mut played = Played::begun();
    assert_eq!(played.link([Link::Unheard(3, Fault::TooLarge)]), [faulty(3, 1, Fault::TooLarge)]);
    let mut played = Played::begun();
    (1..3).for_each(|from| drop(played.say(from, 1, b"eggs")));
    assert_eq!(played.expire(2), []);
    assert_eq!(played.expire(3), [faulty(3, 1, Fault::Silent)]);
}

#[test]
fn more_faulty_than_can_be_end_it() {
    let mut played = Played::begun();
    played.say(1, 1, b"eggs");
    let news = played.expire(3);
    let failure = Failure::Faulty { round: 1, faulty: 2, tolerates: 1 };
    assert_eq!(news, [faulty(2, 1, Fault::Silent), faulty(3, 1, Fault::Silent), News::Over(Err(failure)),]);
    assert!(played.session.is_over());
}

#[test]
fn one_that_comes_too_late_learns_it_from_more_than_liars() {
    let mut played = Played::new();
    assert_eq!(played.link([Link::Begun(3)]), []);
    assert_eq!(played.link([Link::Begun(3)]), []);
    assert_eq!(played.link([Link::Begun(1)]), [News::Over(Err(Failure::Begun))]);
}

#[test]
fn verdicts_are_gathered_and_compared() {
    let mut played = Played::halted();
    played.halt(1, b"eggs");
    // A connection ends when its member has.
    assert_eq!(played.link([Link::Unheard(1, Fault::Lost)]), []);
    played.halt(2, b"eggs");
    let news = played.halt(3, b"nests");
    let [blamed, News::Over(Ok(outcome))] = &news[..] else { panic!("{news:?}") };
    assert_eq!(*blamed, faulty(3, 2, Fault::Dissenting));
    assert_eq!(outcome.faulty, [(3, 2, Fault::Dissenting)]);
    assert_eq!(outcome.verdicts.iter().flatten().count(), 3);

    let mut played = Played::halted();
    let forged = Verdict::sign(&council(), &identity(2), Some(Digest::of(b"eggs")));
    assert_eq!(played.hear(1, Frame::Halted(forged)), [faulty(1, 2, Fault::Forged)]);
    played.halt(2, b"eggs");
    // Three rounds after its own have ended, it waits no longer.
    assert_eq!(played.expire(14), []);
    let failure = Failure::Faulty { round: 2, faulty: 2, tolerates: 1 };
    assert_eq!(played.expire(15), [faulty(3, 2, Fault::Silent), News::Over(Err(failure))]);
}

/// What member 1 can be to a session when it says something.
fn states() -> [(&'static str, Played); 8] {
    let gathering = || {
        let mut played = Played::new();
        played.connect(1..4);
        played
    };
    let with = |mut played: Played, says: &[(usize, u32)]| {
        for (from, round) in says {
            played.say(*from, *round, b"eggs");
        }
        played
    };
    let halted = |members: std::ops::Range<usize>| {
        let mut played = Played::halted();
        members.for_each(|member| drop(played.halt(member, b"eggs")));
        played
    };
    [
        ("gathering", gathering()),
        ("round 1", Played::begun()),
        ("round 1, said", with(Played::begun(), &[(1, 1)])),
        ("round 2", with(Played::begun(), &[(1, 1), (2, 1), (3, 1)])),
        ("closing", halted(2..3)),
        ("it has halted", halted(1..2)),
        ("it is faulty", with(Played::begun(), &[(1, 1), (1, 1)])),
        ("over", halted(1..4)),
    ]
}

fn frames() -> [(&'static str, Frame); 9] {
    let round = |round, values: usize| {
        let mut message = Vec::new();
        Heard(vec![Some(Digest::of(b"eggs")); values]).encode(&mut message);
        Frame::Round { round, message }
    };
    let halted = |by| Frame::Halted(Verdict::sign(&council(), &identity(by), Some(Digest::of(b"eggs"))));
    [
        ("Ready", Frame::Ready),
        ("Round 0", round(0, 1)),
        ("Round 1", round(1, 1)),
        ("Round 1, no message", round(1, 2)),
        ("Round 2", round(2, 4)),
        ("Round 3", round(3, 4)),
        ("Round 4294967295", round(u32::MAX, 4)),
        ("Halted", halted(1)),
        ("Halted, by another", halted(2)),
    ]
}

/// Who may say what and when, as a table: "yes", why it is faulty from then on, or "-" if it is not heard.
#[test]
fn who_may_say_what_is_written_down() {
    let mut told = format!("{:21}", "frame");
    states().iter().for_each(|(state, _)| told += &format!("{state:15}"));
    told = format!("{}\n", told.trim_end());
    for (name, frame) in frames() {
        let mut line = format!("{name:21}");
        for (_, mut played) in states() {
            played.out.clear();
            let is_heard = !played.session.is_over() && played.session.peers[1].standing == Standing::Present;
            // Neither is a member.
            for from in [0, 4, 1000] {
                assert_eq!(played.hear(from, frame.clone()), []);
            }
            let phase = played.session.phase;
            let news = played.hear(1, frame.clone());
            let fault = news.iter().find_map(|news| match news {
                News::Faulty { member: 1, fault, .. } => Some(format!("{fault:?}")),
                _ => None,
            });
            if !is_heard {
                assert!(news.is_empty() && played.out.sends.is_empty() && played.session.phase == phase);
            }
            let told = fault.unwrap_or_else(|| if is_heard { "yes" } else { "-" }.to_owned());
            line += &format!("{told:15}");
        }
        told += &format!("{}\n", line.trim_end());
    }
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/session/heard.txt");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &told).expect("written");
    }
    assert_eq!(told, std::fs::read_to_string(&golden).expect("readable"));
}
