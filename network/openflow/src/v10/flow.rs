//! How flows are changed, and that they are gone (sections 5.3.3 and 5.4.3), in OpenFlow's form and in Nicira's.

use super::actions::{instructions, steps_of};
use super::error::BAD_EMERGENCY_TIMEOUT;
use super::matching::{PlainMatch, is_plain};
use super::step::Step;
use crate::action::check_actions_of_v10;
use crate::error::{BadRequest, FlowModFailed, Nicira as NiciraError};
use crate::flow::{FlowCommand, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason};
use crate::numbers::numbers;
use crate::oxm::NiciraMatch;
use crate::version::Habits;
use crate::wire::{Reader, Result, Wire, align, layout, said_length};
use crate::{ALL_TABLES, GroupNumber, PortNumber, ShortPort};
use fulmar_packet::Match;

/// A match in Nicira's form behind what comes before its length, and what comes after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching<Before, After> {
    pub(super) before: Before,
    pub(super) after: After,
    pub(super) matched: NiciraMatch,
}

impl<Before: Wire, After: Wire> Wire for Matching<Before, After> {
    fn put(&self, out: &mut Vec<u8>) {
        self.before.put(out);
        let mut fields = Vec::new();
        self.matched.put(&mut fields);
        said_length(fields.len()).put(out);
        self.after.put(out);
        let start = out.len();
        fields.put(out);
        align(out, start);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let before = Before::get(input)?;
        let length = usize::from(u16::get(input)?);
        let after = After::get(input)?;
        let left = input.left();
        let matched = NiciraMatch::get(&mut input.part(length, NiciraError::InvalidMatch)?)?;
        input.align(left)?;
        Ok(Self { before, after, matched })
    }
}

layout! {
    /// How flows change.
    struct Head {
        cookie: u64;
        /// With the number of a table before it, if that was agreed on.
        command: u16;
        idle_timeout: u16;
        hard_timeout: u16;
        priority: u16;
        buffer: u32;
        out_port: ShortPort;
        flags: u16;
    }
}

layout! {
    struct Change {
        asked: PlainMatch;
        head: Head;
        steps: Vec<Step>;
    }
}

layout! {
    struct NiciraChange {
        flow: Matching<Head, [u8; 6]>;
        steps: Vec<Step>;
    }
}

/// Emergency flows, which there are none of.
const EMERGENCY: u16 = 4;
/// A cookie that stays as it is.
const SAME_COOKIE: u64 = u64::MAX;

/// What commands are there, as their numbers; those of 1.3, but that a change of flows that there are not adds one.
const COMMANDS: [FlowCommand; 5] = [
    FlowCommand::Add,
    FlowCommand::ModifyOrAdd,
    FlowCommand::ModifyOrAddStrict,
    FlowCommand::Delete,
    FlowCommand::DeleteStrict,
];

const fn deletes(command: FlowCommand) -> bool {
    matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict)
}

impl Head {
    fn of(flow_mod: &FlowMod, habits: Habits) -> Self {
        let command: u16 = match flow_mod.command {
            FlowCommand::Add => 0,
            FlowCommand::Modify | FlowCommand::ModifyOrAdd => 1,
            FlowCommand::ModifyStrict | FlowCommand::ModifyOrAddStrict => 2,
            FlowCommand::Delete => 3,
            FlowCommand::DeleteStrict => 4,
        };
        let modifies = matches!(flow_mod.command, FlowCommand::Modify | FlowCommand::ModifyStrict);
        Self {
            cookie: if modifies { SAME_COOKIE } else { flow_mod.cookie },
            command: command | if habits.names_tables { u16::from(flow_mod.table) << 8 } else { 0 },
            idle_timeout: flow_mod.idle_timeout,
            hard_timeout: flow_mod.hard_timeout,
            priority: flow_mod.priority,
            buffer: flow_mod.buffer,
            out_port: ShortPort::try_from(flow_mod.out_port).unwrap_or(ShortPort::NONE),
            flags: flow_mod.flags.0 & (FlowFlags::SEND_REMOVED | FlowFlags::CHECK_OVERLAP).0,
        }
    }

