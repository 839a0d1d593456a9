//! Questions about a switch, and their answers (section 5.3.5).

use super::flow_stats::{Filter, Flow, NiciraFilter, NiciraFlow};
use super::groups::{self, Description as Group};
use super::port::{Port, PortFilter, PortStats, QueueFilter, QueueStats};
use crate::error::BadRequest;
use crate::flow::AggregateStats;
use crate::group::{GroupFeatures, GroupFilter, GroupStats};
use crate::multipart::{self, MultipartReply, MultipartRequest};
use crate::numbers::choice;
use crate::switch::Description;
use crate::table::TableStats;
use crate::text_bytes::Text;
use crate::version::Habits;
use crate::wire::{Reader, Result, Wire, layout, put_zeros};
use crate::{GroupNumber, NICIRA};

/// The type of what is a vendor's.
const VENDOR: u16 = 0xffff;

const fn nx(number: u32) -> u64 {
    (NICIRA as u64) << 32 | number as u64
}

choice! {
    enum RequestBody: u64, else BadRequest::BadMultipart, {
        Description = 0,
        Flows(Filter) = 1,
        Aggregate(Filter) = 2,
        Tables = 3,
        PortStats(PortFilter) = 4,
        Queues(QueueFilter) = 5,
        /// Not of the specification, but of Open vSwitch: where there are more ports than the features have room for.
        Ports = 13,
        NiciraFlows(NiciraFilter) = nx(0),
        NiciraAggregate(NiciraFilter) = nx(1),
        GroupStats(GroupFilter) = nx(7),
        Groups(GroupFilter) = nx(8),
        GroupFeatures = nx(9),
    }
}

choice! {
    enum ReplyBody: u64, else BadRequest::BadMultipart, {
        Description(Box<Description>) = 0,
        Flows(Vec<Flow>) = 1,
        Aggregate(AggregateStats) = 2,
        Tables(Vec<Table>) = 3,
        PortStats(Vec<PortStats>) = 4,
        Queues(Vec<QueueStats>) = 5,
        Ports(Vec<Port>) = 13,
        NiciraFlows(Vec<NiciraFlow>) = nx(0),
        NiciraAggregate(AggregateStats) = nx(1),
        GroupStats(Vec<GroupStats>) = nx(7),
        Groups(Vec<Group>) = nx(8),
        GroupFeatures(GroupFeatures) = nx(9),
    }
}

layout! {
    /// A table, what it can do, and what it has done.
    struct Table {
        table: u8 [3];
        name: Text<32>;
        /// What need not be matched: anything.
        wildcards: u32;
        max_flows: u32;
        flows: u32;
        lookups: u64;
        matched: u64;
    }
}

impl From<&TableStats> for Table {
    fn from(stats: &TableStats) -> Self {
        let TableStats { table, flows, lookups, matched } = *stats;
        // Nobody has given it a name.
        let name = "".into();
        Self { table, name, wildcards: (1 << 22) - 1, max_flows: 1_000_000, flows, lookups, matched }
    }
}

impl From<Table> for TableStats {
    fn from(table: Table) -> Self {
        let Table { table, flows, lookups, matched, .. } = table;
        Self { table, flows, lookups, matched }
    }
}

fn put_head(number: u64, flags: u16, out: &mut Vec<u8>) {
    match u16::try_from(number) {
        Ok(own) => (own, flags).put(out),
        Err(_) => {
            (VENDOR, flags).put(out);
            number.put(out);
            put_zeros(out, 4);
        }
    }
}

/// The number, and whether more is to come.
fn get_head(input: &mut Reader<'_>) -> Result<(u64, u16)> {
    let (kind, flags) = <(u16, u16)>::get(input)?;
    if kind != VENDOR {
        return Ok((kind.into(), flags));
    }
    let number = u64::get(input)?;
    if number >> 32 != NICIRA.into() {
        return Err(BadRequest::BadExperimenter.into());
    }
    if !NICIRA_NUMBERS.contains(&number) {
        return Err(BadRequest::BadExperimenterType.into());
    }
    input.skip(4)?;
    Ok((number, flags))
}

/// Of its questions, those that there are here.
const NICIRA_NUMBERS: [u64; 5] = [nx(0), nx(1), nx(7), nx(8), nx(9)];

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request(pub(super) RequestBody);

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.0.number(), 0, out);
        self.0.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, _) = get_head(input)?;
        RequestBody::get_content(number, input).map(Self)
    }
}

