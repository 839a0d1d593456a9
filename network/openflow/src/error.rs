//! What can be wrong with a message, and how its sender is told (section 7.4.4).

use crate::wire::{Reader, Result, Wire, layout};
use crate::{NICIRA, ONF};
use std::fmt;

/// Who gave a code its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// OpenFlow, for an error of this type.
    Type(u16),
    /// The experimenter of this number.
    Experimenter(u32),
}

/// The type of errors whose codes are an experimenter's.
const EXPERIMENTER: u16 = 0xffff;

/// Each family is an enumeration of its codes, and a variant of [`ErrorCode`]. What a code says is its documentation.
macro_rules! families {
    ($(
        #[doc = $about:literal]
        $family:ident in $space:expr, {
            $(#[doc = $text:literal] $code:ident = $number:literal,)*
        }
    )*) => {
        $(
            #[doc = $about]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum $family {
                $(#[doc = $text] $code = $number,)*
            }

            impl From<$family> for ErrorCode {
                fn from(code: $family) -> Self {
                    Self::$family(code)
                }
            }
        )*

        /// What is wrong: a type and a code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $about] $family($family),)*
            /// One that is not known here.
            Other {
                /// Whose number it is.
                space: Space,
                /// The number.
                code: u16,
            },
        }

        impl ErrorCode {
            /// Its number, and whose that is.
            pub const fn parts(self) -> (Space, u16) {
                match self {
                    $(Self::$family(code) => ($space, code as u16),)*
                    Self::Other { space, code } => (space, code),
                }
            }

            /// The error of this number.
            pub fn from_parts(space: Space, code: u16) -> Self {
                $(
                    if space == $space {
                        match code {
                            $($number => return $family::$code.into(),)*
                            _ => {}
                        }
                    }
                )*
                Self::Other { space, code }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (about, text) = match self {
                    $($(Self::$family($family::$code) => ($about, $text),)*)*
                    Self::Other { space: Space::Type(number), code } => {
                        return write!(f, "error {code} of type {number}");
                    }
                    Self::Other { space: Space::Experimenter(experimenter), code } => {
                        return write!(f, "error {code} of experimenter {experimenter:#010x}");
                    }
                };
                write!(f, "{}: {}", about.trim().trim_end_matches('.'), text.trim().trim_end_matches('.'))
            }
        }

        #[cfg(test)]
        pub(crate) const ALL: &[ErrorCode] = &[$($(ErrorCode::$family($family::$code),)*)*];
    };
}

