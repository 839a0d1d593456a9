//! Flows that packets make: `learn` (Nicira's extension).

use super::{MAX_WORK, Translation, number};
use crate::step::Credit;
use crate::table::Filter;
use fulmar_openflow::action::{
    Action, Extension, FinTimeout, LearnFlags, LearnSource, LearnSpec, LearnedFlow, LimitedLearn, LoadBits,
    Output, Subfield,
};
use fulmar_openflow::flow::{FlowFlags, FlowMod};
use fulmar_openflow::{Instructions, PortNumber};
use fulmar_packet::Match;
use std::sync::Arc;

impl Translation<'_> {
    pub(super) fn learn(&mut self, flow: &LearnedFlow, specs: &[LearnSpec]) {
        let flow_mod = self.learned(flow, specs);
        let _one_by_one = self.pipeline.learning.lock();
        self.take_in(flow_mod);
    }

    pub(super) fn learn_some(&mut self, learn: &LimitedLearn) {
        let filter = Filter {
            table: learn.flow.table,
            cookie: learn.flow.cookie,
            cookie_mask: u64::MAX,
            ..Filter::ALL
        };
        let flow_mod = self.learned(&learn.flow, &learn.specs);
        if learn.limit > 0 {
            // The flows of the table are counted.
            let (flows, ..) = self.pipeline.tables.stats(learn.flow.table);
            let work = u32::try_from(flows / 16).unwrap_or(u32::MAX).min(MAX_WORK / 4);
            if !self.may_do(work) {
                return;
            }
        }
        let one_by_one = self.pipeline.learning.lock();
        let is_there = self.pipeline.tables.has(&flow_mod);
        let has_room = is_there
            || learn.limit == 0
            || self.pipeline.tables.select(&filter).len()
                < usize::try_from(learn.limit).unwrap_or(usize::MAX);
        if has_room {
            self.take_in(flow_mod);
        }
        drop(one_by_one);
        if let Some(result) = learn.result {
            self.write(result.0, has_room.into());
        }
    }

    fn take_in(&mut self, flow_mod: FlowMod) {
        let flow_mod = Arc::new(flow_mod);
        self.say(|| flow_mod.to_string());
        if self.is_real {
            self.pipeline.learn(&flow_mod, self.now);
            self.credits.push(Credit::Learned(flow_mod));
        }
    }

    fn value(&mut self, source: LearnSource) -> u128 {
        match source {
            LearnSource::Value(value) => value,
            LearnSource::Bits(bits) => self.read(bits),
        }
    }

    /// The flow that this packet makes.
    fn learned(&mut self, flow: &LearnedFlow, specs: &[LearnSpec]) -> FlowMod {
        let (mut asked, mut actions) = (Match::ANY, Vec::new());
        let fin = FinTimeout { idle_timeout: flow.fin_idle_timeout, hard_timeout: flow.fin_hard_timeout };
        if fin.idle_timeout > 0 || fin.hard_timeout > 0 {
            actions.push(Action::Extension(Extension::FinTimeout(fin)));
        }
        for spec in specs {
            match *spec {
                LearnSpec::Match(source, bits) => {
                    let value = self.value(source);
                    asked = with(asked, bits, value);
                }
                LearnSpec::Load(source, bits) => {
                    let value = self.value(source);
                    actions.extend(loads(bits, value));
                }
                LearnSpec::Output(bits) => {
                    let port = PortNumber(u32::try_from(self.read(bits)).unwrap_or(PortNumber::ANY.0));
                    actions.push(Action::Output(Output { port, max_length: 0 }));
                }
            }
        }
        let mut flow_mod = FlowMod::add(asked, Instructions::apply(actions));
        flow_mod.cookie = flow.cookie;
        flow_mod.table = flow.table;
        flow_mod.priority = flow.priority;
        flow_mod.idle_timeout = flow.idle_timeout;
        flow_mod.hard_timeout = flow.hard_timeout;
        if flow.flags.contains(LearnFlags::SEND_REMOVED) {
            flow_mod.flags = FlowFlags::SEND_REMOVED;
        }
        flow_mod
    }
}

/// Asks for bits to have this value, too.
fn with(asked: Match, bits: Subfield, value: u128) -> Match {
    let field = bits.field();
    let mask = super::fields::low_bits(bits.bits()) << bits.start();
    let value = value << bits.start();
    let all = super::fields::low_bits(field.bits());
    match field.to_place(value) {
        // Some fields have another form in a key, and are matched as a whole.
        Some(value) if mask == all => asked.with(field.place(), value),
        _ => asked.with_masked(field.place(), value, mask),
    }
}

/// The bits loaded with a value, so many at a time as an action can load.
fn loads(bits: Subfield, value: u128) -> impl Iterator<Item = Action> {
    (0..bits.bits()).step_by(64).filter_map(move |from| {
        let count = (bits.bits() - from).min(64);
        let destination = Subfield::new(bits.field(), u16::from(bits.start() + from), u16::from(count))?;
        let value = number(value >> from & super::fields::low_bits(count));
        Some(Action::Extension(Extension::LoadBits(LoadBits { destination, value })))
    })
}
