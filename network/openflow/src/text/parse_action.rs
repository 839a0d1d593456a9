//! Actions, read: those that people write most. What spreads packets, and samples of them, are not among them.

use super::parse_connection::track;
use super::parse_learn::learn;
use super::parse_part::{Result, malformed, narrow, parts};
use super::parse_value::value;
use crate::action::{
    Action, CloneActions, Conjunction, ControllerAction, CopyBits, Decrement, Extension, FinTimeout,
    LoadBits, Note, Output, OutputBits, PausableController, Resubmit, SetField, SetMasked, StackBits,
    Subfield, Truncate,
};
use crate::packet_in::PacketInReason;
use crate::{ALL_TABLES, GroupNumber, OxmField, PortNumber, ShortPort, WHOLE_PACKET};

/// Actions, with commas between them.
pub(super) fn actions(text: &str) -> Result<Vec<Action>> {
    parts(text).filter(|part| *part != "drop").map(action).collect()
}

/// One action: a name, and perhaps an argument behind a colon or in parentheses.
pub(super) fn action(text: &str) -> Result<Action> {
    if let Some((name, argument)) = text.split_once('(').filter(|(name, _)| !name.contains(':')) {
        let argument = argument.strip_suffix(')').ok_or_else(|| malformed(text, "a `)`"))?;
        return called(text, name, argument);
    }
    match text.split_once(':') {
        Some((name, argument)) => told(text, name, argument),
        None => named(text),
    }
}

fn output(port: PortNumber, max_length: u16) -> Action {
    Action::Output(Output { port, max_length })
}

/// Without an argument.
fn named(text: &str) -> Result<Action> {
    Ok(match text {
        "ct" => track("")?,
        "pop_vlan" | "strip_vlan" => Action::PopVlan,
        "dec_ttl" => Action::DecrementTtl,
        "dec_mpls_ttl" => Action::DecrementMplsTtl,
        "copy_ttl_in" => Action::CopyTtlIn,
        "copy_ttl_out" => Action::CopyTtlOut,
        "pop_queue" => Action::Extension(Extension::PopQueue),
        "exit" => Action::Extension(Extension::Exit),
        "ct_clear" => Action::Extension(Extension::ForgetConnection),
        "CONTROLLER" | "controller" => output(PortNumber::CONTROLLER, WHOLE_PACKET),
        port => output(port.parse().map_err(|_| malformed(text, "an action"))?, 0),
    })
}

/// With an argument behind a colon.
fn told(text: &str, name: &str, argument: &str) -> Result<Action> {
    const TYPE: &str = "a type of frames";
    Ok(match name {
        "output" => match subfield(argument) {
            Some(port) if port.bits() <= 64 => {
                Action::Extension(Extension::OutputBits(OutputBits { port, max_length: WHOLE_PACKET }))
            }
            _ => output(argument.parse().map_err(|_| malformed(text, "a port, or bits of a field"))?, 0),
        },
        "CONTROLLER" | "controller" => output(PortNumber::CONTROLLER, narrow(argument, "a number of bytes")?),
        "push_vlan" => Action::PushVlan(narrow(argument, TYPE)?),
        "push_mpls" => Action::PushMpls(narrow(argument, TYPE)?),
        "pop_mpls" => Action::PopMpls(narrow(argument, TYPE)?),
        "set_mpls_ttl" => Action::SetMplsTtl(narrow(argument, "a time to live")?),
        "mod_nw_ttl" => Action::SetTtl(narrow(argument, "a time to live")?),
        "set_queue" => Action::SetQueue(narrow(argument, "a queue")?),
        "group" => Action::Group(GroupNumber(narrow(argument, "a group")?)),
        "resubmit" => Action::Extension(Extension::ResubmitPort(short_port(argument)?)),
        "set_field" => set_field(text, argument)?,
        "note" => Action::Extension(Extension::Note(Note(note(argument)?))),
        "load" | "move" => moved(text, name, argument)?,
        "push" => Action::Extension(Extension::Push(StackBits(bits(argument)?))),
        "pop" => Action::Extension(Extension::Pop(StackBits(bits(argument)?))),
        _ => return Err(malformed(text, "an action")),
    })
}

/// With arguments in parentheses.
fn called(text: &str, name: &str, argument: &str) -> Result<Action> {
    let said = |key: &str| parts(argument).find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
    Ok(match name {
        "resubmit" => resubmit(text, argument)?,
        "ct" => track(argument)?,
        "learn" => learn(argument)?,
        "controller" => controller(argument)?,
        "clone" => Action::Extension(Extension::Clone(CloneActions(actions(argument)?))),
        "set_mpls_ttl" => Action::SetMplsTtl(narrow(argument, "a time to live")?),
        "dec_ttl" => {
            let controllers =
                parts(argument).map(|part| narrow(part, "a controller")).collect::<Result<_>>()?;
            Action::Extension(Extension::DecrementTtl(Decrement { controllers }))
        }
        "output" => {
            let port = short_port(said("port").ok_or_else(|| malformed(text, "`port=`"))?)?;
            let max_length = narrow(said("max_len").unwrap_or_default(), "`max_len=` and a number of bytes")?;
            Action::Extension(Extension::Truncate(Truncate { port, max_length }))
        }
        "fin_timeout" => {
            let seconds = |key| said(key).map_or(Ok(0), |seconds| narrow(seconds, "seconds"));
            let (idle_timeout, hard_timeout) = (seconds("idle_timeout")?, seconds("hard_timeout")?);
            Action::Extension(Extension::FinTimeout(FinTimeout { idle_timeout, hard_timeout }))
        }
        "conjunction" => {
            let part = argument.split_once(',').and_then(|(id, clause)| Some((id, clause.split_once('/')?)));
            let (id, (clause, clauses)) = part.ok_or_else(|| malformed(text, "`(id,clause/clauses)`"))?;
            let clause = narrow::<u8>(clause, "a clause")?.checked_sub(1);
            let clause = clause.ok_or_else(|| malformed(text, "a clause from 1 on"))?;
            let (id, clauses) = (narrow(id, "a conjunction")?, narrow(clauses, "how many clauses")?);
            Action::Extension(Extension::Conjunction(Conjunction { clause, clauses, id }))
        }
        _ => return Err(malformed(text, "an action")),
    })
}