families! {
    /// No agreement on a version.
    HelloFailed in Space::Type(0), {
        /// There is none that both speak.
        Incompatible = 0,
        /// Not permitted.
        NotPermitted = 1,
    }
    /// A request that cannot be understood.
    BadRequest in Space::Type(1), {
        /// Its version is another.
        BadVersion = 0,
        /// There is no message of this type.
        BadType = 1,
        /// There is no multipart request of this type.
        BadMultipart = 2,
        /// The experimenter is not known.
        BadExperimenter = 3,
        /// The experimenter has no message of this type.
        BadExperimenterType = 4,
        /// Not permitted.
        NotPermitted = 5,
        /// The length is wrong for the type.
        BadLength = 6,
        /// The buffer has been used already.
        BufferEmpty = 7,
        /// There is no such buffer.
        BufferUnknown = 8,
        /// There is no such table.
        BadTable = 9,
        /// A slave may not ask this.
        IsSlave = 10,
        /// There is no such port.
        BadPort = 11,
        /// The packet in it is none.
        BadPacket = 12,
        /// The parts of a request are more than can be kept.
        TooManyParts = 13,
    }
    /// An action that cannot be carried out.
    BadAction in Space::Type(2), {
        /// There is no action of this type.
        BadType = 0,
        /// The length is wrong.
        BadLength = 1,
        /// The experimenter is not known.
        BadExperimenter = 2,
        /// The experimenter has no action of this type.
        BadExperimenterType = 3,
        /// Packets cannot be sent to this port.
        BadOutPort = 4,
        /// An argument is wrong.
        BadArgument = 5,
        /// Not permitted.
        NotPermitted = 6,
        /// There are more actions than can be had.
        TooMany = 7,
        /// There is no such queue.
        BadQueue = 8,
        /// There is no such group.
        BadOutGroup = 9,
        /// It needs what the flow does not match.
        MatchInconsistent = 10,
        /// The order of these actions is not supported.
        UnsupportedOrder = 11,
        /// Tags of this type are not supported.
        BadTag = 12,
        /// The field cannot be set.
        BadSetType = 13,
        /// The field's length is wrong.
        BadSetLength = 14,
        /// The field cannot have this value.
        BadSetArgument = 15,
    }
    /// An instruction that cannot be carried out.
    BadInstruction in Space::Type(3), {
        /// There is no instruction of this type.
        Unknown = 0,
        /// The table does not support it.
        Unsupported = 1,
        /// One cannot go to this table.
        BadTable = 2,
        /// The metadata has bits that are not supported.
        UnsupportedMetadata = 3,
        /// The mask of the metadata has bits that are not supported.
        UnsupportedMetadataMask = 4,
        /// The experimenter is not known.
        BadExperimenter = 5,
        /// The experimenter has no instruction of this type.
        BadExperimenterType = 6,
        /// The length is wrong.
        BadLength = 7,
        /// Not permitted.
        NotPermitted = 8,
    }
    /// A match that cannot be understood.
    BadMatch in Space::Type(4), {
        /// There is no match of this type.
        BadType = 0,
        /// The length is wrong.
        BadLength = 1,
        /// The tag cannot be matched.
        BadTag = 2,
        /// Hardware addresses cannot be masked so.
        BadHardwareAddressMask = 3,
        /// Network addresses cannot be masked so.
        BadNetworkAddressMask = 4,
        /// These fields cannot be left out.
        BadWildcards = 5,
        /// The field is not known.
        BadField = 6,
        /// The field cannot have this value.
        BadValue = 7,
        /// The field cannot have this mask.
        BadMask = 8,
        /// The match does not say before what the field needs.
        BadPrerequisite = 9,
        /// The field comes twice.
        DuplicateField = 10,
        /// Not permitted.
        NotPermitted = 11,
    }
    /// A change of flows that failed.
    FlowModFailed in Space::Type(5), {
        /// For no reason that has a number.
        Unknown = 0,
        /// The table is full.
        TableFull = 1,
        /// There is no such table.
        BadTable = 2,
        /// The flow overlaps with another of its priority.
        Overlap = 3,
        /// Not permitted.
        NotPermitted = 4,
        /// These time-outs are not supported.
        BadTimeout = 5,
        /// There is no such command.
        BadCommand = 6,
        /// There are no such flags.
        BadFlags = 7,
    }
    /// A change of groups that failed.
    GroupModFailed in Space::Type(6), {
        /// There is a group of this number.
        GroupExists = 0,
        /// The group is not valid.
        InvalidGroup = 1,
        /// Weights are not supported.
        WeightUnsupported = 2,
        /// There is no room for another group.
        OutOfGroups = 3,
        /// There is no room for another bucket.
        OutOfBuckets = 4,
        /// Groups cannot send to groups.
        ChainingUnsupported = 5,
        /// This cannot be watched.
        WatchUnsupported = 6,
        /// It would go round in circles.
        Loop = 7,
        /// There is no such group.
        UnknownGroup = 8,
        /// Another group sends to it.
        ChainedGroup = 9,
        /// There is no such type of groups.
        BadType = 10,
        /// There is no such command.
        BadCommand = 11,
        /// A bucket is wrong.
        BadBucket = 12,
        /// What is to be watched is wrong.
        BadWatch = 13,
        /// Not permitted.
        NotPermitted = 14,
    }
    /// A change of a port that failed.
    PortModFailed in Space::Type(7), {
        /// There is no such port.
        BadPort = 0,
        /// Its address is another.
        BadHardwareAddress = 1,
        /// There are no such settings.
        BadConfiguration = 2,
        /// This cannot be advertised.
        BadAdvertise = 3,
        /// Not permitted.
        NotPermitted = 4,
    }
    /// A change of a table that failed.
    TableModFailed in Space::Type(8), {
        /// There is no such table.
        BadTable = 0,
        /// There are no such settings.
        BadConfiguration = 1,
        /// Not permitted.
        NotPermitted = 2,
    }
    /// A question about queues that failed.
    QueueOperationFailed in Space::Type(9), {
        /// There is no such port.
        BadPort = 0,
        /// There is no such queue.
        BadQueue = 1,
        /// Not permitted.
        NotPermitted = 2,
    }
    /// Settings of a switch that were refused.
    SwitchConfigFailed in Space::Type(10), {
        /// There are no such flags.
        BadFlags = 0,
        /// The length is not possible.
        BadLength = 1,
        /// Not permitted.
        NotPermitted = 2,
    }
    /// A role that was refused.
    RoleRequestFailed in Space::Type(11), {
        /// Another was made master since.
        Stale = 0,
        /// Roles cannot be changed.
        Unsupported = 1,
        /// There is no such role.
        BadRole = 2,
    }
    /// A change of meters that failed.
    MeterModFailed in Space::Type(12), {
        /// For no reason that has a number.
        Unknown = 0,
        /// There is a meter of this number.
        MeterExists = 1,
        /// The meter is not valid.
        InvalidMeter = 2,
        /// There is no such meter.
        UnknownMeter = 3,
        /// There is no such command.
        BadCommand = 4,
        /// There are no such flags.
        BadFlags = 5,
        /// The rate is not supported.
        BadRate = 6,
        /// The size of bursts is not supported.
        BadBurst = 7,
        /// There is no such type of bands.
        BadBand = 8,
        /// A value of a band is not supported.
        BadBandValue = 9,
        /// There is no room for another meter.
        OutOfMeters = 10,
        /// There is no room for another band.
        OutOfBands = 11,
    }
    /// Features of tables that were refused.
    TableFeaturesFailed in Space::Type(13), {
        /// There is no such table.
        BadTable = 0,
        /// These masks of metadata are not possible.
        BadMetadata = 1,
        /// There is no property of this type.
        BadType = 2,
        /// The length is wrong.
        BadLength = 3,
        /// An argument is not supported.
        BadArgument = 4,
        /// Not permitted.
        NotPermitted = 5,
    }
    /// Wrong by the rules of the Open Networking Foundation's extensions.
    Onf in Space::Experimenter(ONF), {
        /// A bundle failed for no reason that has a number.
        BundleUnknown = 2300,
        /// Not permitted in a bundle.
        BundleNotPermitted = 2301,
        /// There is no such bundle.
        BundleBadId = 2302,
        /// There is a bundle of this number.
        BundleExists = 2303,
        /// The bundle is closed.
        BundleClosed = 2304,
        /// There is no room for another bundle.
        OutOfBundles = 2305,
        /// There is no such control of bundles.
        BundleBadType = 2306,
        /// The flags of the bundle are not supported, or others than before.
        BundleBadFlags = 2307,
        /// The message in it has a wrong length.
        BundleBadLength = 2308,
        /// The message in it has another number than the one that brings it.
        BundleBadXid = 2309,
        /// Messages of this type cannot be in a bundle.
        BundleUnsupported = 2310,
        /// These messages cannot be in one bundle.
        BundleConflict = 2311,
        /// There is no room for another message in it.
        BundleTooMany = 2312,
        /// A message in it failed.
        BundleMessageFailed = 2313,
        /// It takes too long.
        BundleTimeout = 2314,
        /// It keeps something locked.
        BundleInProgress = 2315,
        /// An instruction comes twice.
        DuplicateInstruction = 2600,
        /// A property is of no type that is known.
        BadPropertyType = 4445,
        /// A field that is set without a mask has one.
        BadSetMask = 4250,
    }
    /// Wrong by the rules of Nicira's extensions.
    Nicira in Space::Experimenter(NICIRA), {
        /// The match cannot be understood.
        InvalidMatch = 2,
        /// There is no field of this type.
        BadFieldType = 3,
        /// What must be 0 is not.
        MustBeZero = 4,
        /// There is a flow monitor of this number.
        MonitorExists = 6,
        /// A flow monitor has no such flags.
        BadMonitorFlags = 7,
        /// There is no such flow monitor.
        UnknownMonitor = 8,
        /// There is no such event of flow monitors.
        BadEvent = 9,
        /// What must be 0 in an action is not.
        ActionMustBeZero = 11,
        /// The table to change is not the one of the message.
        BadTable = 13,
        /// A conjunction stands beside actions that it cannot stand beside.
        BadConjunction = 15,
        /// What is to be resumed is no longer known.
        StaleContinuation = 35,
        /// The action needs what connection tracking has not told.
        NeedsConnectionTracking = 42,
    }
}

