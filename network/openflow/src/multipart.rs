//! Questions about a switch whose answers may need several messages (section 7.3.5).

use crate::error::BadRequest;
use crate::flow::{AggregateStats, FlowFilter, FlowStats};
use crate::group::{GroupDescription, GroupFeatures, GroupFilter, GroupStats};
use crate::meter::{MeterConfig, MeterFeatures, MeterFilter, MeterStats};
use crate::monitor::{MonitorRequest, MonitorUpdate};
use crate::numbers::choice;
use crate::ports::{Port, PortFilter, PortStats};
use crate::queue::{QueueFilter, QueueStats};
use crate::switch::Description;
use crate::table::{TableFeatures, TableStats};
use crate::v10::{length_of_description, length_of_stats};
use crate::wire::{Reader, Result, Wire, length_of, put_zeros};
use crate::{Dialect, HEADER, NICIRA, ONF};

choice! {
    /// A question.
    enum RequestBody: u64, else BadRequest::BadMultipart, {
        /// What people call the switch.
        Description = 0,
        /// Some flows, and what they have done.
        Flows(FlowFilter) = 1,
        /// What some flows have done together.
        Aggregate(FlowFilter) = 2,
        /// What tables have done.
        Tables = 3,
        /// What ports have done.
        PortStats(PortFilter) = 4,
        /// What queues have done.
        Queues(QueueFilter) = 5,
        /// What groups have done.
        GroupStats(GroupFilter) = 6,
        /// What groups are.
        Groups = 7,
        /// Which groups there can be.
        GroupFeatures = 8,
        /// What meters have done.
        MeterStats(MeterFilter) = 9,
        /// What meters are.
        Meters(MeterFilter) = 10,
        /// Which meters there can be.
        MeterFeatures = 11,
        /// What tables can do; or what they are to do, if some are named.
        TableFeatures(Vec<TableFeatures>) = 12,
        /// What ports are.
        Ports = 13,
        /// How flows change from now on.
        Monitor(Vec<MonitorRequest>) = FLOW_MONITOR,
    }
}

choice! {
    /// An answer, or a part of it.
    enum ReplyBody: u64, else BadRequest::BadMultipart, {
        /// What people call the switch.
        Description(Box<Description>) = 0,
        /// Some flows, and what they have done.
        Flows(Vec<FlowStats>) = 1,
        /// What some flows have done together.
        Aggregate(AggregateStats) = 2,
        /// What tables have done.
        Tables(Vec<TableStats>) = 3,
        /// What ports have done.
        PortStats(Vec<PortStats>) = 4,
        /// What queues have done.
        Queues(Vec<QueueStats>) = 5,
        /// What groups have done.
        GroupStats(Vec<GroupStats>) = 6,
        /// What groups are.
        Groups(Vec<GroupDescription>) = 7,
        /// Which groups there can be.
        GroupFeatures(GroupFeatures) = 8,
        /// What meters have done.
        MeterStats(Vec<MeterStats>) = 9,
        /// What meters are.
        Meters(Vec<MeterConfig>) = 10,
        /// Which meters there can be.
        MeterFeatures(MeterFeatures) = 11,
        /// What tables can do.
        TableFeatures(Vec<TableFeatures>) = 12,
        /// What ports are.
        Ports(Vec<Port>) = 13,
        /// How flows have changed.
        Monitor(Vec<MonitorUpdate>) = FLOW_MONITOR,
    }
}

/// So many bytes of an answer fit into a message, behind its header and what announces the answer.
const ROOM: usize = 65_535 - HEADER - 16;

impl ReplyBody {
    /// The answer in as many parts as it needs, all but the last of which say that more is to come. What alone is too long for a
    /// message stays so, and [`Dialect::encode`] tells.
    pub fn into_replies(self, dialect: Dialect) -> Vec<MultipartReply> {
        let answers = match self {
            Self::Flows(list) => match dialect {
                Dialect::V10(habits) => cut_by(|flow| length_of_stats(flow, habits), list, Self::Flows),
                Dialect::V13 => cut(list, Self::Flows),
            },
            Self::Tables(list) => cut(list, Self::Tables),
            Self::PortStats(list) => cut(list, Self::PortStats),
            Self::Queues(list) => cut(list, Self::Queues),
            Self::GroupStats(list) => cut(list, Self::GroupStats),
            Self::Groups(list) => match dialect {
                Dialect::V10(_) => cut_by(length_of_description, list, Self::Groups),
                Dialect::V13 => cut(list, Self::Groups),
            },
            Self::MeterStats(list) => cut(list, Self::MeterStats),
            Self::Meters(list) => cut(list, Self::Meters),
            Self::TableFeatures(list) => cut(list, Self::TableFeatures),
            Self::Ports(list) => cut(list, Self::Ports),
            Self::Monitor(list) => cut(list, Self::Monitor),
            whole @ (Self::Description(_)
            | Self::Aggregate(_)
            | Self::GroupFeatures(_)
            | Self::MeterFeatures(_)) => vec![whole],
        };
        let last = answers.len() - 1;
        let reply = |(index, answer)| MultipartReply { has_more: index < last, body: answer };
        answers.into_iter().enumerate().map(reply).collect()
    }
}

