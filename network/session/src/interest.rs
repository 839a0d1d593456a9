//! What a session is told without asking, and how (section 7.3.10; Nicira's extensions for the same).

use crate::event::{self, Event};
use crate::switch::SessionId;
use fulmar_openflow::experimenter::PacketInFormat;
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_openflow::role::{Asynchronous, Role};
use fulmar_openflow::{Body, Version};

/// What a session is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A controller: it is told what happens.
    Controller,
    /// A tool, as `ovs-ofctl`: it is told what happens after it has set how much of a packet it gets.
    Service,
    /// One that listens in: it is told what controllers and the switch say to each other, and may change nothing.
    Snoop,
}

/// What a controller that asks is told that it gets of a packet that is buffered, before it says how much (section 7.3.2).
const MISS_LENGTH: u16 = 128;

/// What a session is told before it says what it wants to be: as a slave only of ports, and never of packets whose time to live is over.
const AT_FIRST: Asynchronous = Asynchronous {
    packet_in: [1 << PacketInReason::NoMatch as u32 | 1 << PacketInReason::Action as u32, 0],
    port_status: [0b111, 0b111],
    flow_removed: [0b1111, 0],
};

#[derive(Clone, Debug)]
pub(crate) struct Interest {
    session: SessionId,
    pub(crate) kind: Kind,
    pub(crate) asynchronous: Asynchronous,
    /// So many bytes of a packet that is buffered; none is. A tool is told of packets if it has said any.
    pub(crate) miss_length: u16,
    pub(crate) format: PacketInFormat,
    /// The number that the controller has given itself.
    pub(crate) controller: u16,
}

impl Interest {
    pub(crate) const fn new(session: SessionId, kind: Kind) -> Self {
        Self {
            session,
            kind,
            asynchronous: AT_FIRST,
            miss_length: if matches!(kind, Kind::Controller) { MISS_LENGTH } else { 0 },
            format: PacketInFormat::OpenFlow,
            controller: 0,
        }
    }

    /// Whether something is told to a session that has this role. In OpenFlow 1.0 what no flow is for (a table miss) goes to the controllers;
    /// later, only a flow says so (section 5.4).
    pub(crate) fn wants(&self, event: &Event, role: Role, version: Version) -> bool {
        let (masks, reason) = match event {
            Event::Private { session, .. } => return *session == self.session,
            Event::PacketIn { controller, .. } if *controller != self.controller => return false,
            Event::PacketIn { packet, .. } if event::has_no_flow(packet) && version != Version::V10 => {
                return false;
            }
            Event::PacketIn { packet, .. } => {
                (self.asynchronous.packet_in, event::reason(packet, version) as u32)
            }
            Event::FlowRemoved(flow) => (self.asynchronous.flow_removed, flow.reason as u32),
            Event::PortStatus(status) => (self.asynchronous.port_status, status.reason as u32),
        };
        let is_told = match self.kind {
            Kind::Controller => true,
            Kind::Service => self.miss_length > 0,
            Kind::Snoop => false,
        };
        is_told && masks[usize::from(role == Role::Slave)] >> reason & 1 != 0
    }

    /// The message that an event becomes.
    pub(crate) fn body(&self, event: &Event, version: Version) -> Body {
        match event {
            Event::PacketIn { packet, .. } => {
                event::packet_in(packet, event::reason(packet, version), self.format)
            }
            Event::FlowRemoved(flow) => Body::FlowRemoved((**flow).clone()),
            Event::PortStatus(status) => Body::PortStatus((**status).clone()),
            Event::Private { body, .. } => (**body).clone(),
        }
    }
}
