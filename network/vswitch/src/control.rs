//! What controllers ask a switch to do (section 7.3 of the OpenFlow specification).
//!
//! A request is carried out while nobody decides about packets, and the generation of the decisions that are remembered is over when
//! it has been: every packet that comes in after the answer is treated as it says.

use crate::checks::{self, Place};
use crate::flow::Flow;
use crate::group::Group;
use crate::meter::Meter;
use crate::monitor::FlowChange;
use crate::pipeline::Pipeline;
use crate::table::{Change, Entry, Filter, How};
use fulmar_node::Time;
use fulmar_openflow::error::{BadRequest, GroupModFailed, MeterModFailed, Onf, PortModFailed};
use fulmar_openflow::flow::{FlowCommand, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason};
use fulmar_openflow::group::{GroupCommand, GroupMod};
use fulmar_openflow::meter::{MeterCommand, MeterMod};
use fulmar_openflow::packet_out::PacketOut;
use fulmar_openflow::ports::{PortConfig, PortMod, PortStatus, PortStatusReason};
use fulmar_openflow::{ALL_TABLES, Body, ErrorCode, GroupNumber, NO_BUFFER, PortNumber};
use fulmar_packet::{Field, FlowKey, Match, extract};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What controllers are told without having asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow is gone.
    FlowRemoved(Box<FlowRemoved>),
    /// A port has come, gone or changed.
    PortStatus(PortStatus),
    /// A flow has changed, while [somebody watches](crate::Switch::watch).
    FlowChanged(Box<FlowChange>),
}

/// What has come of requests.
#[derive(Debug, Default)]
pub struct Done {
    /// What is answered.
    pub answers: Vec<Body>,
    /// Flows that packets had made before, if somebody watches, and flows are changed.
    pub learned: Vec<Event>,
    /// What all controllers are told.
    pub events: Vec<Event>,
    /// Packets that are to be sent now.
    pub packets: Vec<PacketOut>,
    /// Ports whose interfaces are to be up from now on, or down.
    pub links: Vec<(u32, bool)>,
}

/// How a change is undone.
enum Undo {
    Flow(Change),
    Group(GroupNumber, Option<Arc<Group>>),
    Meter(u32, Option<Arc<Meter>>),
    Port(u32, PortConfig),
}

/// So many meters there may be.
const MAX_METERS: usize = 1 << 16;

/// Changes in the course of being made.
struct Transaction<'a> {
    pipeline: &'a Pipeline,
    now: Time,
    done: Done,
    undo: Vec<Undo>,
    /// Whether there are several requests.
    is_bundle: bool,
    /// So many flows have been looked at.
    looked_at: usize,
    /// Groups and meters that are gone, and whose flows are not yet: of several that go one after the other, these are looked for once.
    gone: (BTreeSet<GroupNumber>, BTreeSet<u32>),
}

/// No packet goes on while a bundle takes place: it looks at so many flows at most; changing one counts as looking at so many.
const MOST_LOOKED_AT: usize = 20_000_000;
const CHANGING: usize = 20;

/// Carries out requests: all of them or none, for all packets at once.
///
/// # Errors
/// Which of them could not be carried out, and why. Then nothing has changed.
pub(crate) fn commit(pipeline: &Pipeline, requests: &[Body], now: Time) -> Result<Done, (usize, ErrorCode)> {
    let _alone = pipeline.alone();
    let mut transaction = Transaction {
        pipeline,
        now,
        done: Done::default(),
        undo: Vec::new(),
        is_bundle: requests.len() > 1,
        looked_at: 0,
        gone: Default::default(),
    };
    for (index, request) in requests.iter().enumerate() {
        let is_last = index + 1 == requests.len();
        if let Err(code) = transaction.carry_out(request, is_last) {
            transaction.roll_back();
            return Err((index, code));
        }
    }
    let Transaction { mut done, undo, .. } = transaction;
    if !undo.is_empty() {
        pipeline.has_changed();
    }
    // In the order of all changes.
    if done.events.iter().any(|event| matches!(event, Event::FlowChanged(_))) {
        done.learned = learned(pipeline).collect();
    }
    Ok(done)
}

