//! Who may say what to a replica: everything that comes from outside is judged here, before anything else looks at it.
//!
//! Until replicas can prove who they are, a speaker is who it says it is. What a name alone must not do is limited all the same: a
//! client invokes operations, and changes neither the group nor the state in any other way; and no number leads further than work could
//! have led. A state may come from a node of neither group: of those that were before, it may be the last that still knows.

use crate::{Checkpoint, ClientId, Group, Message, Replica, SequenceNumber, StateMachine, View};
use fulmar_node::NodeId;
use fulmar_transport::FIRST_CLIENT;

/// As what somebody speaks to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speaker {
    /// A client by its name; or any other that is no member, if the nodes of the group never change.
    Client,
    /// A node that is no member of the group as the replica knows it: it may be of a later one, or was of one before.
    Stranger,
    /// A member of the group.
    Member,
}

/// No group has had so many epochs since a replica was there, and none of them so many views.
const LEAP_OF_VIEWS: u64 = 1 << 32;
/// Nor so many operations: for one that is new these are all that there were.
const LEAP_OF_OPERATIONS: u64 = 1 << 56;

impl Speaker {
    /// What somebody is to a replica of this group, whose nodes never change if it `is_fixed`.
    pub(crate) fn of(from: NodeId, group: &Group, is_fixed: bool) -> Self {
        if group.contains(from) {
            Self::Member
        } else if from >= FIRST_CLIENT || is_fixed {
            Self::Client
        } else {
            Self::Stranger
        }
    }
}

impl Message {
    /// Whether a replica hears this from such a speaker.
    pub(crate) fn may_come_from(&self, speaker: Speaker) -> bool {
        match self {
            Self::Request { client: ClientId::GROUP, .. } => speaker >= Speaker::Stranger,
            Self::Request { .. } | Self::Doubt { .. } => true,
            // For clients.
            Self::Reply { .. } | Self::SpeculativeReply { .. } | Self::Forgotten { .. } => false,
            // Replicas of different epochs tell each other of them before they are members of one group: see `epoch`.
            Self::Prepare { .. }
            | Self::Commit { .. }
            | Self::PrepareOk { .. }
            | Self::Alive { .. }
            | Self::Suspect { .. }
            | Self::StartViewChange { .. }
            | Self::DoViewChange { .. }
            | Self::StartView { .. }
            | Self::GetState { .. }
            | Self::State(_)
            | Self::Group(_) => speaker >= Speaker::Stranger,
        }
    }

    /// Whether what it says of epochs, views and places can follow from what a replica knows that is in `known`, or wants to be, and
    /// has committed so much.
    pub(crate) fn can_follow(&self, known: View, committed: SequenceNumber) -> bool {
        let views = match self {
            Self::GetState { view, .. } | Self::Doubt { view } => Some(*view),
            Self::Group(group) => Some(View::first_of(group.epoch())),
            _ => self.view(),
        };
        let state = self.state().map(|state| View::first_of(state.group.epoch()));
        let is_near = |view: View| {
            let before = if view.epoch == known.epoch { known.number } else { 0 };
            view.epoch <= known.epoch.saturating_add(LEAP_OF_VIEWS)
                && view.number <= before.saturating_add(LEAP_OF_VIEWS)
        };
        let upto = self.state().map_or(0, |state| state.at.0);
        views.into_iter().chain(state).all(is_near) && upto <= committed.0.saturating_add(LEAP_OF_OPERATIONS)
    }

    fn state(&self) -> Option<&Checkpoint> {
        match self {
            Self::State(state) | Self::StartView { checkpoint: Some(state), .. } => Some(state),
            _ => None,
        }
    }
}

impl<S: StateMachine> Replica<S> {
    /// Whether what comes from outside is for it: whoever is not heard is not answered.
    pub(crate) fn hears(&self, from: NodeId, message: &Message) -> bool {
        let speaker = Speaker::of(from, &self.group, self.options.is_fixed);
        message.may_come_from(speaker)
            && message.can_follow(self.view, self.committed)
            && message.state().is_none_or(|state| self.may_follow(&state.group))
    }

