//! What is asked of flows, and what is told of them (section 5.3.5), in OpenFlow's form and in Nicira's.

use super::actions::{instructions, steps_of};
use super::flow::Matching;
use super::matching::PlainMatch;
use super::step::Step;
use crate::flow::{FlowFilter, FlowFlags, FlowStats};
use crate::oxm::NiciraMatch;
use crate::version::Habits;
use crate::wire::{Result, layout, length_of};
use crate::{GroupNumber, ShortPort};

layout! {
    /// Which flows are asked for.
    struct Filter {
        asked: PlainMatch;
        table: u8 [1];
        out_port: ShortPort;
    }
}

layout! {
    struct Table {
        table: u8 [3];
    }
}

layout! {
    struct NiciraFilter {
        flows: Matching<ShortPort, Table>;
    }
}

fn filter(matched: NiciraMatch, table: u8, out_port: ShortPort) -> FlowFilter {
    let NiciraMatch { asked, cookie, cookie_mask } = matched;
    let (out_port, out_group) = (out_port.into(), GroupNumber::ANY);
    FlowFilter { table, out_port, out_group, cookie, cookie_mask, asked }
}

impl From<&FlowFilter> for Filter {
    fn from(filter: &FlowFilter) -> Self {
        let out_port = ShortPort::try_from(filter.out_port).unwrap_or(ShortPort::NONE);
        Self { asked: (&filter.asked).into(), table: filter.table, out_port }
    }
}

impl From<Filter> for FlowFilter {
    fn from(asked: Filter) -> Self {
        filter(
            NiciraMatch { asked: (&asked.asked).into(), ..NiciraMatch::default() },
            asked.table,
            asked.out_port,
        )
    }
}

impl From<&FlowFilter> for NiciraFilter {
    fn from(filter: &FlowFilter) -> Self {
        let before = ShortPort::try_from(filter.out_port).unwrap_or(ShortPort::NONE);
        let FlowFilter { cookie, cookie_mask, table, .. } = *filter;
        let matched = NiciraMatch { asked: filter.asked.clone(), cookie: cookie & cookie_mask, cookie_mask };
        Self { flows: Matching { before, after: Table { table }, matched } }
    }
}

impl From<NiciraFilter> for FlowFilter {
    fn from(asked: NiciraFilter) -> Self {
        let Matching { before, after, matched } = asked.flows;
        filter(matched, after.table, before)
    }
}

layout! {
    /// A flow, and what it has done.
    measured at 0 struct Flow {
        [2];
        table: u8 [1];
        asked: PlainMatch;
        seconds: u32;
        nanoseconds: u32;
        priority: u16;
        idle_timeout: u16;
        hard_timeout: u16 [6];
        cookie: u64;
        packets: u64;
        bytes: u64;
        steps: Vec<Step>;
    }
}

layout! {
    struct Kept {
        [2];
        table: u8 [1];
        seconds: u32;
        nanoseconds: u32;
        priority: u16;
        idle_timeout: u16;
        hard_timeout: u16;
    }
}

layout! {
    /// How long ago it was used and changed last, which is not told; and what it has done.
    struct Done {
        [4];
        cookie: u64;
        packets: u64;
        bytes: u64;
    }
}

layout! {
    measured at 0 struct NiciraFlow {
        flow: Matching<Kept, Done>;
        steps: Vec<Step>;
    }
}

impl From<&FlowStats> for Flow {
    fn from(flow: &FlowStats) -> Self {
        let FlowStats { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout, .. } = *flow;
        let FlowStats { cookie, packets, bytes, .. } = *flow;
        Self {
            table,
            asked: (&flow.asked).into(),
            seconds,
            nanoseconds,
            priority,
            idle_timeout,
            hard_timeout,
            cookie,
            packets,
            bytes,
            steps: steps_of(&flow.instructions),
        }
    }
}

impl From<&FlowStats> for NiciraFlow {
    fn from(flow: &FlowStats) -> Self {
        let FlowStats { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout, .. } = *flow;
        let FlowStats { cookie, packets, bytes, .. } = *flow;
        let before = Kept { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout };
        let matched = NiciraMatch { asked: flow.asked.clone(), ..NiciraMatch::default() };
        let flow_of = Matching { before, after: Done { cookie, packets, bytes }, matched };
        Self { flow: flow_of, steps: steps_of(&flow.instructions) }
    }
}

impl Flow {
    pub(super) fn into_value(self) -> Result<FlowStats> {
        let Self { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout, .. } = self;
        let kept = Kept { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout };
        let done = Done { cookie: self.cookie, packets: self.packets, bytes: self.bytes };
        let matched = NiciraMatch { asked: (&self.asked).into(), ..NiciraMatch::default() };
        let flow = Matching { before: kept, after: done, matched };
        NiciraFlow { flow, steps: self.steps }.into_value()
    }
}

impl NiciraFlow {
    pub(super) fn into_value(self) -> Result<FlowStats> {
        let Matching { before, after, matched } = self.flow;
        let Kept { table, seconds, nanoseconds, priority, idle_timeout, hard_timeout } = before;
        let Done { cookie, packets, bytes } = after;
        let instructions = instructions(self.steps, &matched.asked)?;
        Ok(FlowStats {
            table,
            seconds,
            nanoseconds,
            priority,
            idle_timeout,
            hard_timeout,
            flags: FlowFlags::NONE,
            cookie,
            packets,
            bytes,
            asked: matched.asked,
            instructions,
        })
    }
}

/// How many bytes a flow takes in an answer.
pub(crate) fn length_of_stats(flow: &FlowStats, habits: Habits) -> usize {
    if habits.tells_all { length_of(&NiciraFlow::from(flow)) } else { length_of(&Flow::from(flow)) }
}
