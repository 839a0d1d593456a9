//! Errors (section 5.4.4). What OpenFlow 1.0 has no number for has one of Nicira's, or that of errors without a number.

use crate::NICIRA;
use crate::error::{
    BadAction, BadInstruction, BadMatch, BadRequest, ErrorCode, ErrorMessage, FlowModFailed, GroupModFailed,
    HelloFailed, Nicira, Onf, PortModFailed, QueueOperationFailed, RoleRequestFailed, Space,
};
use crate::wire::{Reader, Result, Wire, layout};

/// A number, and whether it is Nicira's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    is_nicira: bool,
    kind: u16,
    code: u16,
}

const fn own(kind: u16, code: u16) -> Numbers {
    Numbers { is_nicira: false, kind, code }
}

const fn nx(kind: u16, code: u16) -> Numbers {
    Numbers { is_nicira: true, kind, code }
}

/// The type and the code of errors that are a vendor's.
const VENDOR: (u16, u16) = (0xb0c2, 0);
/// An error that has no number.
const NAMELESS: Numbers = nx(1, 521);

/// An emergency flow with a time-out, which later versions have no code for.
pub(super) const BAD_EMERGENCY_TIMEOUT: ErrorCode = ErrorCode::Other { space: Space::Type(3), code: 3 };

/// Of codes that share a number the first is the one that is read.
const NUMBERS: &[(ErrorCode, Numbers)] = &[
    (ErrorCode::HelloFailed(HelloFailed::Incompatible), own(0, 0)),
    (ErrorCode::HelloFailed(HelloFailed::NotPermitted), own(0, 1)),
    (ErrorCode::BadRequest(BadRequest::BadVersion), own(1, 0)),
    (ErrorCode::BadRequest(BadRequest::BadType), own(1, 1)),
    (ErrorCode::BadRequest(BadRequest::BadMultipart), own(1, 2)),
    (ErrorCode::BadRequest(BadRequest::BadExperimenter), own(1, 3)),
    (ErrorCode::BadRequest(BadRequest::BadExperimenterType), own(1, 4)),
    (ErrorCode::BadRequest(BadRequest::NotPermitted), own(1, 5)),
    (ErrorCode::BadRequest(BadRequest::IsSlave), own(1, 5)),
    (ErrorCode::BadRequest(BadRequest::BadLength), own(1, 6)),
    (ErrorCode::BadRequest(BadRequest::BufferEmpty), own(1, 7)),
    (ErrorCode::BadRequest(BadRequest::BufferUnknown), own(1, 8)),
    (ErrorCode::BadRequest(BadRequest::BadTable), nx(1, 512)),
    (ErrorCode::RoleRequestFailed(RoleRequestFailed::BadRole), nx(1, 513)),
    (ErrorCode::BadRequest(BadRequest::BadPort), nx(1, 514)),
    (ErrorCode::Nicira(Nicira::MustBeZero), nx(1, 515)),
    (ErrorCode::Nicira(Nicira::BadEvent), nx(1, 520)),
    (ErrorCode::Nicira(Nicira::InvalidMatch), nx(1, 256)),
    (ErrorCode::BadMatch(BadMatch::BadLength), nx(1, 256)),
    (ErrorCode::BadMatch(BadMatch::BadType), nx(1, 256)),
    (ErrorCode::Nicira(Nicira::BadFieldType), nx(1, 257)),
    (ErrorCode::BadMatch(BadMatch::BadValue), nx(1, 258)),
    (ErrorCode::BadMatch(BadMatch::BadMask), nx(1, 259)),
    (ErrorCode::BadMatch(BadMatch::BadPrerequisite), nx(1, 260)),
    (ErrorCode::BadMatch(BadMatch::DuplicateField), nx(1, 261)),
    (ErrorCode::BadMatch(BadMatch::BadWildcards), nx(1, 262)),
    (ErrorCode::BadMatch(BadMatch::BadField), nx(0, 263)),
    (ErrorCode::BadAction(BadAction::BadType), own(2, 0)),
    (ErrorCode::BadAction(BadAction::BadLength), own(2, 1)),
    (ErrorCode::BadAction(BadAction::BadExperimenter), own(2, 2)),
    (ErrorCode::BadAction(BadAction::BadExperimenterType), own(2, 3)),
    (ErrorCode::BadAction(BadAction::BadOutPort), own(2, 4)),
    (ErrorCode::BadAction(BadAction::BadArgument), own(2, 5)),
    (ErrorCode::BadAction(BadAction::NotPermitted), own(2, 6)),
    (ErrorCode::BadAction(BadAction::TooMany), own(2, 7)),
    (ErrorCode::BadAction(BadAction::BadQueue), own(2, 8)),
    (ErrorCode::BadAction(BadAction::BadOutGroup), nx(2, 9)),
    (ErrorCode::BadAction(BadAction::MatchInconsistent), nx(1, 522)),
    (ErrorCode::BadAction(BadAction::BadSetType), nx(1, 523)),
    (ErrorCode::BadAction(BadAction::BadSetLength), nx(1, 524)),
    (ErrorCode::BadAction(BadAction::BadSetArgument), nx(1, 525)),
    (ErrorCode::Onf(Onf::BadSetMask), nx(1, 525)),
    (ErrorCode::Nicira(Nicira::ActionMustBeZero), nx(2, 256)),
    (ErrorCode::BadInstruction(BadInstruction::Unsupported), nx(2, 257)),
    (ErrorCode::Nicira(Nicira::BadConjunction), nx(2, 526)),
    (ErrorCode::FlowModFailed(FlowModFailed::TableFull), own(3, 0)),
    (ErrorCode::FlowModFailed(FlowModFailed::Overlap), own(3, 1)),
    (ErrorCode::FlowModFailed(FlowModFailed::NotPermitted), own(3, 2)),
    (ErrorCode::FlowModFailed(FlowModFailed::BadCommand), own(3, 4)),
    (ErrorCode::FlowModFailed(FlowModFailed::Unknown), own(3, 5)),
    (ErrorCode::FlowModFailed(FlowModFailed::BadFlags), nx(3, 258)),
    (ErrorCode::FlowModFailed(FlowModFailed::BadTable), nx(5, 257)),
    (ErrorCode::GroupModFailed(GroupModFailed::GroupExists), nx(6, 0)),
    (ErrorCode::GroupModFailed(GroupModFailed::InvalidGroup), nx(6, 1)),
    (ErrorCode::GroupModFailed(GroupModFailed::WeightUnsupported), nx(6, 2)),
    (ErrorCode::GroupModFailed(GroupModFailed::OutOfGroups), nx(6, 3)),
    (ErrorCode::GroupModFailed(GroupModFailed::OutOfBuckets), nx(6, 4)),
    (ErrorCode::GroupModFailed(GroupModFailed::ChainingUnsupported), nx(6, 5)),
    (ErrorCode::GroupModFailed(GroupModFailed::WatchUnsupported), nx(6, 6)),
    (ErrorCode::GroupModFailed(GroupModFailed::Loop), nx(6, 7)),
    (ErrorCode::GroupModFailed(GroupModFailed::UnknownGroup), nx(6, 8)),
    (ErrorCode::GroupModFailed(GroupModFailed::ChainedGroup), nx(6, 9)),
    (ErrorCode::GroupModFailed(GroupModFailed::BadType), nx(6, 10)),
    (ErrorCode::GroupModFailed(GroupModFailed::BadCommand), nx(6, 11)),
    (ErrorCode::GroupModFailed(GroupModFailed::BadBucket), nx(6, 12)),
    (ErrorCode::GroupModFailed(GroupModFailed::BadWatch), nx(6, 13)),
    (ErrorCode::GroupModFailed(GroupModFailed::NotPermitted), nx(6, 14)),
    (ErrorCode::PortModFailed(PortModFailed::BadPort), own(4, 0)),
    (ErrorCode::PortModFailed(PortModFailed::BadHardwareAddress), own(4, 1)),
    (ErrorCode::QueueOperationFailed(QueueOperationFailed::BadPort), own(5, 0)),
    (ErrorCode::QueueOperationFailed(QueueOperationFailed::BadQueue), own(5, 1)),
    (ErrorCode::QueueOperationFailed(QueueOperationFailed::NotPermitted), own(5, 2)),
];

