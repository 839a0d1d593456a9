//! OpenFlow 1.0 and the extensions by which Open vSwitch's tools say in it what it has no words for: another coding of the same values.
//!
//! Each layout is written down as in the rest of this crate; beside it stands what it means. Where values have more than the version
//! can say, the rest is left out, as Open vSwitch does: meters, sets of actions, and of a match in OpenFlow's own form all that is not
//! in its twelve fields. What OpenFlow 1.0 has and 1.3 has not becomes what means the same: a VLAN that is set, also where there
//! is no tag, is bits of `vlan_tci`; a queue for one output is a queue, an output, and no queue.
#![expect(unnameable_types, unreachable_pub, reason = "layouts are written down as public")]

mod actions;
mod error;
mod flow;
mod flow_stats;
mod groups;
mod matching;
mod packet;
mod port;
mod statistics;
mod step;

use crate::error::BadRequest;
use crate::experimenter::Experimenter;
use crate::hello::Hello;
use crate::message::{Body, Message, TooLong};
use crate::numbers::choice;
use crate::switch::SwitchConfig;
use crate::version::{Habits, Unwritable, Version};
use crate::wire::{Reader, Result, Wire, put_length};
use crate::{HEADER, NICIRA};

pub(crate) use flow_stats::length_of_stats;
pub(crate) use groups::length_of_description;

/// What headers call it.
pub(crate) const VERSION: u8 = 1;

/// The types of messages that are looked at before the rest.
const HELLO: u8 = 0;
pub(crate) const STATISTICS_REQUEST: u8 = 16;

/// Nicira and its number of something, as one.
const fn nx(number: u32) -> u64 {
    (NICIRA as u64) << 32 | number as u64
}

choice! {
    /// What a message says (section 5.1).
    enum Said: u8, else BadRequest::BadType, {
        Hello(Hello) = HELLO,
        Error(error::Error) = 1,
        EchoRequest(Vec<u8>) = 2,
        EchoReply(Vec<u8>) = 3,
        Vendor(Vendor) = 4,
        FeaturesRequest = 5,
        FeaturesReply(port::Features) = 6,
        GetConfigRequest = 7,
        GetConfigReply(SwitchConfig) = 8,
        SetConfig(SwitchConfig) = 9,
        PacketIn(packet::PacketIn) = 10,
        FlowRemoved(flow::Removed) = 11,
        PortStatus(port::PortStatus) = 12,
        PacketOut(packet::PacketOut) = 13,
        FlowMod(flow::Change) = 14,
        PortMod(port::PortMod) = 15,
        StatisticsRequest(statistics::Request) = STATISTICS_REQUEST,
        StatisticsReply(statistics::Reply) = 17,
        BarrierRequest = 18,
        BarrierReply = 19,
        QueueConfigRequest(port::QueueConfigRequest) = 20,
        QueueConfigReply(port::QueueConfig) = 21,
    }
}

choice! {
    /// Those of Nicira's messages that version 1.3 has in forms of its own.
    enum Nicira: u64, else BadRequest::BadExperimenterType, {
        FlowMod(flow::NiciraChange) = FLOW_MOD,
        FlowRemoved(flow::NiciraRemoved) = FLOW_REMOVED,
        GroupMod(groups::Change) = GROUP_MOD,
    }
}

const FLOW_MOD: u64 = nx(13);
const FLOW_REMOVED: u64 = nx(14);
const GROUP_MOD: u64 = nx(31);

/// A message that is not OpenFlow's own (section 5.5.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Of flows and groups.
    Nicira(Nicira),
    /// The same in all versions.
    Other(Experimenter),
}

impl Wire for Vendor {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nicira(nicira) => {
                nicira.number().put(out);
                nicira.put_content(out);
            }
            Self::Other(other) => other.put(out),
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        match u64::get(&mut input.clone())? {
            number @ (FLOW_MOD | FLOW_REMOVED | GROUP_MOD) => {
                input.skip(8)?;
                Nicira::get_content(number, input).map(Self::Nicira)
            }
            number if number >> 32 == NICIRA.into() => Experimenter::get(input).map(Self::Other),
            _ => Err(BadRequest::BadExperimenter.into()),
        }
    }
}