    /// Whether its group could be followed by this one.
    pub(crate) fn may_follow(&self, next: &Group) -> bool {
        !self.options.is_fixed || next.nodes().eq(self.group.nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::{LockOperation, Locks, Timestamps};
    use crate::{Entry, Log, Member, Options, Protocol, Summary};
    use fulmar_node::{Outbox, Process, Time};
    use std::fmt::Write;
    use std::sync::Arc;
    use std::time::Duration;

    const CLIENT: NodeId = FIRST_CLIENT;
    const STRANGER: NodeId = NodeId(9);
    const MEMBER: NodeId = NodeId(2);
    const SPEAKERS: [(Speaker, NodeId); 3] =
        [(Speaker::Client, CLIENT), (Speaker::Stranger, STRANGER), (Speaker::Member, MEMBER)];

    fn group() -> Group {
        Group::new([0, 1, 2].map(NodeId), Protocol::Viewstamped).expect("three")
    }

    fn request(client: ClientId, number: u64, operation: Vec<u8>) -> Message {
        let session = SequenceNumber(0);
        Message::Request { client, epoch: 0, session, number, operation: operation.into(), is_query: false }
    }

    /// The state after so many operations, of which the last began a group with `node` in it.
    fn state(at: u64, node: NodeId) -> Checkpoint {
        let members = [0, 1, node.0].map(|node| Member { node: NodeId(node), incarnation: 0 });
        let group = group().followed_by(members.into(), Protocol::Viewstamped).expect("three");
        let state = Timestamps::take(7);
        Checkpoint { at: SequenceNumber(at), summary: Summary(1), state, ..Checkpoint::first(group) }
    }

    /// One of each kind; what is said of a state is said of one of a group with `from` in it.
    fn all(from: NodeId) -> [(&'static str, Message); 18] {
        let (view, number) = (View { epoch: 0, number: 1 }, SequenceNumber(0));
        let (client, summary, log) = (ClientId(5), Summary::default(), Log::default());
        let (end, result, round) = ((number, summary), Vec::new(), 0);
        let node = if group().contains(from) || from >= FIRST_CLIENT { MEMBER } else { from };
        let state = Arc::new(state(9, node));
        let next = state.group.clone();
        let Entry { operation, .. } = Entry::for_group(&next);
        let checkpoint = Some(state.clone());
        [
            ("Request", request(client, 1, Timestamps::take(1))),
            ("Request of the group", request(ClientId::GROUP, 1, operation.to_vec())),
            ("Reply", Message::Reply { view, client, number: 1, result: result.clone() }),
            ("Forgotten", Message::Forgotten { view, client, number: 1 }),
            (
                "SpeculativeReply",
                Message::SpeculativeReply { view, client, number: 1, at: number, summary, result },
            ),
            ("Doubt", Message::Doubt { view }),
            (
                "Prepare",
                Message::Prepare {
                    view,
                    from: SequenceNumber(1),
                    before: summary,
                    entries: Vec::new(),
                    committed: number,
                },
            ),
            ("Commit", Message::Commit { view, committed: number, summary, round }),
            (
                "PrepareOk",
                Message::PrepareOk { view, ordered: number, upto: number, summary, received: number, round },
            ),
            ("Alive", Message::Alive { view }),
            ("Suspect", Message::Suspect { view }),
            ("StartViewChange", Message::StartViewChange { view }),
            (
                "DoViewChange",
                Message::DoViewChange {
                    view,
                    last_normal: View::first_of(0),
                    log: log.clone(),
                    end,
                    ordered: number,
                    committed: number,
                },
            ),
            (
                "StartView",
                Message::StartView { view, checkpoint: None, log: log.clone(), end, committed: number },
            ),
            (
                "StartView with a state",
                Message::StartView {
                    view: View::first_of(1),
                    checkpoint,
                    log: Log::after(state.at, state.summary),
                    end: (state.at, state.summary),
                    committed: state.at,
                },
            ),
            ("GetState", Message::GetState { view, committed: number, after: number }),
            ("State", Message::State(state)),
            ("Group", Message::Group(next)),
        ]
    }

    fn replica<S: StateMachine>(is_fixed: bool, state_machine: S) -> (Replica<S>, Outbox<Replica<S>>) {
        replica_on(NodeId(1), is_fixed, state_machine)
    }

    fn replica_on<S: StateMachine>(
        node: NodeId,
        is_fixed: bool,
        state_machine: S,
    ) -> (Replica<S>, Outbox<Replica<S>>) {
        let me = Member { node, incarnation: 0 };
        let options = Options { is_fixed, is_durable: false, ..Options::default() };
        let mut replica = Replica::new(me, group(), options, state_machine, &[]);
        let mut out = Outbox::default();
        replica.start(Time::ZERO, &mut out);
        out.clear();
        (replica, out)
    }

    /// Who may say what, as a table.
    #[test]
    fn who_may_say_what_is_written_down() {
        let mut told =
            format!("{:24}{}\n", "message", SPEAKERS.map(|(speaker, _)| format!("{speaker:?}")).join("  "));
        let [by_client, by_stranger, by_member] = SPEAKERS.map(|(_, from)| all(from));
        for (((name, one), (_, two)), (_, three)) in by_client.into_iter().zip(by_stranger).zip(by_member) {
            let said = [one, two, three].into_iter().zip(SPEAKERS);
            let may: Vec<String> = said
                .map(|(message, (speaker, from))| {
                    let hears = replica(false, Timestamps::default()).0.hears(from, &message);
                    assert_eq!(hears, message.may_come_from(speaker), "{message:?} from {speaker:?}");
                    let width = format!("{speaker:?}").len();
                    format!("{:width$}", if hears { "yes" } else { "-" })
                })
                .collect();
            let line = format!("{name:24}{}", may.join("  "));
            writeln!(told, "{}", line.trim_end()).expect("a string");
        }
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/speaker/speakers.txt");
        if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &told).expect("written");
        }
        assert_eq!(told, std::fs::read_to_string(&golden).expect("readable"));
    }

    /// What a replica knows, and whether it says anything.
    fn after(is_fixed: bool, from: NodeId, message: Message) -> (View, SequenceNumber, Group, usize) {
        let (mut replica, mut out) = replica(is_fixed, Timestamps::default());
        replica.receive(Time::ZERO, from, message, &mut out);
        (replica.view, replica.committed(), replica.group().clone(), out.sends.len())
    }

    /// A replica in each of the states that a member has, and one that is no member.
    fn in_all_states(is_fixed: bool) -> [(&'static str, Replica<Timestamps>); 5] {
        let after = |node, said: &[Message]| {
            let (mut replica, mut out) = replica_on(NodeId(node), is_fixed, Timestamps::default());
            said.iter().for_each(|message| replica.receive(Time::ZERO, MEMBER, message.clone(), &mut out));
            replica
        };
        let view = View { epoch: 0, number: 1 };
        let changing = after(1, &[Message::StartViewChange { view }]);
        assert_eq!(changing.view, view);
        let ahead = after(1, &[Message::State(Arc::new(state(9, MEMBER)))]);
        assert_eq!(ahead.committed(), SequenceNumber(9));
        [
            ("leads", after(0, &[])),
            ("follows", after(1, &[])),
            ("changes views", changing),
            ("has another's state", ahead),
            ("is no member", after(7, &[])),
        ]
    }

    #[test]
    fn who_is_not_heard_changes_nothing() {
        let shown = |replica: &Replica<Timestamps>| {
            (replica.view, replica.committed(), replica.log().last(), replica.group().clone())
        };
        for (speaker, from) in SPEAKERS {
            for (name, message) in all(from) {
                for is_fixed in [false, true] {
                    let speaker =
                        if is_fixed && speaker < Speaker::Member { Speaker::Client } else { speaker };
                    if message.may_come_from(speaker) {
                        continue;
                    }
                    for (state, mut replica) in in_all_states(is_fixed) {
                        let (before, mut out) = (shown(&replica), Outbox::default());
                        replica.receive(Time::ZERO, from, message.clone(), &mut out);
                        let case = format!("{name} from {from} to one that {state}, {is_fixed}");
                        assert_eq!(shown(&replica), before, "{case}");
                        assert!(out.is_empty(), "{case}");
                    }
                }
            }
        }
        // Those that are heard do.
        let (name, message) = all(STRANGER)[16].clone();
        assert_eq!((name, after(false, STRANGER, message).1), ("State", SequenceNumber(9)));
    }

    #[test]
    fn a_state_comes_from_a_group_and_is_one() {
        let adopted = |is_fixed, from, state: Checkpoint| {
            after(is_fixed, from, Message::State(Arc::new(state))).1 > SequenceNumber(0)
        };
        assert!(adopted(false, STRANGER, state(9, STRANGER)) && adopted(false, MEMBER, state(9, STRANGER)));
        assert!(adopted(false, STRANGER, state(9, MEMBER)) && !adopted(false, CLIENT, state(9, MEMBER)));
        // Of a service that is where it is.
        assert!(adopted(true, MEMBER, state(9, MEMBER)));
        assert!(!adopted(true, MEMBER, state(9, STRANGER)) && !adopted(true, STRANGER, state(9, STRANGER)));
        let no_state = Checkpoint { state: vec![0x80], ..state(9, MEMBER) };
        assert!(!adopted(false, MEMBER, no_state));
    }

    #[test]
    fn no_number_leads_further_than_work_does() {
        let far = LEAP_OF_VIEWS + 1;
        let wants = |view| after(false, MEMBER, Message::StartViewChange { view }).0;
        let near = View { epoch: 0, number: LEAP_OF_VIEWS };
        assert_eq!(wants(near), near);
        assert_eq!(wants(View { epoch: 0, number: far }), View::first_of(0));
        let told = |message| after(false, MEMBER, message).3;
        assert_eq!(told(Message::Suspect { view: View { epoch: 1, number: 0 } }), 1);
        assert_eq!(told(Message::Suspect { view: View { epoch: far, number: 0 } }), 0);
        let upto = |at| after(false, MEMBER, Message::State(Arc::new(state(at, MEMBER)))).1;
        assert_eq!(upto(LEAP_OF_OPERATIONS), SequenceNumber(LEAP_OF_OPERATIONS));
        assert_eq!(upto(LEAP_OF_OPERATIONS + 1), SequenceNumber(0));
    }

    /// Whatever clients say, and however often.
    #[test]
    fn time_passes_for_clients_as_it_does_for_the_replica() {
        let (mut replica, mut out) = replica(true, Locks::default());
        let me = replica.me;
        replica.group = Group::new([me.node], Protocol::Viewstamped).expect("one");
        replica.start(Time::ZERO, &mut out);
        let mut ask = |at: Duration, client, number, operation: LockOperation| {
            let message = request(ClientId(client), number, operation.encode());
            replica.receive(Time::ZERO + at, CLIENT, message, &mut out);
            replica.expire(Time::ZERO + at, crate::Timer::Batch, &mut out);
            replica.log().last().0
        };
        let tick = LockOperation::Tick;
        let (begin, soon) = (Duration::ZERO, Locks::TICK / 2);
        assert_eq!(ask(begin, 1, 1, LockOperation::Open { ticks: 3, session: None }), 1);
        assert_eq!(ask(begin, 1, 2, tick(1)), 2);
        // Another, too early; one from far ahead, which never comes; and one that is over, which does nothing.
        assert_eq!(ask(soon, 2, 1, tick(2)), 2);
        assert_eq!(ask(soon, 2, 2, tick(u64::MAX)), 2);
        assert_eq!(ask(soon, 2, 3, tick(1)), 3);
        assert_eq!(ask(Locks::TICK, 2, 4, tick(2)), 4);
        // The one that was let in is asked again.
        assert_eq!(ask(Locks::TICK, 2, 4, tick(2)), 4);
        assert_eq!(ask(Locks::TICK, 3, 1, tick(3)), 4);
        assert_eq!(ask(Locks::TICK * 2, 3, 1, tick(3)), 5);
    }
}
