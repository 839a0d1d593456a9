//! Text read: matches, instructions and flows.

use super::asked::NAMES;
use super::parse_action::{action, actions};
use super::parse_part::{Result, TextError, malformed, narrow, parts};
use super::parse_value::value;
use super::rank;
use crate::flow::{FlowFlags, FlowMod};
use crate::instruction::{ActionList, GotoTable, WriteMetadata};
use crate::oxm::{Entry, add};
use crate::{Instruction, Instructions, OxmField};
use fulmar_packet::{Field, Match, ethernet};

/// Reads a match, such as `tcp,nw_dst=10.0.0.0/8,tp_dst=80`.
///
/// # Errors
/// Which part is wrong, and how.
pub fn parse_match(text: &str) -> Result<Match> {
    parts(text).try_fold(Match::ANY, with_condition)
}

fn with_condition(asked: Match, part: &str) -> Result<Match> {
    let Some((name, text)) = part.split_once('=') else {
        let named = NAMES.iter().find(|(name, ..)| *name == part);
        let (_, kind, protocol) =
            named.ok_or_else(|| malformed(part, "a protocol, or a field and its value"))?;
        let asked = asked.with(Field::ETH_TYPE, (*kind).into());
        return Ok(match protocol {
            Some(protocol) => asked.with(Field::IP_PROTOCOL, (*protocol).into()),
            None => asked,
        });
    };
    let tagged = ethernet::TAGGED;
    match name {
        "dl_vlan" => {
            let vlan: u16 = narrow(text, "a VLAN")?;
            return Ok(asked.with(Field::VLAN_VID, (vlan | tagged).into()));
        }
        // Who asks for a priority asks for a tag.
        "dl_vlan_pcp" => {
            let priority: u8 = narrow(text, "a VLAN priority")?;
            let asked = asked.with_masked(Field::VLAN_TCI, tagged.into(), tagged.into());
            return Ok(asked.with(Field::VLAN_PCP, priority.into()));
        }
        _ => {}
    }
    let is_called = |field: &OxmField| [field.short_name(), field.name(), field.long_name()].contains(&name);
    let mut called = OxmField::all().filter(is_called).peekable();
    let first = called.peek().copied().ok_or_else(|| malformed(part, "a field"))?;
    // The same name is for other fields in other protocols; and this one is for all eight bits.
    let field = match name {
        "nw_tos" => OxmField::named(name),
        _ => called.find(|field| field.is_in(&asked)),
    };
    let field = field.unwrap_or(first);
    let (value, mask) = value(field, text).ok_or_else(|| malformed(part, "a value of this field"))?;
    add(asked, Entry { field, value, mask }).map_err(|code| TextError::Refused { part: part.into(), code })
}

/// Actions may hold actions, so deeply at most: what reads them calls itself.
const DEEPEST: i32 = 16;

/// How many parentheses are open at once.
fn depth(text: &str) -> i32 {
    let open = text.chars().scan(0, |open, c| {
        *open += i32::from(c == '(') - i32::from(c == ')');
        Some(*open)
    });
    open.max().unwrap_or_default()
}

/// Reads what a flow does, such as `dec_ttl,output:2`, or `drop`.
///
/// # Errors
/// Which part is wrong, and how.
pub fn parse_actions(text: &str) -> Result<Instructions> {
    if depth(text) > DEEPEST {
        return Err(malformed("((((…", "fewer parentheses inside of each other"));
    }
    let (mut instructions, mut now) = (Vec::new(), Vec::new());
    for part in parts(text) {
        let (name, argument) = part.split_once([':', '(']).unwrap_or((part, ""));
        instructions.push(match name {
            "drop" => continue,
            "meter" => Instruction::Meter(narrow(argument, "a meter")?),
            "goto_table" => Instruction::GotoTable(GotoTable { table: narrow(argument, "a table")? }),
            "clear_actions" => Instruction::ClearActions,
            "write_actions" => {
                let inner = argument.strip_suffix(')').ok_or_else(|| malformed(part, "a `)`"))?;
                Instruction::WriteActions(ActionList { actions: actions(inner)? })
            }
            "write_metadata" => {
                let (value, mask) = argument.split_once('/').unwrap_or((argument, "0xffffffffffffffff"));
                let (value, mask) = (narrow(value, "metadata")?, narrow(mask, "a mask")?);
                Instruction::WriteMetadata(WriteMetadata { value, mask })
            }
            _ => {
                now.push(action(part)?);
                continue;
            }
        });
    }
    if !now.is_empty() {
        instructions.push(Instruction::ApplyActions(ActionList { actions: now }));
    }
    instructions.sort_by_key(rank);
    Ok(Instructions(instructions))
}

/// A flow to be added, such as `table=1, priority=100,tcp,nw_dst=10.0.0.0/8 actions=output:2`.
impl std::str::FromStr for FlowMod {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self> {
        let (conditions, actions) = text
            .split_once("actions=")
            .ok_or_else(|| malformed(text, "`actions=` and what the flow does"))?;
        let mut flow = Self::add(Match::ANY, parse_actions(actions)?);
        for part in parts(conditions).flat_map(str::split_whitespace) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("table", table) => flow.table = narrow(table, "a table")?,
                ("priority", priority) => flow.priority = narrow(priority, "a priority")?,
                ("cookie", cookie) => flow.cookie = narrow(cookie, "a cookie")?,
                ("idle_timeout", seconds) => flow.idle_timeout = narrow(seconds, "seconds")?,
                ("hard_timeout", seconds) => flow.hard_timeout = narrow(seconds, "seconds")?,
                ("send_flow_rem", "") => flow.flags = flow.flags | FlowFlags::SEND_REMOVED,
                ("check_overlap", "") => flow.flags = flow.flags | FlowFlags::CHECK_OVERLAP,
                ("reset_counts", "") => flow.flags = flow.flags | FlowFlags::RESET_COUNTS,
                ("no_packet_counts", "") => flow.flags = flow.flags | FlowFlags::NO_PACKET_COUNTS,
                ("no_byte_counts", "") => flow.flags = flow.flags | FlowFlags::NO_BYTE_COUNTS,
                _ => flow.asked = with_condition(flow.asked, part)?,
            }
        }
        flow.check().map_err(|code| TextError::Refused { part: text.into(), code })?;
        Ok(flow)
    }
}
