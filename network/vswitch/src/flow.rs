//! Flows, and what is counted for them.

use crate::group::{sends_to, targets};
use crate::traffic::{Counters, Traffic};
use fulmar_node::Time;
use fulmar_openflow::action::{Conjunction, Extension, LearnFlags};
use fulmar_openflow::flow::{FlowFlags, FlowMod, FlowRemovedReason, FlowStats};
use fulmar_openflow::{Action, GroupNumber, Instruction, Instructions, PortNumber};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What stays of a flow when it gets other instructions.
#[derive(Debug)]
pub(crate) struct History {
    /// When it was added.
    created: Time,
    /// When it was changed or added again, and when a packet came last; nanoseconds since the origin.
    modified: AtomicU64,
    used: AtomicU64,
    /// After so many seconds without packets, and after so many seconds, it goes; never, if that is 0.
    idle_timeout: AtomicU16,
    hard_timeout: AtomicU16,
    /// The same as those of the flow whose place it has taken, if its counts go on: packets may still be credited to that.
    counters: Arc<Counters>,
}

impl History {
    /// That of a flow that comes now.
    pub(crate) fn new(flow_mod: &FlowMod, now: Time, counters: Arc<Counters>) -> Self {
        let nanos = now.as_nanos();
        Self {
            created: now,
            modified: AtomicU64::new(nanos),
            used: AtomicU64::new(nanos),
            idle_timeout: AtomicU16::new(flow_mod.idle_timeout),
            hard_timeout: AtomicU16::new(flow_mod.hard_timeout),
            counters,
        }
    }

    /// Its packets came, the last of them now.
    pub(crate) fn credit(&self, traffic: Traffic, now: Time) {
        self.counters.add(traffic);
        self.used.fetch_max(now.as_nanos(), Relaxed);
    }

    /// The same with nothing counted.
    pub(crate) fn without_counts(&self) -> Self {
        Self {
            created: self.created,
            modified: AtomicU64::new(self.modified.load(Relaxed)),
            used: AtomicU64::new(self.used.load(Relaxed)),
            idle_timeout: AtomicU16::new(self.idle_timeout.load(Relaxed)),
            hard_timeout: AtomicU16::new(self.hard_timeout.load(Relaxed)),
            counters: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// It was changed, or is to stay from now on as if it were new.
    pub(crate) fn touch(&self, now: Time) {
        self.modified.fetch_max(now.as_nanos(), Relaxed);
    }
}

/// A flow: what is done with the packets that it is for, and until when.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) table: u8,
    pub(crate) cookie: u64,
    pub(crate) flags: FlowFlags,
    /// The time-outs that it was given; those that it has may be shorter.
    pub(crate) given_timeouts: (u16, u16),
    pub(crate) instructions: Arc<Instructions>,
    /// How long these are, as they are sent: bytes.
    pub(crate) length: usize,
    pub(crate) history: Arc<History>,
}

impl Flow {
    pub(crate) fn new(flow_mod: &FlowMod, history: Arc<History>) -> Self {
        Self {
            table: flow_mod.table,
            cookie: flow_mod.cookie,
            flags: flow_mod.flags,
            given_timeouts: (flow_mod.idle_timeout, flow_mod.hard_timeout),
            instructions: Arc::new(flow_mod.instructions.clone()),
            length: flow_mod.instructions.length(),
            history,
        }
    }

    pub(crate) fn credit(&self, traffic: Traffic, now: Time) {
        let counts = |flag, count| if self.flags.contains(flag) { 0 } else { count };
        let traffic = Traffic {
            packets: counts(FlowFlags::NO_PACKET_COUNTS, traffic.packets),
            bytes: counts(FlowFlags::NO_BYTE_COUNTS, traffic.bytes),
        };
        self.history.credit(traffic, now);
    }

    /// What has come for it.
    pub(crate) fn traffic(&self) -> Traffic {
        self.history.counters.get()
    }

    /// How long it has been there.
    pub(crate) fn age(&self, now: Time) -> Duration {
        now.since(self.history.created)
    }

    /// After how many seconds without packets, and after how many seconds it goes; 0 is never.
    pub(crate) fn timeouts(&self) -> (u16, u16) {
        (self.history.idle_timeout.load(Relaxed), self.history.hard_timeout.load(Relaxed))
    }