    /// The change, of flows that are matched so.
    fn into_value(self, matched: NiciraMatch, steps: Vec<Step>, habits: Habits) -> Result<FlowMod> {
        let (table, command) =
            if habits.names_tables { (self.command >> 8, self.command & 0xff) } else { (0xff, self.command) };
        let command = COMMANDS.get(usize::from(command)).copied().ok_or(FlowModFailed::BadCommand)?;
        let names_cookie = matched.cookie_mask != 0;
        let command = match command {
            FlowCommand::Add if names_cookie => return Err(NiciraError::InvalidMatch.into()),
            FlowCommand::ModifyOrAdd if names_cookie || self.cookie == SAME_COOKIE => FlowCommand::Modify,
            FlowCommand::ModifyOrAddStrict if names_cookie || self.cookie == SAME_COOKIE => {
                FlowCommand::ModifyStrict
            }
            command => command,
        };
        if self.flags & EMERGENCY != 0 {
            let lasts = self.idle_timeout == 0 && self.hard_timeout == 0;
            return Err(if lasts { FlowModFailed::TableFull.into() } else { BAD_EMERGENCY_TIMEOUT });
        }
        let flags = FlowFlags(self.flags);
        if !(FlowFlags::SEND_REMOVED | FlowFlags::CHECK_OVERLAP).contains(flags) {
            return Err(FlowModFailed::BadFlags.into());
        }
        let adds = command == FlowCommand::Add;
        let [_, table] = table.to_be_bytes();
        let keeps_cookie = names_cookie || deletes(command) || self.cookie == SAME_COOKIE && !adds;
        let NiciraMatch { asked, cookie, cookie_mask } = matched;
        let instructions = instructions(steps, &asked)?;
        if !deletes(command) {
            check_actions_of_v10(&instructions.0, &asked)?;
        }
        Ok(FlowMod {
            cookie: if keeps_cookie { cookie } else { self.cookie },
            cookie_mask,
            table: if adds && table == ALL_TABLES { 0 } else { table },
            command,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            priority: self.priority,
            buffer: self.buffer,
            out_port: if deletes(command) { self.out_port.into() } else { PortNumber::ANY },
            out_group: GroupNumber::ANY,
            flags: if adds { flags | FlowFlags::RESET_COUNTS } else { flags },
            asked,
            instructions,
        })
    }
}

const fn anything(asked: Match) -> NiciraMatch {
    NiciraMatch { asked, cookie: 0, cookie_mask: 0 }
}

/// Whether OpenFlow's own form cannot say what a change asks for.
pub(super) fn needs_nicira(flow_mod: &FlowMod) -> bool {
    flow_mod.cookie_mask != 0 && flow_mod.command != FlowCommand::Add || !is_plain(&flow_mod.asked)
}

impl Change {
    pub(super) fn of(flow_mod: &FlowMod, habits: Habits) -> Self {
        let (asked, steps) = ((&flow_mod.asked).into(), steps_of(&flow_mod.instructions));
        Self { asked, head: Head::of(flow_mod, habits), steps }
    }

    pub(super) fn into_value(self, habits: Habits) -> Result<FlowMod> {
        // Where nothing is left open, no flow can be before it.
        let priority = if self.asked.is_exact() { u16::MAX } else { self.head.priority };
        let head = Head { priority, ..self.head };
        head.into_value(anything((&self.asked).into()), self.steps, habits)
    }
}

impl NiciraChange {
    pub(super) fn of(flow_mod: &FlowMod, habits: Habits) -> Self {
        let FlowMod { cookie, mut cookie_mask, .. } = *flow_mod;
        if flow_mod.command == FlowCommand::Add {
            cookie_mask = 0;
        }
        let matched =
            NiciraMatch { asked: flow_mod.asked.clone(), cookie: cookie & cookie_mask, cookie_mask };
        let flow = Matching { before: Head::of(flow_mod, habits), after: [0; 6], matched };
        Self { flow, steps: steps_of(&flow_mod.instructions) }
    }

