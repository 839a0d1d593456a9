//! What controllers ask about a switch (section 7.3.5 of the OpenFlow specification).

use crate::flow::stats;
use crate::pipeline::Pipeline;
use crate::port::PortInfo;
use crate::table::{Filter, TABLES};
use fulmar_node::Time;
use fulmar_openflow::error::{BadRequest, MeterModFailed, QueueOperationFailed};
use fulmar_openflow::flow::{AggregateStats, FlowFilter};
use fulmar_openflow::group::{GroupCapabilities, GroupFeatures, GroupStats};
use fulmar_openflow::meter::{MeterFeatures, MeterFlags, MeterMod};
use fulmar_openflow::multipart::{ReplyBody, RequestBody};
use fulmar_openflow::ports::Port;
use fulmar_openflow::queue::{ALL_QUEUES, Queue, QueueFilter, QueueStats};
use fulmar_openflow::switch::{Capabilities, Description, Features};
use fulmar_openflow::table::{
    Fields, Identifiers, TableFeatures, TableProperty, TablePropertyKind, TableStats,
};
use fulmar_openflow::{ErrorCode, GroupNumber, OxmField, PortNumber};
use std::collections::BTreeMap;

/// Which of a filter's flows are meant.
fn filter(asked: &FlowFilter) -> Filter<'_> {
    Filter {
        table: asked.table,
        asked: &asked.asked,
        strict: None,
        cookie: asked.cookie,
        cookie_mask: asked.cookie_mask,
        out_port: asked.out_port,
        out_group: asked.out_group,
    }
}

/// What the switch is.
pub(crate) fn features(pipeline: &Pipeline, datapath: u64) -> Features {
    let can = [
        Capabilities::FLOW_STATS,
        Capabilities::TABLE_STATS,
        Capabilities::PORT_STATS,
        Capabilities::GROUP_STATS,
        Capabilities::QUEUE_STATS,
    ];
    let capabilities = Capabilities(can.iter().fold(0, |all, one| all | one.0));
    let ports = ports(pipeline);
    Features { datapath, buffers: 0, tables: TABLES - 1, auxiliary: 0, capabilities, ports }
}

fn ports(pipeline: &Pipeline) -> Vec<Port> {
    pipeline.ports.read().iter().map(|(number, port)| port.tell(*number)).collect()
}

/// The answer to a question.
///
/// # Errors
/// Why there is none.
pub(crate) fn answer(
    pipeline: &Pipeline,
    request: &RequestBody,
    description: &Description,
    now: Time,
) -> Result<ReplyBody, ErrorCode> {
    let _steady = pipeline.steady();
    Ok(match request {
        RequestBody::Description => ReplyBody::Description(Box::new(description.clone())),
        RequestBody::Flows(asked) => {
            let mut flows: Vec<_> =
                pipeline.tables.select(&filter(asked)).iter().map(|rule| stats(rule, now)).collect();
            flows.sort_by(|a, b| (a.table, b.priority).cmp(&(b.table, a.priority)));
            ReplyBody::Flows(flows)
        }
        RequestBody::Aggregate(asked) => {
            let flows = pipeline.tables.select(&filter(asked));
            let traffic = flows.iter().map(|rule| rule.value().traffic());
            let (packets, bytes) = traffic.fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.bytes));
            let flows = u32::try_from(flows.len()).unwrap_or(u32::MAX);
            ReplyBody::Aggregate(AggregateStats { packets, bytes, flows })
        }
        RequestBody::Tables => {
            ReplyBody::Tables((0..TABLES).map(|table| table_stats(pipeline, table)).collect())
        }
        RequestBody::PortStats(asked) => {
            let ports = pipeline.ports.read();
            let is_meant = |number: u32| asked.port == PortNumber::ANY || asked.port.0 == number;
            let meant: Vec<_> = ports
                .iter()
                .filter(|(number, _)| is_meant(**number))
                .map(|(number, port)| port.stats(*number, now))
                .collect();
            if meant.is_empty() && asked.port != PortNumber::ANY {
                return Err(BadRequest::BadPort.into());
            }
            ReplyBody::PortStats(meant)
        }
        RequestBody::Queues(asked) => ReplyBody::Queues(queue_stats(pipeline, asked, now)?),
        RequestBody::GroupStats(asked) => ReplyBody::GroupStats(group_stats(pipeline, asked.group, now)),
        RequestBody::Groups => {
            ReplyBody::Groups(pipeline.groups.read().values().map(|group| group.describe()).collect())
        }
        RequestBody::GroupFeatures => ReplyBody::GroupFeatures(group_features()),
        RequestBody::MeterStats(asked) => {
            let flows = pipeline.tables.select(&Filter::ALL);
            let uses = counted(flows.iter().flat_map(|rule| rule.value().meters()));
            let uses = |meter: u32| uses.get(&meter).copied().unwrap_or_default();
            let stats = |meter: &crate::meter::Meter| meter.stats(uses(meter.number), now);
            ReplyBody::MeterStats(meters(pipeline, asked.meter, stats)?)
        }
        RequestBody::Meters(asked) => {
            ReplyBody::Meters(meters(pipeline, asked.meter, |meter| meter.config())?)
        }
        RequestBody::MeterFeatures => ReplyBody::MeterFeatures(meter_features()),
        RequestBody::TableFeatures(asked) if asked.is_empty() => {
            ReplyBody::TableFeatures((0..TABLES - 1).map(table_features).collect())
        }
        RequestBody::TableFeatures(_) => {
            return Err(fulmar_openflow::error::TableFeaturesFailed::NotPermitted.into());
        }
        RequestBody::Ports => ReplyBody::Ports(ports(pipeline)),
        RequestBody::Monitor(_) => return Err(BadRequest::BadMultipart.into()),
    })
}