/// Removes the flows whose time is over, and tells what controllers want to know of that.
pub(crate) fn expire(pipeline: &Pipeline, now: Time) -> Vec<Event> {
    let over = pipeline.tables.over(now);
    if over.is_empty() {
        return learned(pipeline).collect();
    }
    let _alone = pipeline.alone();
    let mut events: Vec<Event> = learned(pipeline).collect();
    // Those that a packet met in between stay.
    let is_still = |(entry, _): &(Entry, _)| entry.value().is_over(now).is_some();
    let gone = over
        .into_iter()
        .filter(is_still)
        .filter_map(|(entry, reason)| pipeline.tables.remove(&entry, reason));
    let mut gone: Vec<Change> = gone.collect();
    gone.extend(forget_learned(pipeline, &gone));
    events.extend(gone.iter().flat_map(|change| told(pipeline, change, now)));
    pipeline.has_changed();
    events
}

/// Removes what was learned by flows that are gone, or do something else now, if it is to go with the last of them (`delete_learned`).
fn forget_learned(pipeline: &Pipeline, changes: &[Change]) -> Vec<Change> {
    let before = changes.iter().filter_map(|change| change.before.as_ref());
    let mut left: BTreeSet<(u8, u64)> = before.flat_map(|rule| rule.value().learned_for_itself()).collect();
    if left.is_empty() {
        return Vec::new();
    }
    for rule in pipeline.tables.select(&Filter::ALL) {
        for learned in rule.value().learned_for_itself() {
            left.remove(&learned);
        }
    }
    let learned = left.into_iter().flat_map(|(table, cookie)| {
        pipeline.tables.select(&Filter { table, cookie, cookie_mask: u64::MAX, ..Filter::ALL })
    });
    learned.filter_map(|rule| pipeline.tables.remove(&rule, FlowRemovedReason::Delete)).collect()
}

/// What flows have been learned, if somebody watches.
pub(crate) fn learned(pipeline: &Pipeline) -> impl Iterator<Item = Event> {
    let learned = std::mem::take(&mut *pipeline.learned.lock());
    learned.into_iter().map(|change| Event::FlowChanged(Box::new(change)))
}

/// What is told of a change of a flow.
fn told(pipeline: &Pipeline, change: &Change, now: Time) -> impl Iterator<Item = Event> + use<> {
    let changed = pipeline.is_watched().then(|| FlowChange::of(change)).flatten();
    let changed = changed.map(|changed| Event::FlowChanged(Box::new(changed)));
    removed(change, now).into_iter().chain(changed)
}

/// What is told of a flow that is gone, if its controller wants to know.
fn removed(change: &Change, now: Time) -> Option<Event> {
    let (Some(rule), How::Removed(reason)) = (&change.before, change.how) else { return None };
    let flow: &Flow = rule.value();
    if !flow.flags.contains(FlowFlags::SEND_REMOVED) {
        return None;
    }
    let (age, traffic) = (flow.age(now), flow.traffic());
    let (idle_timeout, hard_timeout) = flow.timeouts();
    Some(Event::FlowRemoved(Box::new(FlowRemoved {
        cookie: flow.cookie,
        priority: rule.priority(),
        reason,
        table: flow.table,
        seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: age.subsec_nanos(),
        idle_timeout,
        hard_timeout,
        packets: traffic.packets,
        bytes: traffic.bytes,
        asked: rule.condition(),
    })))
}