impl Said {
    fn of(body: &Body, habits: Habits) -> Option<Self> {
        Some(match body {
            Body::Hello(hello) => Self::Hello(hello.clone()),
            Body::Error(error) => Self::Error(error.into()),
            Body::EchoRequest(data) => Self::EchoRequest(data.clone()),
            Body::EchoReply(data) => Self::EchoReply(data.clone()),
            Body::Experimenter(Experimenter::BundleControl(_) | Experimenter::BundleAdd(_))
            | Body::TableMod(_)
            | Body::RoleRequest(_)
            | Body::RoleReply(_)
            | Body::GetAsynchronousRequest
            | Body::GetAsynchronousReply(_)
            | Body::SetAsynchronous(_)
            | Body::MeterMod(_) => return None,
            Body::Experimenter(other) if other.number() >> 32 != NICIRA.into() => return None,
            Body::Experimenter(other) => Self::Vendor(Vendor::Other(other.clone())),
            Body::FeaturesRequest => Self::FeaturesRequest,
            Body::FeaturesReply(features) => Self::FeaturesReply(features.into()),
            Body::GetConfigRequest => Self::GetConfigRequest,
            Body::GetConfigReply(config) => Self::GetConfigReply(config.clone()),
            Body::SetConfig(config) => Self::SetConfig(config.clone()),
            Body::PacketIn(packet) => Self::PacketIn(packet.into()),
            Body::FlowRemoved(removed) if habits.tells_all => {
                Self::Vendor(Vendor::Nicira(Nicira::FlowRemoved(removed.into())))
            }
            Body::FlowRemoved(removed) => Self::FlowRemoved(removed.into()),
            Body::PortStatus(status) => Self::PortStatus(status.into()),
            Body::PacketOut(packet) => Self::PacketOut(packet.into()),
            Body::FlowMod(flow_mod) if habits.tells_all || flow::needs_nicira(flow_mod) => {
                Self::Vendor(Vendor::Nicira(Nicira::FlowMod(flow::NiciraChange::of(flow_mod, habits))))
            }
            Body::FlowMod(flow_mod) => Self::FlowMod(flow::Change::of(flow_mod, habits)),
            Body::GroupMod(group_mod) => Self::Vendor(Vendor::Nicira(Nicira::GroupMod(group_mod.into()))),
            Body::PortMod(port_mod) => Self::PortMod(port_mod.into()),
            Body::MultipartRequest(asked) => {
                Self::StatisticsRequest(statistics::Request::of(&asked.body, habits)?)
            }
            Body::MultipartReply(reply) => Self::StatisticsReply(statistics::Reply::of(reply, habits)?),
            Body::BarrierRequest => Self::BarrierRequest,
            Body::BarrierReply => Self::BarrierReply,
            Body::QueueConfigRequest(asked) => Self::QueueConfigRequest(asked.into()),
            Body::QueueConfigReply(queues) => Self::QueueConfigReply(queues.into()),
        })
    }

    fn into_body(self, habits: Habits) -> Result<Body> {
        Ok(match self {
            Self::Hello(hello) => Body::Hello(hello),
            Self::Error(error) => Body::Error(error.into()),
            Self::EchoRequest(data) => Body::EchoRequest(data),
            Self::EchoReply(data) => Body::EchoReply(data),
            Self::Vendor(Vendor::Nicira(Nicira::FlowMod(change))) => {
                Body::FlowMod(change.into_value(habits)?)
            }
            Self::Vendor(Vendor::Nicira(Nicira::FlowRemoved(removed))) => Body::FlowRemoved(removed.into()),
            Self::Vendor(Vendor::Nicira(Nicira::GroupMod(change))) => Body::GroupMod(change.into_value()?),
            Self::Vendor(Vendor::Other(other)) => Body::Experimenter(other),
            Self::FeaturesRequest => Body::FeaturesRequest,
            Self::FeaturesReply(features) => Body::FeaturesReply(features.into()),
            Self::GetConfigRequest => Body::GetConfigRequest,
            Self::GetConfigReply(config) => Body::GetConfigReply(config),
            Self::SetConfig(config) => Body::SetConfig(config),
            Self::PacketIn(packet) => Body::PacketIn(packet.into()),
            Self::FlowRemoved(removed) => Body::FlowRemoved(removed.into()),
            Self::PortStatus(status) => Body::PortStatus(status.into()),
            Self::PacketOut(packet) => Body::PacketOut(packet.into_value()?),
            Self::FlowMod(change) => Body::FlowMod(change.into_value(habits)?),
            Self::PortMod(port_mod) => Body::PortMod(port_mod.into()),
            Self::StatisticsRequest(asked) => Body::MultipartRequest(asked.into()),
            Self::StatisticsReply(reply) => Body::MultipartReply(reply.into_value()?),
            Self::BarrierRequest => Body::BarrierRequest,
            Self::BarrierReply => Body::BarrierReply,
            Self::QueueConfigRequest(asked) => Body::QueueConfigRequest(asked.into()),
            Self::QueueConfigReply(queues) => Body::QueueConfigReply(queues.into()),
        })
    }
}

/// Appends a message to bytes; if it cannot, nothing.
pub(crate) fn encode(
    message: &Message,
    habits: Habits,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Unwritable> {
    let said = Said::of(&message.body, habits).ok_or(Unwritable::Unknown(Version::V10))?;
    let start = out.len();
    let version = if let Said::Hello(hello) = &said { hello.version } else { VERSION };
    (version, said.number()).put(out);
    (0u16, message.xid).put(out);
    said.put_content(out);
    let length = out.len() - start;
    if length > usize::from(u16::MAX) {
        out.truncate(start);
        return Err(TooLong(length).into());
    }
    put_length(out, start, 2);
    Ok(())
}

pub(crate) fn decode(bytes: &[u8], habits: Habits) -> Result<Message> {
    let mut input = Reader::new(bytes, BadRequest::BadLength);
    let (version, kind) = <(u8, u8)>::get(&mut input)?;
    let (length, xid) = <(u16, u32)>::get(&mut input)?;
    if usize::from(length) != bytes.len() {
        return Err(BadRequest::BadLength.into());
    }
    if version != VERSION && kind != HELLO {
        return Err(BadRequest::BadVersion.into());
    }
    debug_assert_eq!(bytes.len() - input.left(), HEADER);
    let mut said = Said::get_content(kind, &mut input)?;
    input.end()?;
    if let Said::Hello(hello) = &mut said {
        hello.version = version;
    }
    Ok(Message { xid, body: said.into_body(habits)? })
}

#[cfg(test)]
mod tests;
