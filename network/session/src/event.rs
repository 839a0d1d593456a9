//! What a switch tells of itself, in the form that a session has chosen.

use crate::switch::SessionId;
use fulmar_openflow::experimenter::{Experimenter, PacketInFormat};
use fulmar_openflow::flow::FlowRemoved;
use fulmar_openflow::packet_in::{NiciraPacketIn, PacketIn, PacketIn2, PacketInReason};
use fulmar_openflow::ports::PortStatus;
use fulmar_openflow::{Body, NO_BUFFER, Version};

/// Something that a switch tells without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet for controllers.
    PacketIn {
        /// For those that have given themselves this number; 0 is that of all who have not.
        controller: u16,
        /// The packet, and what is known of it.
        packet: Box<PacketIn2>,
    },
    /// A flow is gone that was to be told of.
    FlowRemoved(Box<FlowRemoved>),
    /// Something happened to a port.
    PortStatus(Box<PortStatus>),
    /// What one session has asked to be told from now on: how flows change, for a flow monitor. Its role does not matter.
    Private {
        /// The session.
        session: SessionId,
        /// The number of the request that this answers, which may take several messages; none, if it is told without one, and then it is not told if it
        /// does not fit into 65,535 bytes.
        answers: Option<u32>,
        /// The message.
        body: Box<Body>,
    },
}

/// Why a packet is told, in this version: reasons that came later are cases of an action's. To OpenFlow 1.0 a flow of priority 0 is one like
/// others, and no table miss.
pub(crate) fn reason(packet: &PacketIn2, version: Version) -> PacketInReason {
    match packet.reason {
        PacketInReason::ActionSet | PacketInReason::Group | PacketInReason::PacketOut => {
            PacketInReason::Action
        }
        PacketInReason::NoMatch if version == Version::V10 && !has_no_flow(packet) => PacketInReason::Action,
        known => known,
    }
}

/// Whether there was no flow for a packet: not even the one that is for all that have no other.
pub(crate) fn has_no_flow(packet: &PacketIn2) -> bool {
    packet.reason == PacketInReason::NoMatch && packet.cookie.is_none()
}

/// So much of a packet goes into a message at most, beside what is known of it: what a host has joined to one packet may be longer.
const MOST: usize = 60_000;

/// What a cookie is when there is none.
const NO_COOKIE: u64 = u64::MAX;

/// The message that a packet becomes. It has no buffer here, so all of it is in there, whatever `miss_send_len` and actions say of what is
/// buffered (sections 7.3.2 and 7.4.1).
pub(crate) fn packet_in(packet: &PacketIn2, reason: PacketInReason, format: PacketInFormat) -> Body {
    let sent = packet.data.len().min(MOST);
    let whole = packet.total_length.unwrap_or_else(|| u32::try_from(packet.data.len()).unwrap_or(u32::MAX));
    let data = packet.data[..sent].to_vec();
    if format == PacketInFormat::Nicira2 {
        let total_length = Some(whole).filter(|whole| usize::try_from(*whole) != Ok(sent));
        return Body::Experimenter(Experimenter::PacketIn2(PacketIn2 {
            data,
            total_length,
            reason,
            buffer: None,
            table: packet.table,
            cookie: packet.cookie,
            known: packet.known.clone(),
            user_data: packet.user_data.clone(),
            continuation: packet.continuation.clone(),
        }));
    }
    let packet = PacketIn {
        buffer: NO_BUFFER,
        total_length: u16::try_from(whole).unwrap_or(u16::MAX),
        reason,
        table: packet.table,
        cookie: packet.cookie.unwrap_or(NO_COOKIE),
        known: packet.known.clone(),
        data,
    };
    if format == PacketInFormat::Nicira {
        Body::Experimenter(Experimenter::PacketIn(NiciraPacketIn(packet)))
    } else {
        Body::PacketIn(packet)
    }
}