    /// From now on its time-outs are no longer than these; 0 leaves one as it is.
    pub(crate) fn shorten(&self, idle: u16, hard: u16) {
        let shorten = |timeout: &AtomicU16, most: u16| {
            let is_longer = |now: u16| most > 0 && (now == 0 || now > most);
            // Nothing is to be done if it is not.
            let _ = timeout.fetch_update(Relaxed, Relaxed, |now| is_longer(now).then_some(most));
        };
        shorten(&self.history.idle_timeout, idle);
        shorten(&self.history.hard_timeout, hard);
    }

    /// Whether one of its time-outs is over.
    pub(crate) fn is_over(&self, now: Time) -> Option<FlowRemovedReason> {
        let passed = |seconds: u16, since: &AtomicU64| {
            let since = Time::from_nanos(since.load(Relaxed));
            seconds > 0 && now.since(since) >= Duration::from_secs(seconds.into())
        };
        let (idle, hard) = self.timeouts();
        if passed(hard, &self.history.modified) {
            return Some(FlowRemovedReason::HardTimeout);
        }
        passed(idle, &self.history.used).then_some(FlowRemovedReason::IdleTimeout)
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        actions(&self.instructions)
    }

    /// Of which conjunctions it is which clause; then it does nothing else.
    pub(crate) fn clauses(&self) -> impl Iterator<Item = &Conjunction> {
        self.actions().filter_map(|action| match action {
            Action::Extension(Extension::Conjunction(clause)) => Some(clause),
            _ => None,
        })
    }

    /// Tables and cookies of flows that are learned by it, and go with it.
    pub(crate) fn learned_for_itself(&self) -> impl Iterator<Item = (u8, u64)> {
        self.actions().filter_map(|action| {
            let flow = match action {
                Action::Extension(Extension::Learn(learn)) => &learn.flow,
                Action::Extension(Extension::LimitedLearn(learn)) => &learn.flow,
                _ => return None,
            };
            flow.flags.contains(LearnFlags::DELETE_LEARNED).then_some((flow.table, flow.cookie))
        })
    }

    /// Whether packets meet it together with others only.
    pub(crate) fn is_clause(&self) -> bool {
        self.clauses().next().is_some()
    }

    /// Whether one of its actions sends to a port; each does to [`PortNumber::ANY`].
    pub(crate) fn sends_to(&self, port: PortNumber) -> bool {
        send_to(&self.instructions, port)
    }

    /// Whether one of its actions is for a group; each is for [`GroupNumber::ANY`].
    pub(crate) fn uses(&self, group: GroupNumber) -> bool {
        group == GroupNumber::ANY || self.actions().any(|action| sends_to(action, &mut |sent| sent == group))
    }

    /// The groups that its actions are for.
    pub(crate) fn groups(&self) -> BTreeSet<GroupNumber> {
        targets(self.actions()).into_iter().collect()
    }

    /// The meters that measure its packets.
    pub(crate) fn meters(&self) -> impl Iterator<Item = u32> {
        self.instructions.0.iter().filter_map(|instruction| match instruction {
            Instruction::Meter(meter) => Some(*meter),
            _ => None,
        })
    }
}

/// The actions of instructions.
fn actions(instructions: &Instructions) -> impl Iterator<Item = &Action> {
    instructions.0.iter().flat_map(Instruction::actions)
}

/// Whether one of these sends to a port; each does to [`PortNumber::ANY`].
pub(crate) fn send_to(instructions: &Instructions, port: PortNumber) -> bool {
    port == PortNumber::ANY || actions(instructions).any(|action| outputs_to(action, port))
}

/// Whether an action sends to a port by its number.
pub(crate) fn outputs_to(action: &Action, port: PortNumber) -> bool {
    match action {
        Action::Output(output) => output.port == port,
        Action::Extension(Extension::Truncate(truncate)) => PortNumber::from(truncate.port) == port,
        Action::Extension(Extension::Clone(actions)) => {
            actions.0.iter().any(|action| outputs_to(action, port))
        }
        _ => false,
    }
}

/// What is known of a flow, to be told.
pub(crate) fn stats(rule: &fulmar_classifier::Rule<Flow>, now: Time) -> FlowStats {
    let flow = rule.value();
    let (age, traffic) = (flow.age(now), flow.traffic());
    let (idle_timeout, hard_timeout) = flow.timeouts();
    FlowStats {
        table: flow.table,
        seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: age.subsec_nanos(),
        priority: rule.priority(),
        idle_timeout,
        hard_timeout,
        flags: flow.flags,
        cookie: flow.cookie,
        packets: traffic.packets,
        bytes: traffic.bytes,
        asked: rule.condition(),
        instructions: Instructions::clone(&flow.instructions),
    }
}
