//! Learned flows, read.

use super::parse_action::{bits, subfield};
use super::parse_part::{Result, malformed, narrow, parts};
use super::parse_value::{number, value};
use crate::OxmField;
use crate::action::{
    Action, Extension, Learn, LearnFlags, LearnResult, LearnSource, LearnSpec, LearnedFlow, LimitedLearn,
    Subfield,
};
use crate::flow::FlowMod;

/// The arguments of `learn`.
pub(super) fn learn(text: &str) -> Result<Action> {
    let mut flow = LearnedFlow {
        idle_timeout: 0,
        hard_timeout: 0,
        priority: FlowMod::DEFAULT_PRIORITY,
        cookie: 0,
        flags: LearnFlags::NONE,
        table: 1,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
    };
    let (mut limit, mut result, mut specs) = (0, None, Vec::new());
    for part in parts(text) {
        match part.split_once('=').unwrap_or((part, "")) {
            ("table", table) => flow.table = narrow(table, "a table")?,
            ("idle_timeout", seconds) => flow.idle_timeout = narrow(seconds, "seconds")?,
            ("hard_timeout", seconds) => flow.hard_timeout = narrow(seconds, "seconds")?,
            ("fin_idle_timeout", seconds) => flow.fin_idle_timeout = narrow(seconds, "seconds")?,
            ("fin_hard_timeout", seconds) => flow.fin_hard_timeout = narrow(seconds, "seconds")?,
            ("priority", priority) => flow.priority = narrow(priority, "a priority")?,
            ("cookie", cookie) => flow.cookie = narrow(cookie, "a cookie")?,
            ("send_flow_rem", "") => flow.flags = flow.flags | LearnFlags::SEND_REMOVED,
            ("delete_learned", "") => flow.flags = flow.flags | LearnFlags::DELETE_LEARNED,
            ("limit", flows) => limit = narrow(flows, "a number of flows")?,
            ("result_dst", to) => {
                let bit = subfield(to).filter(|bits| bits.bits() == 1);
                result = Some(LearnResult(bit.ok_or_else(|| malformed(part, "one bit of a field"))?));
                flow.flags = flow.flags | LearnFlags::WRITE_RESULT;
            }
            _ => specs.push(spec(part)?),
        }
    }
    Ok(Action::Extension(if limit == 0 && result.is_none() {
        Extension::Learn(Learn { flow, specs })
    } else {
        Extension::LimitedLearn(LimitedLearn { flow, limit, result, specs })
    }))
}

/// A part of what the flow matches or does.
fn spec(part: &str) -> Result<LearnSpec> {
    if let Some(from) = part.strip_prefix("output:") {
        return bits(from).map(LearnSpec::Output);
    }
    if let Some((from, to)) = part.strip_prefix("load:").and_then(|load| load.split_once("->")) {
        let to = bits(to)?;
        return Ok(LearnSpec::Load(source(part, from, to)?, to));
    }
    let (to, from) = part.split_once('=').unwrap_or((part, part));
    if let Some(to) = subfield(to) {
        return Ok(LearnSpec::Match(source(part, from, to)?, to));
    }
    let field = OxmField::named(to).ok_or_else(|| malformed(part, "a field, or what is done"))?;
    let value = value(field, from).filter(|(_, mask)| *mask == field.ones());
    let (value, _) = value.ok_or_else(|| malformed(part, "a value of the field"))?;
    Ok(LearnSpec::Match(LearnSource::Value(value), Subfield::all(field)))
}

/// As many bits as it goes to, or a number that fits there.
fn source(part: &str, text: &str, to: Subfield) -> Result<LearnSource> {
    let bits = subfield(text).filter(|from| from.bits() == to.bits()).map(LearnSource::Bits);
    let value = || number(text).filter(|value| to.holds(*value)).map(LearnSource::Value);
    bits.or_else(value).ok_or_else(|| malformed(part, "as many bits, or a number that fits"))
}