fn table_stats(pipeline: &Pipeline, table: u8) -> TableStats {
    let (flows, lookups, matched) = pipeline.tables.stats(table);
    TableStats { table, flows: u32::try_from(flows).unwrap_or(u32::MAX), lookups, matched }
}

fn queue_stats(pipeline: &Pipeline, asked: &QueueFilter, now: Time) -> Result<Vec<QueueStats>, ErrorCode> {
    let ports = pipeline.ports.read();
    if asked.port != PortNumber::ANY && !ports.contains_key(&asked.port.0) {
        return Err(QueueOperationFailed::BadPort.into());
    }
    let is_meant = |number: u32| asked.port == PortNumber::ANY || asked.port.0 == number;
    let meant = ports.iter().filter(|(number, _)| is_meant(**number));
    let queues = meant.filter_map(|(number, port)| Some((*number, port.queues.as_ref()?)));
    let stats = queues.flat_map(|(number, queues)| queues.stats(number, now));
    let stats: Vec<_> = stats.filter(|told| asked.queue == ALL_QUEUES || told.queue == asked.queue).collect();
    if stats.is_empty() && asked.queue != ALL_QUEUES {
        return Err(QueueOperationFailed::BadQueue.into());
    }
    Ok(stats)
}

/// The queues of a port, and how they are set.
///
/// # Errors
/// That there is no such port.
pub(crate) fn queues(pipeline: &Pipeline, asked: PortNumber) -> Result<Vec<Queue>, ErrorCode> {
    let ports = pipeline.ports.read();
    let of = |(number, port): (&u32, &PortInfo)| {
        let queues = port.queues.as_ref();
        queues.map_or_else(Vec::new, |queues| queues.tell(*number, u64::from(port.speed) * 1000))
    };
    if asked == PortNumber::ANY {
        return Ok(ports.iter().flat_map(of).collect());
    }
    let port = ports.get_key_value(&asked.0).ok_or(QueueOperationFailed::BadPort)?;
    Ok(of(port))
}

fn group_stats(pipeline: &Pipeline, asked: GroupNumber, now: Time) -> Vec<GroupStats> {
    let flows = pipeline.tables.select(&Filter::ALL);
    let groups = pipeline.groups.read();
    let is_meant = |number: GroupNumber| asked == GroupNumber::ALL || asked == number;
    let of_flows = flows.iter().flat_map(|rule| rule.value().groups());
    let references = counted(of_flows.chain(groups.values().flat_map(|group| group.next())));
    let references = |number: GroupNumber| references.get(&number).copied().unwrap_or_default();
    let meant = groups.values().filter(|group| is_meant(group.number));
    meant.map(|group| group.stats(references(group.number), now)).collect()
}

/// How often each of these comes.
fn counted<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

fn meters<T>(
    pipeline: &Pipeline,
    asked: u32,
    tell: impl Fn(&crate::meter::Meter) -> T,
) -> Result<Vec<T>, ErrorCode> {
    let meters = pipeline.meters.read();
    if asked != MeterMod::ALL && !meters.contains_key(&asked) {
        return Err(MeterModFailed::UnknownMeter.into());
    }
    let meant = meters.values().filter(|meter| asked == MeterMod::ALL || meter.number == asked);
    Ok(meant.map(|meter| tell(meter)).collect())
}

/// The numbers of OpenFlow's own actions that are carried out.
const ACTIONS: [u16; 12] = [0, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25];
/// The same, of instructions.
const INSTRUCTIONS: [u16; 6] = [1, 2, 3, 4, 5, 6];

fn group_features() -> GroupFeatures {
    let can = [
        GroupCapabilities::SELECT_WEIGHT,
        GroupCapabilities::SELECT_LIVENESS,
        GroupCapabilities::CHAINING,
        GroupCapabilities::CHAINING_CHECKS,
    ];
    GroupFeatures {
        kinds: 0b1111,
        capabilities: GroupCapabilities(can.iter().fold(0, |all, one| all | one.0)),
        max_groups: [GroupNumber::LAST.0; 4],
        actions: [ACTIONS.iter().fold(0, |all, number| all | 1 << number); 4],
    }
}

fn meter_features() -> MeterFeatures {
    let can = [MeterFlags::KILOBITS, MeterFlags::PACKETS, MeterFlags::BURST, MeterFlags::STATS];
    MeterFeatures {
        max_meters: 1 << 16,
        kinds: 0b110,
        capabilities: can.iter().fold(0, |all, one| all | u32::from(one.0)),
        max_bands: u8::MAX,
        max_colours: 0,
    }
}

fn table_features(table: u8) -> TableFeatures {
    use TablePropertyKind as Kind;
    let matched = || Fields(OxmField::all().collect());
    let settable = || Fields(OxmField::all().filter(|field| field.is_settable()).collect());
    let actions = || Identifiers(ACTIONS.to_vec());
    let properties = [
        Kind::Instructions(Identifiers(INSTRUCTIONS.to_vec())),
        Kind::NextTables((table + 1..TABLES - 1).collect()),
        Kind::WriteActions(actions()),
        Kind::ApplyActions(actions()),
        Kind::Match(matched()),
        Kind::Wildcards(matched()),
        Kind::WriteSetField(settable()),
        Kind::ApplySetField(settable()),
    ];
    TableFeatures {
        table,
        // Nobody has given it one.
        name: "".into(),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_flows: 1_000_000,
        properties: properties.into_iter().map(TableProperty).collect(),
    }
}