impl Request {
    pub(super) fn of(request: &multipart::RequestBody, habits: Habits) -> Option<Self> {
        use multipart::RequestBody as Asked;
        Some(Self(match request {
            Asked::Description => RequestBody::Description,
            Asked::Flows(flows) if habits.tells_all => RequestBody::NiciraFlows(flows.into()),
            Asked::Flows(flows) => RequestBody::Flows(flows.into()),
            Asked::Aggregate(flows) if habits.tells_all => RequestBody::NiciraAggregate(flows.into()),
            Asked::Aggregate(flows) => RequestBody::Aggregate(flows.into()),
            Asked::Tables => RequestBody::Tables,
            Asked::PortStats(filter) => RequestBody::PortStats(filter.into()),
            Asked::Queues(filter) => RequestBody::Queues(filter.into()),
            Asked::Ports => RequestBody::Ports,
            Asked::GroupStats(filter) => RequestBody::GroupStats(filter.clone()),
            Asked::Groups => RequestBody::Groups(GroupFilter { group: GroupNumber::ALL }),
            Asked::GroupFeatures => RequestBody::GroupFeatures,
            _ => return None,
        }))
    }
}

impl From<Request> for MultipartRequest {
    fn from(request: Request) -> Self {
        use multipart::RequestBody as Asked;
        let request = match request.0 {
            RequestBody::Description => Asked::Description,
            RequestBody::Flows(flows) => Asked::Flows(flows.into()),
            RequestBody::NiciraFlows(flows) => Asked::Flows(flows.into()),
            RequestBody::Aggregate(flows) => Asked::Aggregate(flows.into()),
            RequestBody::NiciraAggregate(flows) => Asked::Aggregate(flows.into()),
            RequestBody::Tables => Asked::Tables,
            RequestBody::PortStats(filter) => Asked::PortStats(filter.into()),
            RequestBody::Queues(filter) => Asked::Queues(filter.into()),
            RequestBody::Ports => Asked::Ports,
            RequestBody::GroupStats(filter) => Asked::GroupStats(filter),
            // Later versions do not ask for one alone, up to OpenFlow 1.5.
            RequestBody::Groups(_) => Asked::Groups,
            RequestBody::GroupFeatures => Asked::GroupFeatures,
        };
        Self { has_more: false, body: request }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub(super) has_more: bool,
    pub(super) body: ReplyBody,
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.body.number(), self.has_more.into(), out);
        self.body.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, flags) = get_head(input)?;
        Ok(Self { has_more: flags & 1 != 0, body: ReplyBody::get_content(number, input)? })
    }
}

/// Each in the form of another.
fn all<'a, T, U: From<&'a T>>(list: &'a [T]) -> Vec<U> {
    list.iter().map(U::from).collect()
}

fn values<T, U: From<T>>(list: Vec<T>) -> Vec<U> {
    list.into_iter().map(U::from).collect()
}

impl Reply {
    pub(super) fn of(reply: &MultipartReply, habits: Habits) -> Option<Self> {
        use multipart::ReplyBody as Told;
        let answer = match &reply.body {
            Told::Description(description) => ReplyBody::Description(description.clone()),
            Told::Flows(flows) if habits.tells_all => ReplyBody::NiciraFlows(all(flows)),
            Told::Flows(flows) => ReplyBody::Flows(all(flows)),
            Told::Aggregate(stats) if habits.tells_all => ReplyBody::NiciraAggregate(stats.clone()),
            Told::Aggregate(stats) => ReplyBody::Aggregate(stats.clone()),
            Told::Tables(tables) => ReplyBody::Tables(all(tables)),
            Told::PortStats(ports) => ReplyBody::PortStats(all(ports)),
            Told::Queues(queues) => ReplyBody::Queues(all(queues)),
            Told::Ports(ports) => ReplyBody::Ports(all(ports)),
            Told::GroupStats(groups) => ReplyBody::GroupStats(groups.clone()),
            Told::Groups(groups) => ReplyBody::Groups(all(groups)),
            Told::GroupFeatures(features) => ReplyBody::GroupFeatures(groups::features(features)),
            _ => return None,
        };
        Some(Self { has_more: reply.has_more, body: answer })
    }

    pub(super) fn into_value(self) -> Result<MultipartReply> {
        use multipart::ReplyBody as Told;
        let answer = match self.body {
            ReplyBody::Description(description) => Told::Description(description),
            ReplyBody::Flows(flows) => {
                Told::Flows(flows.into_iter().map(Flow::into_value).collect::<Result<_>>()?)
            }
            ReplyBody::NiciraFlows(flows) => {
                Told::Flows(flows.into_iter().map(NiciraFlow::into_value).collect::<Result<_>>()?)
            }
            ReplyBody::Aggregate(stats) | ReplyBody::NiciraAggregate(stats) => Told::Aggregate(stats),
            ReplyBody::Tables(tables) => Told::Tables(values(tables)),
            ReplyBody::PortStats(ports) => Told::PortStats(values(ports)),
            ReplyBody::Queues(queues) => Told::Queues(values(queues)),
            ReplyBody::Ports(ports) => Told::Ports(values(ports)),
            ReplyBody::GroupStats(groups) => Told::GroupStats(groups),
            ReplyBody::Groups(groups) => {
                Told::Groups(groups.into_iter().map(Group::into_value).collect::<Result<_>>()?)
            }
            ReplyBody::GroupFeatures(features) => Told::GroupFeatures(features),
        };
        Ok(MultipartReply { has_more: self.has_more, body: answer })
    }
}