    pub(super) fn into_value(self, habits: Habits) -> Result<FlowMod> {
        self.flow.before.into_value(self.flow.matched, self.steps, habits)
    }
}

numbers! {
    enum Reason: u8, else BadRequest::BadType, {
        IdleTimeout = 0,
        HardTimeout = 1,
        Delete = 2,
    }
}

impl From<FlowRemovedReason> for Reason {
    fn from(reason: FlowRemovedReason) -> Self {
        match reason {
            FlowRemovedReason::IdleTimeout => Self::IdleTimeout,
            FlowRemovedReason::HardTimeout => Self::HardTimeout,
            FlowRemovedReason::Delete | FlowRemovedReason::GroupDelete => Self::Delete,
        }
    }
}

impl From<Reason> for FlowRemovedReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::IdleTimeout => Self::IdleTimeout,
            Reason::HardTimeout => Self::HardTimeout,
            Reason::Delete => Self::Delete,
        }
    }
}

layout! {
    struct Removed {
        asked: PlainMatch;
        cookie: u64;
        priority: u16;
        reason: Reason [1];
        seconds: u32;
        nanoseconds: u32;
        idle_timeout: u16 [2];
        packets: u64;
        bytes: u64;
    }
}

layout! {
    struct Ended {
        cookie: u64;
        priority: u16;
        reason: Reason;
        /// One more than the number of its table; 0, if that is not known.
        table: u8;
        seconds: u32;
        nanoseconds: u32;
        idle_timeout: u16;
    }
}

layout! {
    struct Counts {
        packets: u64;
        bytes: u64;
    }
}

layout! {
    struct NiciraRemoved {
        flow: Matching<Ended, Counts>;
    }
}

impl From<&FlowRemoved> for Removed {
    fn from(removed: &FlowRemoved) -> Self {
        let FlowRemoved { cookie, priority, seconds, nanoseconds, idle_timeout, packets, bytes, .. } =
            *removed;
        let (asked, reason) = ((&removed.asked).into(), removed.reason.into());
        Self { asked, cookie, priority, reason, seconds, nanoseconds, idle_timeout, packets, bytes }
    }
}

impl From<Removed> for FlowRemoved {
    fn from(removed: Removed) -> Self {
        let Removed { cookie, priority, seconds, nanoseconds, idle_timeout, packets, bytes, .. } = removed;
        Self {
            cookie,
            priority,
            reason: removed.reason.into(),
            table: 0,
            seconds,
            nanoseconds,
            idle_timeout,
            hard_timeout: 0,
            packets,
            bytes,
            asked: (&removed.asked).into(),
        }
    }
}

impl From<&FlowRemoved> for NiciraRemoved {
    fn from(removed: &FlowRemoved) -> Self {
        let FlowRemoved { cookie, priority, seconds, nanoseconds, idle_timeout, packets, bytes, .. } =
            *removed;
        let (reason, table) = (removed.reason.into(), removed.table.saturating_add(1));
        let before = Ended { cookie, priority, reason, table, seconds, nanoseconds, idle_timeout };
        let matched = anything(removed.asked.clone());
        Self { flow: Matching { before, after: Counts { packets, bytes }, matched } }
    }
}

impl From<NiciraRemoved> for FlowRemoved {
    fn from(removed: NiciraRemoved) -> Self {
        let Matching { before, after: Counts { packets, bytes }, matched } = removed.flow;
        let Ended { cookie, priority, reason, table, seconds, nanoseconds, idle_timeout } = before;
        Self {
            cookie,
            priority,
            reason: reason.into(),
            table: table.saturating_sub(1),
            seconds,
            nanoseconds,
            idle_timeout,
            hard_timeout: 0,
            packets,
            bytes,
            asked: matched.asked,
        }
    }
}