/// An error, as it is in OpenFlow 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub(super) ErrorCode);

impl Code {
    fn numbers(self) -> Numbers {
        let known = NUMBERS.iter().find(|(code, _)| *code == self.0);
        match self.0 {
            ErrorCode::Other { space: Space::Type(kind), code } => own(kind, code),
            _ => known.map_or(NAMELESS, |(_, numbers)| *numbers),
        }
    }

    fn numbered(numbers: Numbers) -> Self {
        let known = NUMBERS.iter().find(|(_, known)| *known == numbers);
        let space = if numbers.is_nicira { Space::Experimenter(NICIRA) } else { Space::Type(numbers.kind) };
        Self(known.map_or(ErrorCode::Other { space, code: numbers.code }, |(code, _)| *code))
    }
}

impl Wire for Code {
    fn put(&self, out: &mut Vec<u8>) {
        let Numbers { is_nicira, kind, code } = self.numbers();
        if is_nicira {
            VENDOR.put(out);
            NICIRA.put(out);
        }
        (kind, code).put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, code) = <(u16, u16)>::get(input)?;
        if (kind, code) != VENDOR {
            return Ok(Self::numbered(own(kind, code)));
        }
        let (vendor, kind, code) = (u32::get(input)?, u16::get(input)?, u16::get(input)?);
        if vendor == NICIRA {
            return Ok(Self::numbered(nx(kind, code)));
        }
        Ok(Self(ErrorCode::Other { space: Space::Experimenter(vendor), code }))
    }
}

layout! {
    struct Error {
        code: Code;
        data: Vec<u8>;
    }
}

impl From<&ErrorMessage> for Error {
    fn from(error: &ErrorMessage) -> Self {
        Self { code: Code(error.code), data: error.data.clone() }
    }
}

impl From<Error> for ErrorMessage {
    fn from(error: Error) -> Self {
        Self { code: error.code.0, data: error.data }
    }
}