impl Transaction<'_> {
    fn carry_out(&mut self, request: &Body, is_last: bool) -> Result<(), ErrorCode> {
        let removes = match request {
            Body::GroupMod(group_mod) => group_mod.command == GroupCommand::Delete,
            Body::MeterMod(meter_mod) => meter_mod.command == MeterCommand::Delete,
            _ => false,
        };
        if !removes {
            self.remove_flows()?;
        }
        self.carry_out_one(request)?;
        if is_last { self.remove_flows() } else { Ok(()) }
    }

    fn carry_out_one(&mut self, request: &Body) -> Result<(), ErrorCode> {
        match request {
            Body::FlowMod(flow_mod) => self.flows(flow_mod),
            Body::GroupMod(group_mod) => self.group(group_mod),
            Body::MeterMod(meter_mod) => self.meter(meter_mod),
            Body::PortMod(port_mod) => self.port(port_mod),
            Body::PacketOut(packet) => self.packet(packet),
            // All that could be set of a table is deprecated.
            Body::TableMod(table) if table.table == ALL_TABLES || table.table < crate::table::TABLES => {
                Ok(())
            }
            Body::TableMod(_) => Err(fulmar_openflow::error::TableModFailed::BadTable.into()),
            _ => Err(BadRequest::BadType.into()),
        }
    }

    fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Flow(change) => self.pipeline.tables.undo(change),
                Undo::Group(number, before) => drop(self.pipeline.groups.write().replace(number, before)),
                Undo::Meter(number, before) => {
                    let mut meters = self.pipeline.meters.write();
                    match before {
                        Some(before) => drop(meters.insert(number, before)),
                        None => drop(meters.remove(&number)),
                    }
                }
                Undo::Port(number, config) => {
                    if let Some(port) = self.pipeline.ports.write().get_mut(&number) {
                        port.config = config;
                    }
                }
            }
        }
    }

    fn flows(&mut self, flow_mod: &FlowMod) -> Result<(), ErrorCode> {
        let deletes = matches!(flow_mod.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if !deletes {
            checks::instructions(self.pipeline, &flow_mod.instructions.0)?;
        }
        // No packet is kept here.
        if flow_mod.buffer != NO_BUFFER && !deletes {
            return Err(BadRequest::BufferUnknown.into());
        }
        self.look_at(self.pipeline.tables.looked_at_by(flow_mod))?;
        let changes = self.pipeline.tables.change(flow_mod, self.now)?;
        self.have_changed(changes)
    }

    fn have_changed(&mut self, mut changes: Vec<Change>) -> Result<(), ErrorCode> {
        let mut before = changes.iter().filter_map(|change| change.before.as_ref());
        let forgets = before.any(|rule| rule.value().learned_for_itself().next().is_some());
        // It is quick to see of most that they learn nothing.
        let others = if forgets { self.pipeline.tables.len() / 4 } else { 0 };
        let looked_at = CHANGING * changes.len() + others;
        changes.extend(forget_learned(self.pipeline, &changes));
        for change in changes {
            self.done.events.extend(told(self.pipeline, &change, self.now));
            self.undo.push(Undo::Flow(change));
        }
        self.look_at(looked_at)
    }

    /// Flows are looked at, or have been.
    fn look_at(&mut self, flows: usize) -> Result<(), ErrorCode> {
        self.looked_at += flows;
        if self.is_bundle && self.looked_at > MOST_LOOKED_AT {
            return Err(Onf::BundleTooMany.into());
        }
        Ok(())
    }

    /// Removes the flows that need something that is gone.
    fn remove_flows(&mut self) -> Result<(), ErrorCode> {
        let (groups, meters) = std::mem::take(&mut self.gone);
        if groups.is_empty() && meters.is_empty() {
            return Ok(());
        }
        self.look_at(self.pipeline.tables.len())?;
        let mut gone = Vec::new();
        for rule in self.pipeline.tables.select(&Filter::ALL) {
            let needs_group = !groups.is_empty() && !rule.value().groups().is_disjoint(&groups);
            let reason = if needs_group {
                FlowRemovedReason::GroupDelete
            } else if rule.value().meters().any(|meter| meters.contains(&meter)) {
                FlowRemovedReason::Delete
            } else {
                continue;
            };
            gone.extend(self.pipeline.tables.remove(&rule, reason));
        }
        self.have_changed(gone)
    }

    fn group(&mut self, group_mod: &GroupMod) -> Result<(), ErrorCode> {
        let number = group_mod.group;
        let is_there = self.pipeline.groups.read().contains_key(&number);
        match group_mod.command {
            GroupCommand::Add if is_there => Err(GroupModFailed::GroupExists.into()),
            GroupCommand::Modify if !is_there => Err(GroupModFailed::UnknownGroup.into()),
            GroupCommand::Add | GroupCommand::Modify => {
                let group = Arc::new(Group::new(group_mod, self.now));
                self.check_buckets(group_mod, &group)?;
                let before = self.pipeline.groups.write().replace(number, Some(group));
                self.undo.push(Undo::Group(number, before));
                Ok(())
            }
            GroupCommand::Delete => self.delete_groups(number),
        }
    }

    fn check_buckets(&self, group_mod: &GroupMod, group: &Group) -> Result<(), ErrorCode> {
        if !self.pipeline.groups.read().has_room_for(group) {
            return Err(GroupModFailed::OutOfGroups.into());
        }
        for bucket in &group_mod.buckets {
            checks::actions(self.pipeline, &bucket.actions, Place::Flow)?;
        }
        // A group must not come to itself (section 6.5).
        let mut seen = BTreeSet::new();
        let mut next = group.next();
        while let Some(number) = next.pop() {
            if number == group_mod.group {
                return Err(GroupModFailed::Loop.into());
            }
            if seen.insert(number)
                && let Some(group) = self.pipeline.groups.read().get(&number)
            {
                next.extend(group.next());
            }
        }
        Ok(())
    }

    fn delete_groups(&mut self, number: GroupNumber) -> Result<(), ErrorCode> {
        let mut groups = self.pipeline.groups.write();
        let meant: Vec<GroupNumber> = if number == GroupNumber::ALL {
            groups.keys().copied().collect()
        } else {
            groups.contains_key(&number).then_some(number).into_iter().collect()
        };
        let is_chained = |number: &GroupNumber| groups.values().any(|group| group.next().contains(number));
        if number != GroupNumber::ALL && meant.iter().any(is_chained) {
            return Err(GroupModFailed::ChainedGroup.into());
        }
        for number in meant {
            let before = groups.replace(number, None);
            self.gone.0.insert(number);
            self.undo.push(Undo::Group(number, before));
        }
        Ok(())
    }

    fn meter(&mut self, meter_mod: &MeterMod) -> Result<(), ErrorCode> {
        let number = meter_mod.meter;
        let mut meters = self.pipeline.meters.write();
        let is_there = meters.contains_key(&number);
        match meter_mod.command {
            MeterCommand::Add if is_there => Err(MeterModFailed::MeterExists.into()),
            MeterCommand::Add if meters.len() >= MAX_METERS => Err(MeterModFailed::OutOfMeters.into()),
            MeterCommand::Modify if !is_there => Err(MeterModFailed::UnknownMeter.into()),
            MeterCommand::Add | MeterCommand::Modify => {
                if meter_mod.bands.iter().any(|band| band.rate == 0) {
                    return Err(MeterModFailed::BadRate.into());
                }
                let before = meters.insert(number, Arc::new(Meter::new(meter_mod, self.now)));
                self.undo.push(Undo::Meter(number, before));
                Ok(())
            }
            MeterCommand::Delete => {
                let is_meant = |other: &u32| number == MeterMod::ALL || *other == number;
                let meant: Vec<u32> = meters.keys().copied().filter(is_meant).collect();
                for number in meant {
                    self.undo.push(Undo::Meter(number, meters.remove(&number)));
                    self.gone.1.insert(number);
                }
                Ok(())
            }
        }
    }

    fn port(&mut self, port_mod: &PortMod) -> Result<(), ErrorCode> {
        let mut ports = self.pipeline.ports.write();
        let number = port_mod.port.0;
        let port = ports.get_mut(&number).ok_or(PortModFailed::BadPort)?;
        if port.address != port_mod.address {
            return Err(PortModFailed::BadHardwareAddress.into());
        }
        self.undo.push(Undo::Port(number, port.config));
        port.config = PortConfig(port.config.0 & !port_mod.mask.0 | port_mod.config.0 & port_mod.mask.0);
        let status = PortStatus { reason: PortStatusReason::Modify, port: port.tell(number) };
        self.done.events.push(Event::PortStatus(status));
        if port_mod.mask.contains(PortConfig::DOWN) {
            self.done.links.push((number, !port_mod.config.contains(PortConfig::DOWN)));
        }
        Ok(())
    }

    fn packet(&mut self, packet: &PacketOut) -> Result<(), ErrorCode> {
        if packet.buffer != NO_BUFFER {
            return Err(BadRequest::BufferUnknown.into());
        }
        // A port that is not there, or not any more, is one where nobody is: as with Open vSwitch, flows may ask for it all the same.
        let can_be = matches!(packet.port, PortNumber::CONTROLLER | PortNumber::ANY | PortNumber::LOCAL)
            || packet.port.0 < PortNumber::FIRST_RESERVED;
        if !can_be {
            return Err(BadRequest::BadPort.into());
        }
        let mut key = FlowKey::EMPTY;
        extract(&packet.data, &mut key);
        let mut known = Match::ANY;
        for field in [Field::ETH_TYPE, Field::VLAN_TCI, Field::IP_PROTOCOL, Field::L4_SOURCE] {
            known = known.with(field, key.get(field));
        }
        checks::packet_out(self.pipeline, &packet.actions, &known)?;
        self.done.packets.push(packet.clone());
        Ok(())
    }
}
