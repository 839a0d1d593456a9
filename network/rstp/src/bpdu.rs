//! Messages between bridges (clause 9): BPDUs.

use crate::vector::{BridgeId, PortId, Times, Vector};

/// What a port is for its bridge, as messages say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaidRole {
    Unknown,
    AlternateOrBackup,
    Root,
    Designated,
}

/// What a message says beside the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) topology_change: bool,
    pub(crate) proposal: bool,
    pub(crate) role: SaidRole,
    pub(crate) learning: bool,
    pub(crate) forwarding: bool,
    pub(crate) agreement: bool,
    /// Of STP only.
    pub(crate) acknowledgement: bool,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bpdu {
    /// Of RSTP.
    Rapid(Flags, Vector, Times),
    /// Of STP: a configuration, always of a designated port.
    Configuration(Flags, Vector, Times),
    /// Of STP: the topology has changed.
    TopologyChange,
}

/// To whom frames with them go: nobody else forwards these.
pub const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
/// An LLC header, of bridges.
const LLC: [u8; 3] = [0x42, 0x42, 0x03];
const RAPID: u8 = 2;
const CONFIGURATION: u8 = 0;
const TOPOLOGY_CHANGE: u8 = 0x80;
/// Bytes of a message of STP, and of one of RSTP, which has an empty part of version 1 behind it.
const STP_LENGTH: usize = 35;
/// Bytes of a frame, without what checks it.
const SHORTEST_FRAME: usize = 60;

impl Flags {
    fn to_byte(self, is_rapid: bool) -> u8 {
        let role = match self.role {
            SaidRole::Unknown => 0,
            SaidRole::AlternateOrBackup => 1,
            SaidRole::Root => 2,
            SaidRole::Designated => 3,
        };
        let rapid = u8::from(self.proposal) << 1
            | role << 2
            | u8::from(self.learning) << 4
            | u8::from(self.forwarding) << 5
            | u8::from(self.agreement) << 6;
        let all = u8::from(self.topology_change) | u8::from(self.acknowledgement) << 7;
        if is_rapid { all | rapid } else { all }
    }

    fn of_byte(byte: u8, is_rapid: bool) -> Self {
        let bit = |at: u8| byte >> at & 1 != 0;
        let role = match byte >> 2 & 3 {
            _ if !is_rapid => SaidRole::Designated,
            0 => SaidRole::Unknown,
            1 => SaidRole::AlternateOrBackup,
            2 => SaidRole::Root,
            _ => SaidRole::Designated,
        };
        Self {
            topology_change: bit(0),
            proposal: is_rapid && bit(1),
            role,
            learning: is_rapid && bit(4),
            forwarding: is_rapid && bit(5),
            agreement: is_rapid && bit(6),
            acknowledgement: !is_rapid && bit(7),
        }
    }
}

impl Bpdu {
    /// A frame that a port with this address sends.
    pub(crate) fn to_frame(self, from: [u8; 6]) -> Vec<u8> {
        let mut message = vec![0, 0];
        match self {
            Self::TopologyChange => message.extend([0, TOPOLOGY_CHANGE]),
            Self::Configuration(flags, vector, times) | Self::Rapid(flags, vector, times) => {
                let is_rapid = matches!(self, Self::Rapid(..));
                let (version, kind) = if is_rapid { (RAPID, RAPID) } else { (0, CONFIGURATION) };
                message.extend([version, kind, flags.to_byte(is_rapid)]);
                message.extend(vector.root.0.to_be_bytes());
                message.extend(vector.cost.to_be_bytes());
                message.extend(vector.bridge.0.to_be_bytes());
                message.extend(vector.port.0.to_be_bytes());
                for seconds in [times.message_age, times.max_age, times.hello, times.forward_delay] {
                    // In parts of a second: 256 of them.
                    message.extend((seconds << 8).to_be_bytes());
                }
                if is_rapid {
                    message.push(0);
                }
            }
        }
        let mut frame = [GROUP, from].concat();
        let length = u16::try_from(LLC.len() + message.len()).unwrap_or(u16::MAX);
        frame.extend(length.to_be_bytes());
        frame.extend(LLC);
        frame.extend(message);
        frame.resize(frame.len().max(SHORTEST_FRAME), 0);
        frame
    }

    /// The message in a frame, if there is one that can be (clause 9.3.4).
    pub(crate) fn of_frame(frame: &[u8]) -> Option<Self> {
        let (header, rest) = frame.split_first_chunk::<17>()?;
        if header[..6] != GROUP || header[14..] != LLC {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([header[12], header[13]])).checked_sub(LLC.len())?;
        let message = rest.get(..length)?;
        let (&[0, 0, version, kind], rest) = message.split_first_chunk::<4>()? else { return None };
        if kind == TOPOLOGY_CHANGE {
            return Some(Self::TopologyChange);
        }
        let is_rapid = match (version, kind) {
            (_, CONFIGURATION) => false,
            (RAPID.., RAPID) => true,
            _ => return None,
        };
        let body = rest.first_chunk::<{ STP_LENGTH - 4 }>()?;
        if is_rapid && rest.len() < STP_LENGTH - 3 {
            return None;
        }
        let long = |at: usize| body[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let short = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let vector = Vector {
            root: BridgeId(long(1)),
            cost: u32::from_be_bytes([body[9], body[10], body[11], body[12]]),
            bridge: BridgeId(long(13)),
            port: PortId(short(21)),
        };
        let [message_age, max_age, hello, forward_delay] = [23, 25, 27, 29].map(|at| short(at) >> 8);
        // Who says nothing, or what cannot be, gets what is usual at least.
        let times = Times {
            message_age,
            max_age: max_age.clamp(6, 40),
            hello: hello.clamp(1, 10),
            forward_delay: forward_delay.clamp(4, 30),
        };
        if !is_rapid && message_age >= times.max_age {
            return None;
        }
        let flags = Flags::of_byte(body[0], is_rapid);
        Some(if is_rapid {
            Self::Rapid(flags, vector, times)
        } else {
            Self::Configuration(flags, vector, times)
        })
    }
}
