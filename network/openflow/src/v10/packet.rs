//! Packets for controllers, and packets that they have a switch send (sections 5.3.6 and 5.4.1).

use super::actions::{actions, steps};
use super::step::Step;
use crate::action::without_inapplicable;
use crate::error::{BadAction, BadRequest};
use crate::numbers::numbers;
use crate::packet_in::{self, PacketInReason};
use crate::wire::{Reader, Result, Wire, layout, said_length};
use crate::{NO_BUFFER, PortNumber, ShortPort, Told, packet_out};
use fulmar_packet::{Field, FlowKey, Match, extract};

numbers! {
    enum Reason: u8, else BadRequest::BadType, {
        NoMatch = 0,
        Action = 1,
        InvalidTtl = 2,
    }
}

layout! {
    /// A packet for a controller.
    struct PacketIn {
        buffer: u32;
        total_length: u16;
        in_port: ShortPort;
        reason: Reason [1];
        data: Vec<u8>;
    }
}

impl From<&packet_in::PacketIn> for PacketIn {
    fn from(packet: &packet_in::PacketIn) -> Self {
        let port = u32::try_from(packet.known.0.key().get(Field::IN_PORT)).unwrap_or_default();
        Self {
            buffer: packet.buffer,
            total_length: packet.total_length,
            in_port: PortNumber(port).try_into().unwrap_or(ShortPort::NONE),
            reason: match packet.reason {
                PacketInReason::NoMatch => Reason::NoMatch,
                PacketInReason::InvalidTtl => Reason::InvalidTtl,
                _ => Reason::Action,
            },
            data: packet.data.clone(),
        }
    }
}

impl From<PacketIn> for packet_in::PacketIn {
    fn from(packet: PacketIn) -> Self {
        let PacketIn { buffer, total_length, in_port, reason, data } = packet;
        Self {
            buffer,
            total_length,
            reason: match reason {
                Reason::NoMatch => PacketInReason::NoMatch,
                Reason::Action => PacketInReason::Action,
                Reason::InvalidTtl => PacketInReason::InvalidTtl,
            },
            table: 0,
            cookie: u64::MAX,
            known: Told(Match::ANY.with(Field::IN_PORT, PortNumber::from(in_port).0.into())),
            data,
        }
    }
}

/// A packet for the switch to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    pub(super) buffer: u32,
    pub(super) port: ShortPort,
    pub(super) steps: Vec<Step>,
    pub(super) data: Vec<u8>,
}

impl Wire for PacketOut {
    fn put(&self, out: &mut Vec<u8>) {
        self.buffer.put(out);
        self.port.put(out);
        let mut steps = Vec::new();
        self.steps.put(&mut steps);
        said_length(steps.len()).put(out);
        steps.put(out);
        self.data.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (buffer, port) = <(u32, ShortPort)>::get(input)?;
        let length = usize::from(u16::get(input)?);
        let steps = Vec::get(&mut input.part(length, BadAction::BadLength)?)?;
        Ok(Self { buffer, port, steps, data: Vec::get(input)? })
    }
}

impl From<&packet_out::PacketOut> for PacketOut {
    fn from(packet: &packet_out::PacketOut) -> Self {
        let port = packet.port.try_into().unwrap_or(ShortPort::NONE);
        Self { buffer: packet.buffer, port, steps: steps(&packet.actions), data: packet.data.clone() }
    }
}

impl PacketOut {
    /// What it asks for; of actions that change what the packet has not, nothing is left to do.
    pub(super) fn into_value(self) -> Result<packet_out::PacketOut> {
        let Self { buffer, port, steps, data } = self;
        if buffer != NO_BUFFER && !data.is_empty() {
            return Err(BadRequest::BadLength.into());
        }
        let mut key = FlowKey::EMPTY;
        extract(&data, &mut key);
        let mut known = Match::ANY;
        for field in [Field::ETH_TYPE, Field::VLAN_TCI, Field::IP_PROTOCOL, Field::L4_SOURCE] {
            known = known.with(field, key.get(field));
        }
        let actions = without_inapplicable(actions(steps, &known)?, &known);
        Ok(packet_out::PacketOut { buffer, port: port.into(), actions, data })
    }
}