fn resubmit(text: &str, argument: &str) -> Result<Action> {
    let mut arguments = argument.split(',').map(str::trim);
    let (port, table) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let port = if port.is_empty() { ShortPort::IN_PORT } else { short_port(port)? };
    let table = if table.is_empty() { ALL_TABLES } else { narrow(table, "a table")? };
    match arguments.next() {
        None => Ok(Action::Extension(Extension::Resubmit(Resubmit { port, table }))),
        Some("ct") => Ok(Action::Extension(Extension::ResubmitOriginal(Resubmit { port, table }))),
        Some(_) => Err(malformed(text, "`ct`")),
    }
}

fn set_field(text: &str, argument: &str) -> Result<Action> {
    let (text_value, name) = argument.split_once("->").ok_or_else(|| malformed(text, "`value->field`"))?;
    let field = OxmField::named(name.trim()).ok_or_else(|| malformed(text, "a field behind `->`"))?;
    let (value, mask) = value(field, text_value).ok_or_else(|| malformed(text, "a value of the field"))?;
    if mask == field.ones() {
        let is_possible = SetField::is_possible(field, value);
        let set = is_possible.then_some(Action::SetField(SetField { field, value }));
        return set.ok_or_else(|| malformed(text, "a value that the field can be set to"));
    }
    Ok(Action::Extension(Extension::SetMasked(SetMasked { field, value, mask })))
}

fn moved(text: &str, name: &str, argument: &str) -> Result<Action> {
    let (from, to) = argument.split_once("->").ok_or_else(|| malformed(text, "`->` and where it goes"))?;
    let destination = bits(to)?;
    if name == "load" {
        let value = narrow(from, "a number")?;
        if !destination.holds(u128::from(value)) || destination.bits() > 64 {
            return Err(malformed(text, "a number that fits"));
        }
        return Ok(Action::Extension(Extension::LoadBits(LoadBits { destination, value })));
    }
    let source = bits(from)?;
    if source.bits() != destination.bits() {
        return Err(malformed(text, "as many bits as are moved"));
    }
    Ok(Action::Extension(Extension::CopyBits(CopyBits { source, destination })))
}

pub(super) fn bits(text: &str) -> Result<Subfield> {
    subfield(text).ok_or_else(|| malformed(text, "bits of a field, as `reg0[0..15]`"))
}

/// `field[]`, `field[bit]` or `field[first..last]`.
pub(super) fn subfield(text: &str) -> Option<Subfield> {
    let (name, range) = text.trim().strip_suffix(']')?.split_once('[')?;
    let field = OxmField::named(name)?;
    let (first, last): (u16, u16) = match range.split_once("..") {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None if range.is_empty() => return Some(Subfield::all(field)),
        None => (range.parse().ok()?, range.parse().ok()?),
    };
    Subfield::new(field, first, last.checked_sub(first)?.checked_add(1)?)
}

fn short_port(text: &str) -> Result<ShortPort> {
    let port = text.trim().parse::<PortNumber>().ok().and_then(|port| ShortPort::try_from(port).ok());
    port.ok_or_else(|| malformed(text, "a port"))
}

/// To a controller, with more to say than how much of the packet.
fn controller(argument: &str) -> Result<Action> {
    let mut action = PausableController::default();
    for part in parts(argument) {
        match part.split_once('=').unwrap_or((part, "")) {
            ("max_len", length) => action.max_length = narrow(length, "a number of bytes")?,
            ("id", controller) => action.controller = narrow(controller, "a controller")?,
            ("reason", reason) => {
                let named = PacketInReason::ALL.iter().find(|one| one.to_string() == reason);
                action.reason = *named.ok_or_else(|| malformed(part, "a reason"))?;
            }
            ("userdata", data) => action.user_data = bytes(data)?,
            ("pause", "") => action.pauses = true,
            ("meter_id", meter) => action.meter = Some(narrow(meter, "a meter")?),
            _ => return Err(malformed(part, "an argument of `controller`")),
        }
    }
    let PausableController { max_length, controller, reason, .. } = action;
    let plain = PausableController { max_length, controller, reason, ..Default::default() };
    Ok(Action::Extension(if action == plain {
        Extension::Controller(ControllerAction { max_length, controller, reason })
    } else {
        Extension::PausableController(action)
    }))
}

/// Bytes with points between them.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let byte = |byte: &str| u8::from_str_radix(byte, 16).map_err(|_| malformed(text, "bytes, as `01.02`"));
    text.split('.').filter(|byte| !byte.is_empty()).map(byte).collect()
}

/// Bytes, filled up as notes are.
fn note(text: &str) -> Result<Vec<u8>> {
    let mut bytes = bytes(text)?;
    bytes.resize((bytes.len() + 2).next_multiple_of(8).max(8) - 2, 0);
    Ok(bytes)
}
