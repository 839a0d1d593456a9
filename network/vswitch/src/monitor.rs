//! How flows change, as flow monitors tell it (Nicira's extension).

use crate::flow::{Flow, send_to};
use crate::pipeline::Pipeline;
use crate::table::{Change, Entry, Filter, How};
use fulmar_classifier::Rule;
use fulmar_openflow::monitor::{MonitorFlags, MonitorRequest, MonitorUpdate, MonitoredFlow};
use fulmar_openflow::{ALL_TABLES, Instructions};
use fulmar_packet::Match;
use std::cmp::Reverse;
use std::sync::Arc;

/// A flow has been added, has been removed, or does something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowChange {
    how: How,
    /// As it is now, or was.
    flow: MonitoredFlow,
    /// What was done before.
    before: Option<Arc<Instructions>>,
}

impl FlowChange {
    /// Nothing, if all is as it was.
    pub(crate) fn of(change: &Change) -> Option<Self> {
        let rule = change.after.as_ref().or(change.before.as_ref())?;
        let before = change.before.as_ref().map(|rule| rule.value());
        let is_same = before.is_some_and(|before| {
            let flow = rule.value();
            before.instructions == flow.instructions && before.cookie == flow.cookie
        });
        let is_change = change.how != How::Modified || !is_same;
        let before = before.map(|flow| flow.instructions.clone());
        is_change.then(|| Self { how: change.how, flow: monitored(rule), before })
    }

    /// Whether a monitor tells of it.
    pub fn is_told_by(&self, monitor: &MonitorRequest) -> bool {
        let Self { how, flow, before } = self;
        let flag = match how {
            How::Added => MonitorFlags::ADD,
            How::Modified => MonitorFlags::MODIFY,
            How::Removed(_) => MonitorFlags::DELETE,
        };
        let done = [Some(&flow.instructions), before.as_deref()];
        monitor.flags.contains(flag) && means(monitor, flow.table, &flow.asked, &done)
    }

    /// What monitors with these flags tell of it.
    pub fn told(&self, flags: MonitorFlags) -> MonitorUpdate {
        let flow = told(self.flow.clone(), flags);
        match self.how {
            How::Added => MonitorUpdate::Added(flow),
            How::Modified => MonitorUpdate::Modified(flow),
            How::Removed(reason) => MonitorUpdate::Deleted(reason, flow),
        }
    }
}

/// Whether a monitor is of a flow of this table, which asks this and does, or did, one of these.
fn means(monitor: &MonitorRequest, table: u8, asked: &Match, done: &[Option<&Instructions>]) -> bool {
    (monitor.table == ALL_TABLES || monitor.table == table)
        && asked.is_within(&monitor.asked)
        && done.iter().flatten().any(|instructions| send_to(instructions, monitor.out_port))
}

fn monitored(rule: &Rule<Flow>) -> MonitoredFlow {
    let flow = rule.value();
    let (idle_timeout, hard_timeout) = flow.timeouts();
    MonitoredFlow {
        priority: rule.priority(),
        idle_timeout,
        hard_timeout,
        table: flow.table,
        cookie: flow.cookie,
        asked: rule.condition(),
        instructions: Instructions::clone(&flow.instructions),
    }
}

/// A flow as monitors tell it: not all tell what it does.
fn told(flow: MonitoredFlow, flags: MonitorFlags) -> MonitoredFlow {
    if flags.contains(MonitorFlags::ACTIONS) {
        return flow;
    }
    MonitoredFlow { instructions: Instructions::default(), ..flow }
}

/// The flows that monitors tell of when they begin, each of them once.
pub(crate) fn there(pipeline: &Pipeline, monitors: &[MonitorRequest]) -> Vec<MonitorUpdate> {
    let begin: Vec<_> =
        monitors.iter().filter(|monitor| monitor.flags.contains(MonitorFlags::INITIAL)).collect();
    if begin.is_empty() {
        return Vec::new();
    }
    let mut flows = pipeline.tables.select(&Filter::ALL);
    flows.sort_by_key(|rule| (rule.value().table, Reverse(rule.priority())));
    let told_of = |rule: &Entry| {
        let (flow, asked) = (rule.value(), rule.condition());
        let meant =
            begin.iter().filter(|monitor| means(monitor, flow.table, &asked, &[Some(&flow.instructions)]));
        let flags = meant.map(|monitor| monitor.flags).reduce(|all, flags| all | flags)?;
        Some(MonitorUpdate::Added(told(monitored(rule), flags)))
    };
    flows.iter().filter_map(told_of).collect()
}
