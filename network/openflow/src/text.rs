//! Matches, actions and flows as Open vSwitch's tools write them: `priority=100,tcp,nw_dst=10.0.0.0/8 actions=output:2`.

mod actions;
mod asked;
mod extensions;
mod parse;
mod parse_action;
mod parse_connection;
mod parse_learn;
mod parse_part;
mod parse_value;
mod value;

pub use asked::MatchText;
pub use parse::{parse_actions, parse_match};
pub use parse_part::TextError;
pub(crate) use value::Value;

use crate::action::Action;
use crate::flow::{FlowFlags, FlowMod, FlowStats};
use crate::{Instruction, Instructions};
use std::fmt;

/// A list with commas.
pub(crate) struct Commas<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Commas<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

/// Actions that are inside of something: `drop` if there are none.
pub(crate) struct Inner<'a>(pub(crate) &'a [Action]);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("drop") } else { Commas(self.0).fmt(f) }
    }
}

/// In which order instructions are carried out.
fn rank(instruction: &Instruction) -> u8 {
    match instruction {
        Instruction::Meter(_) => 0,
        Instruction::ApplyActions(_) => 1,
        Instruction::ClearActions => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::WriteMetadata(_) => 4,
        Instruction::GotoTable(_) => 5,
    }
}

/// In the order in which they are carried out (section 5.9), `drop` if there are none.
impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ordered: Vec<&Instruction> = self.0.iter().collect();
        ordered.sort_by_key(|instruction| rank(instruction));
        let is_empty = |instruction: &Instruction| matches!(instruction, Instruction::ApplyActions(list) if list.actions.is_empty());
        ordered.retain(|instruction| !is_empty(instruction));
        if ordered.is_empty() { f.write_str("drop") } else { Commas(&ordered).fmt(f) }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meter(meter) => write!(f, "meter:{meter}"),
            Self::ApplyActions(list) => Commas::<Action>(&list.actions).fmt(f),
            Self::ClearActions => f.write_str("clear_actions"),
            Self::WriteActions(list) => write!(f, "write_actions({})", Inner(&list.actions)),
            Self::WriteMetadata(metadata) if metadata.mask == u64::MAX => {
                write!(f, "write_metadata:{:#x}", metadata.value)
            }
            Self::WriteMetadata(metadata) => {
                write!(f, "write_metadata:{:#x}/{:#x}", metadata.value, metadata.mask)
            }
            Self::GotoTable(goto) => write!(f, "goto_table:{}", goto.table),
        }
    }
}

/// What is said of how a flow is kept.
struct Kept {
    idle_timeout: u16,
    hard_timeout: u16,
    flags: FlowFlags,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.idle_timeout != 0 {
            write!(f, "idle_timeout={}, ", self.idle_timeout)?;
        }
        if self.hard_timeout != 0 {
            write!(f, "hard_timeout={}, ", self.hard_timeout)?;
        }
        let names = [
            (FlowFlags::SEND_REMOVED, "send_flow_rem "),
            (FlowFlags::CHECK_OVERLAP, "check_overlap "),
            (FlowFlags::RESET_COUNTS, "reset_counts "),
            (FlowFlags::NO_PACKET_COUNTS, "no_packet_counts "),
            (FlowFlags::NO_BYTE_COUNTS, "no_byte_counts "),
        ];
        let named = names.iter().filter(|(flag, _)| self.flags.contains(*flag));
        named.map(|(_, name)| *name).try_for_each(|name| f.write_str(name))
    }
}

/// A priority that is not the usual one, what is matched, and what is done.
fn write_rule(
    f: &mut fmt::Formatter<'_>,
    priority: u16,
    asked: &fulmar_packet::Match,
    instructions: &Instructions,
) -> fmt::Result {
    let asked = MatchText(asked).to_string();
    let priority =
        if priority == FlowMod::DEFAULT_PRIORITY { String::new() } else { format!("priority={priority}") };
    let comma = if priority.is_empty() || asked.is_empty() { "" } else { "," };
    let space = if priority.is_empty() && asked.is_empty() { "" } else { " " };
    write!(f, "{priority}{comma}{asked}{space}actions={instructions}")
}

/// As it is when it is dumped, without what it has done.
impl fmt::Display for FlowMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        let Self { idle_timeout, hard_timeout, flags, .. } = *self;
        write!(f, "table={}, {}", self.table, Kept { idle_timeout, hard_timeout, flags })?;
        write_rule(f, self.priority, &self.asked, &self.instructions)
    }
}

impl fmt::Display for FlowStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.nanoseconds / 1_000_000;
        write!(f, "cookie={:#x}, duration={}.{milliseconds:03}s, ", self.cookie, self.seconds)?;
        write!(f, "table={}, n_packets={}, n_bytes={}, ", self.table, self.packets, self.bytes)?;
        let Self { idle_timeout, hard_timeout, flags, .. } = *self;
        Kept { idle_timeout, hard_timeout, flags }.fmt(f)?;
        write_rule(f, self.priority, &self.asked, &self.instructions)
    }
}