impl std::error::Error for ErrorCode {}

layout! {
    /// A message was wrong.
    struct ErrorMessage {
        /// How.
        code: ErrorCode;
        /// What caused it: the first bytes of the message, at least 64 if there are; or text, if no version was agreed on.
        data: Vec<u8>;
    }
}

impl Wire for ErrorCode {
    fn put(&self, out: &mut Vec<u8>) {
        let (space, code) = self.parts();
        match space {
            Space::Type(number) => {
                number.put(out);
                code.put(out);
            }
            Space::Experimenter(experimenter) => {
                EXPERIMENTER.put(out);
                code.put(out);
                experimenter.put(out);
            }
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, code) = (u16::get(input)?, u16::get(input)?);
        let space = match number {
            EXPERIMENTER => Space::Experimenter(u32::get(input)?),
            _ => Space::Type(number),
        };
        Ok(Self::from_parts(space, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for code in ALL {
            let (space, number) = code.parts();
            assert_eq!(ErrorCode::from_parts(space, number), *code);
        }
        let other = ErrorCode::from_parts(Space::Type(4), 99);
        assert_eq!(other, ErrorCode::Other { space: Space::Type(4), code: 99 });
        assert_eq!(other.to_string(), "error 99 of type 4");
        let known: ErrorCode = BadMatch::BadField.into();
        assert_eq!(known.to_string(), "A match that cannot be understood: The field is not known");
    }
}
