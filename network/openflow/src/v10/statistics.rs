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
    enum Question: u64, else BadRequest::BadMultipart, {
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
    enum Answer: u64, else BadRequest::BadMultipart, {
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
        let name = format!("table{table}").as_str().into();
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
pub struct Request(pub(super) Question);

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.0.number(), 0, out);
        self.0.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, _) = get_head(input)?;
        Question::get_content(number, input).map(Self)
    }
}

impl Request {
    pub(super) fn of(question: &multipart::Question, habits: Habits) -> Option<Self> {
        use multipart::Question as Asked;
        Some(Self(match question {
            Asked::Description => Question::Description,
            Asked::Flows(flows) if habits.tells_all => Question::NiciraFlows(flows.into()),
            Asked::Flows(flows) => Question::Flows(flows.into()),
            Asked::Aggregate(flows) if habits.tells_all => Question::NiciraAggregate(flows.into()),
            Asked::Aggregate(flows) => Question::Aggregate(flows.into()),
            Asked::Tables => Question::Tables,
            Asked::PortStats(filter) => Question::PortStats(filter.into()),
            Asked::Queues(filter) => Question::Queues(filter.into()),
            Asked::Ports => Question::Ports,
            Asked::GroupStats(filter) => Question::GroupStats(filter.clone()),
            Asked::Groups => Question::Groups(GroupFilter { group: GroupNumber::ALL }),
            Asked::GroupFeatures => Question::GroupFeatures,
            _ => return None,
        }))
    }
}

impl From<Request> for MultipartRequest {
    fn from(request: Request) -> Self {
        use multipart::Question as Asked;
        let question = match request.0 {
            Question::Description => Asked::Description,
            Question::Flows(flows) => Asked::Flows(flows.into()),
            Question::NiciraFlows(flows) => Asked::Flows(flows.into()),
            Question::Aggregate(flows) => Asked::Aggregate(flows.into()),
            Question::NiciraAggregate(flows) => Asked::Aggregate(flows.into()),
            Question::Tables => Asked::Tables,
            Question::PortStats(filter) => Asked::PortStats(filter.into()),
            Question::Queues(filter) => Asked::Queues(filter.into()),
            Question::Ports => Asked::Ports,
            Question::GroupStats(filter) => Asked::GroupStats(filter),
            // Later versions do not ask for one alone, up to OpenFlow 1.5.
            Question::Groups(_) => Asked::Groups,
            Question::GroupFeatures => Asked::GroupFeatures,
        };
        Self { has_more: false, question }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub(super) has_more: bool,
    pub(super) answer: Answer,
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.answer.number(), self.has_more.into(), out);
        self.answer.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (number, flags) = get_head(input)?;
        Ok(Self { has_more: flags & 1 != 0, answer: Answer::get_content(number, input)? })
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
        use multipart::Answer as Told;
        let answer = match &reply.answer {
            Told::Description(description) => Answer::Description(description.clone()),
            Told::Flows(flows) if habits.tells_all => Answer::NiciraFlows(all(flows)),
            Told::Flows(flows) => Answer::Flows(all(flows)),
            Told::Aggregate(stats) if habits.tells_all => Answer::NiciraAggregate(stats.clone()),
            Told::Aggregate(stats) => Answer::Aggregate(stats.clone()),
            Told::Tables(tables) => Answer::Tables(all(tables)),
            Told::PortStats(ports) => Answer::PortStats(all(ports)),
            Told::Queues(queues) => Answer::Queues(all(queues)),
            Told::Ports(ports) => Answer::Ports(all(ports)),
            Told::GroupStats(groups) => Answer::GroupStats(groups.clone()),
            Told::Groups(groups) => Answer::Groups(all(groups)),
            Told::GroupFeatures(features) => Answer::GroupFeatures(groups::features(features)),
            _ => return None,
        };
        Some(Self { has_more: reply.has_more, answer })
    }

    pub(super) fn into_value(self) -> Result<MultipartReply> {
        use multipart::Answer as Told;
        let answer = match self.answer {
            Answer::Description(description) => Told::Description(description),
            Answer::Flows(flows) => {
                Told::Flows(flows.into_iter().map(Flow::into_value).collect::<Result<_>>()?)
            }
            Answer::NiciraFlows(flows) => {
                Told::Flows(flows.into_iter().map(NiciraFlow::into_value).collect::<Result<_>>()?)
            }
            Answer::Aggregate(stats) | Answer::NiciraAggregate(stats) => Told::Aggregate(stats),
            Answer::Tables(tables) => Told::Tables(values(tables)),
            Answer::PortStats(ports) => Told::PortStats(values(ports)),
            Answer::Queues(queues) => Told::Queues(values(queues)),
            Answer::Ports(ports) => Told::Ports(values(ports)),
            Answer::GroupStats(groups) => Told::GroupStats(groups),
            Answer::Groups(groups) => {
                Told::Groups(groups.into_iter().map(Group::into_value).collect::<Result<_>>()?)
            }
            Answer::GroupFeatures(features) => Told::GroupFeatures(features),
        };
        Ok(MultipartReply { has_more: self.has_more, answer })
    }
}