/// A list in parts that fit into messages: at least one, which may be empty. (Of what OpenFlow 1.0 takes more bytes for than OpenFlow
/// 1.3, there are few but flows and groups: tables, all of which fit.)
fn cut<T: Wire>(list: Vec<T>, answer: fn(Vec<T>) -> ReplyBody) -> Vec<ReplyBody> {
    cut_by(length_of, list, answer)
}

/// The same of things that are so long.
fn cut_by<T>(length: impl Fn(&T) -> usize, list: Vec<T>, answer: fn(Vec<T>) -> ReplyBody) -> Vec<ReplyBody> {
    let (mut answers, mut part, mut room) = (Vec::new(), Vec::new(), ROOM);
    for item in list {
        let length = length(&item);
        if length > room && !part.is_empty() {
            answers.push(answer(std::mem::take(&mut part)));
            room = ROOM;
        }
        room = room.saturating_sub(length);
        part.push(item);
    }
    answers.push(answer(part));
    answers
}

/// The type of what is an experimenter's.
const EXPERIMENTER: u16 = 0xffff;

/// An experimenter and its number of a question, as one. OpenFlow's own have no experimenter.
const FLOW_MONITOR: u64 = (ONF as u64) << 32 | 1870;

fn put_head(number: u64, has_more: bool, out: &mut Vec<u8>) {
    let own = u16::try_from(number);
    own.unwrap_or(EXPERIMENTER).put(out);
    u16::from(has_more).put(out);
    put_zeros(out, 4);
    if own.is_err() {
        number.put(out);
    }
}

/// The number, and whether more is to come.
fn get_head(input: &mut Reader<'_>) -> Result<(u64, bool)> {
    let (kind, flags) = <(u16, u16)>::get(input)?;
    input.skip(4)?;
    if kind != EXPERIMENTER {
        return Ok((kind.into(), flags & 1 != 0));
    }
    let number = u64::get(input)?;
    if number >> 32 != ONF.into() && number >> 32 != NICIRA.into() {
        return Err(BadRequest::BadExperimenter.into());
    }
    Ok((number, flags & 1 != 0))
}

/// A question, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRequest {
    /// Whether more of it is to come.
    pub has_more: bool,
    /// What is asked.
    pub body: RequestBody,
}

impl Wire for MultipartRequest {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.body.number(), self.has_more, out);
        self.body.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, has_more) = get_head(input)?;
        Ok(Self { has_more, body: RequestBody::get_content(number, input)? })
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartReply {
    /// Whether more of it is to come.
    pub has_more: bool,
    /// What is answered.
    pub body: ReplyBody,
}

impl Wire for MultipartReply {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.body.number(), self.has_more, out);
        self.body.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, has_more) = get_head(input)?;
        Ok(Self { has_more, body: ReplyBody::get_content(number, input)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Any;
    use crate::{Body, Message};
    use fulmar_node::Random;

    #[test]
    fn a_long_answer_has_parts() {
        let mut random = Random::new(1);
        let flows: Vec<FlowStats> = (0..2_000).map(|_| FlowStats::any(&mut random)).collect();
        let replies = ReplyBody::Flows(flows.clone()).into_replies(Dialect::V13);
        assert!(replies.len() > 3);
        let mut found = Vec::new();
        for (left, reply) in (0..replies.len()).rev().zip(replies) {
            assert_eq!(reply.has_more, left > 0);
            let message = Message { xid: 1, body: Body::MultipartReply(reply.clone()) };
            assert_eq!(message.encode(&mut Vec::new()), Ok(()));
            let ReplyBody::Flows(part) = reply.body else { panic!("they are flows") };
            found.extend(part);
        }
        assert_eq!(found, flows);
        let none = MultipartReply { has_more: false, body: ReplyBody::Ports(Vec::new()) };
        assert_eq!(ReplyBody::Ports(Vec::new()).into_replies(Dialect::V13), [none]);
    }
}
