//! Whether the switch can do what a flow, a bucket or a packet-out asks: what does not show in the message itself.

use crate::pipeline::Pipeline;
use fulmar_openflow::action::Extension;
use fulmar_openflow::error::{BadAction, BadInstruction, MeterModFailed, Nicira};
use fulmar_openflow::{ALL_TABLES, Action, ErrorCode, Instruction, PortNumber};
use fulmar_packet::Match;
use std::ops::RangeInclusive;

/// So many clauses a conjunction can have.
const CLAUSES: RangeInclusive<u8> = 2..=64;

/// Where actions stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Flow,
    PacketOut,
}

/// Whether instructions can be carried out.
///
/// # Errors
/// Why not.
pub(crate) fn instructions(pipeline: &Pipeline, instructions: &[Instruction]) -> Result<(), ErrorCode> {
    for instruction in instructions {
        match instruction {
            Instruction::ApplyActions(list) if list.actions.iter().any(is_clause) => {
                clauses(&list.actions)?;
                if instructions.len() > 1 {
                    return Err(Nicira::BadConjunction.into());
                }
            }
            Instruction::ApplyActions(list) | Instruction::WriteActions(list) => {
                actions(pipeline, &list.actions, Place::Flow)?;
            }
            Instruction::Meter(meter) if !pipeline.meters.read().contains_key(meter) => {
                return Err(MeterModFailed::InvalidMeter.into());
            }
            Instruction::GotoTable(goto) if goto.table == ALL_TABLES => {
                return Err(BadInstruction::BadTable.into());
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_clause(action: &Action) -> bool {
    matches!(action, Action::Extension(Extension::Conjunction(_)))
}

/// Whether these actions, of which one makes a flow a clause, are nothing besides.
fn clauses(actions: &[Action]) -> Result<(), ErrorCode> {
    actions.iter().try_for_each(|action| match action {
        Action::Extension(Extension::Note(_)) => Ok(()),
        Action::Extension(Extension::Conjunction(conjunction)) => {
            let is_sound = CLAUSES.contains(&conjunction.clauses) && conjunction.clause < conjunction.clauses;
            if is_sound { Ok(()) } else { Err(Nicira::BadConjunction.into()) }
        }
        _ => Err(Nicira::BadConjunction.into()),
    })
}

/// Whether actions can be carried out.
///
/// # Errors
/// Why not.
pub(crate) fn actions(pipeline: &Pipeline, actions: &[Action], place: Place) -> Result<(), ErrorCode> {
    actions.iter().try_for_each(|action| check(pipeline, action, place))
}

/// What a packet-out asks, of the packet that it has.
///
/// # Errors
/// Why it cannot be carried out.
pub(crate) fn packet_out(pipeline: &Pipeline, asked: &[Action], packet: &Match) -> Result<(), ErrorCode> {
    fulmar_openflow::action::check(asked, packet)?;
    actions(pipeline, asked, Place::PacketOut)
}

fn check(pipeline: &Pipeline, action: &Action, place: Place) -> Result<(), ErrorCode> {
    match action {
        Action::Output(output) => port(output.port, place),
        Action::Group(group) if !pipeline.groups.read().contains_key(group) => {
            Err(BadAction::BadOutGroup.into())
        }
        Action::CopyTtlIn | Action::CopyTtlOut => Err(BadAction::BadType.into()),
        Action::Extension(extension) => match extension {
            Extension::Truncate(truncate) => port(truncate.port.into(), place),
            Extension::Clone(inner) => actions(pipeline, &inner.0, place),
            Extension::Track(track) if track.gateway != 0 => Err(BadAction::BadArgument.into()),
            Extension::PausableController(controller) if controller.pauses => {
                Err(BadAction::BadArgument.into())
            }
            Extension::Conjunction(_) => Err(Nicira::BadConjunction.into()),
            Extension::Sample(_) | Extension::ResubmitOriginal(_) => {
                Err(BadAction::BadExperimenterType.into())
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn port(port: PortNumber, place: Place) -> Result<(), ErrorCode> {
    let is_possible = match port {
        PortNumber::TABLE => place == Place::PacketOut,
        PortNumber(0) | PortNumber::ANY => false,
        PortNumber(number) => !(PortNumber::FIRST_RESERVED..PortNumber::UNSET.0).contains(&number),
    };
    if is_possible { Ok(()) } else { Err(BadAction::BadOutPort.into()) }
}
