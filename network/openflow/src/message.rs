//! Whole messages: a header, and what it announces (section 7.1).

use crate::error::{BadRequest, ErrorCode, ErrorMessage, Onf};
use crate::experimenter::Experimenter;
use crate::flow::{FlowMod, FlowRemoved};
use crate::group::GroupMod;
use crate::hello::Hello;
use crate::meter::MeterMod;
use crate::multipart::{MultipartReply, MultipartRequest};
use crate::numbers::choice;
use crate::packet_in::PacketIn;
use crate::packet_out::PacketOut;
use crate::ports::{PortMod, PortStatus};
use crate::queue::{QueueConfig, QueueConfigRequest};
use crate::role::{Asynchronous, RoleMessage};
use crate::switch::{Features, SwitchConfig};
use crate::table::TableMod;
use crate::wire::{Reader, Result, Wire, put_length};

/// The version of OpenFlow that this is: 1.3.
pub const VERSION: u8 = 4;

/// Bytes of a header: version, type, length of the message, and its number.
pub const HEADER: usize = 8;

/// So much of a message that was wrong is sent back at most (section 7.4.4 asks for as much at least).
const OFFENDER: usize = 64;

choice! {
    /// What a message says.
    enum Body: u8, else BadRequest::BadType, {
        /// Which versions its sender speaks.
        Hello(Hello) = 0,
        /// Something was wrong.
        Error(ErrorMessage) = 1,
        /// Any bytes, which are to come back.
        EchoRequest(Vec<u8>) = 2,
        /// The same bytes.
        EchoReply(Vec<u8>) = 3,
        /// Something that is not OpenFlow's own.
        Experimenter(Experimenter) = Body::EXPERIMENTER,
        /// What is the switch?
        FeaturesRequest = 5,
        /// This.
        FeaturesReply(Features) = 6,
        /// How is it set?
        GetConfigRequest = 7,
        /// So.
        GetConfigReply(SwitchConfig) = 8,
        /// It is to be set so.
        SetConfig(SwitchConfig) = 9,
        /// A packet for the controller.
        PacketIn(PacketIn) = 10,
        /// A flow is gone.
        FlowRemoved(FlowRemoved) = 11,
        /// Something happened to a port.
        PortStatus(PortStatus) = 12,
        /// A packet for the switch to send.
        PacketOut(PacketOut) = 13,
        /// Flows change.
        FlowMod(FlowMod) = 14,
        /// Groups change.
        GroupMod(GroupMod) = 15,
        /// A port changes.
        PortMod(PortMod) = 16,
        /// A table changes.
        TableMod(TableMod) = 17,
        /// A question about the switch.
        MultipartRequest(MultipartRequest) = 18,
        /// A part of the answer.
        MultipartReply(MultipartReply) = 19,
        /// Is all done that was asked before?
        BarrierRequest = 20,
        /// It is.
        BarrierReply = 21,
        /// What are a port's queues?
        QueueConfigRequest(QueueConfigRequest) = 22,
        /// These.
        QueueConfigReply(QueueConfig) = 23,
        /// The controller wants a role.
        RoleRequest(RoleMessage) = 24,
        /// It has this one.
        RoleReply(RoleMessage) = 25,
        /// What is the controller told?
        GetAsynchronousRequest = 26,
        /// This.
        GetAsynchronousReply(Asynchronous) = 27,
        /// It is to be told this.
        SetAsynchronous(Asynchronous) = 28,
        /// A meter changes.
        MeterMod(MeterMod) = 29,
    }
}

impl Body {
    pub(crate) const EXPERIMENTER: u8 = 4;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number, which the answer has too.
    pub xid: u32,
    /// What it says.
    pub body: Body,
}

/// A message does not fit into the 65,535 bytes that one can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes: 65535 are the most that its header can tell")]
pub struct TooLong(pub usize);

/// A message was wrong, and its sender is to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}")]
pub struct Rejection {
    /// The number of the message.
    pub xid: u32,
    /// How it was wrong.
    pub code: ErrorCode,
    /// The beginning of it.
    pub data: Vec<u8>,
}

impl Rejection {
    /// What is wrong with the message that begins with these bytes.
    pub fn of(message: &[u8], code: impl Into<ErrorCode>) -> Self {
        let xid =
            message.get(4..HEADER).map_or(0, |xid| u32::from_be_bytes([xid[0], xid[1], xid[2], xid[3]]));
        Self { xid, code: code.into(), data: message[..message.len().min(OFFENDER)].to_vec() }
    }

    /// The message that says so.
    pub fn into_message(self) -> Message {
        let Self { xid, code, data } = self;
        Message { xid, body: Body::Error(ErrorMessage { code, data }) }
    }
}

impl Message {
    /// Appends the message to bytes.
    ///
    /// # Errors
    /// [`TooLong`] if there is too much in it; then nothing is appended.
    pub fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), TooLong> {
        let start = out.len();
        self.put(out);
        let length = out.len() - start;
        if length > usize::from(u16::MAX) {
            out.truncate(start);
            return Err(TooLong(length));
        }
        Ok(())
    }

    /// The message that these bytes are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Rejection> {
        Self::get_whole(bytes).map_err(|code| Rejection::of(bytes, code))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let version = if let Body::Hello(hello) = &self.body { hello.version } else { VERSION };
        (version, self.body.number()).put(out);
        (0u16, self.xid).put(out);
        self.body.put_content(out);
        put_length(out, start, 2);
    }

    pub(crate) fn get_whole(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, BadRequest::BadLength);
        let (version, kind) = <(u8, u8)>::get(&mut input)?;
        let (length, xid) = <(u16, u32)>::get(&mut input)?;
        if usize::from(length) != bytes.len() {
            return Err(BadRequest::BadLength.into());
        }
        if version != VERSION && kind != HELLO {
            return Err(BadRequest::BadVersion.into());
        }
        let mut body = Body::get_content(kind, &mut input)?;
        input.end()?;
        match &mut body {
            Body::Hello(hello) => hello.version = version,
            Body::Experimenter(Experimenter::BundleAdd(add)) if add.message.xid != xid => {
                return Err(Onf::BundleBadXid.into());
            }
            _ => {}
        }
        Ok(Self { xid, body })
    }
}

/// The only type of messages that may be of any version.
const HELLO: u8 = 0;
