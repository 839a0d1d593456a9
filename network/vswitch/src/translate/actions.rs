//! Actions, one after the other (section 5.10 of the OpenFlow specification, and Nicira's).

use super::{Translation, shared};
use crate::port::PortInfo;
use crate::step::{Credit, MeterStep, Pending, Step};
use fulmar_openflow::action::{CopyField, Extension, FinTimeout, Resubmit};
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_openflow::ports::PortConfig;
use fulmar_openflow::{ALL_TABLES, Action, PortNumber, ShortPort};
use fulmar_packet::Field;
use std::sync::Arc;

impl Translation<'_> {
    pub(super) fn actions(&mut self, actions: &[Action]) {
        for (index, action) in actions.iter().enumerate() {
            if self.is_over || self.is_expired {
                return;
            }
            if let Some(left) = &mut self.frozen {
                left.push(Pending::Actions(actions[index..].to_vec(), self.table, self.cookie));
                return;
            }
            self.say(|| action.to_string());
            if !self.may_work() {
                return;
            }
            self.action(action);
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Output(output) => self.output(output.port),
            Action::SetMplsTtl(ttl) => {
                if self.is_mpls() {
                    self.set(Field::MPLS_TTL, (*ttl).into(), u128::MAX);
                }
            }
            Action::DecrementMplsTtl => self.decrement_mpls_ttl(),
            Action::PushVlan(kind) => self.push_vlan(*kind),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(kind) => self.push_mpls(*kind),
            Action::PopMpls(kind) => self.pop_mpls(*kind),
            Action::Group(group) => self.group(*group),
            Action::SetTtl(ttl) => self.set(Field::IP_TTL, (*ttl).into(), u128::MAX),
            Action::DecrementTtl => self.decrement_ttl(&[0]),
            Action::SetField(set) => self.set_field(set.field, set.value, None),
            Action::Extension(extension) => self.extension(extension),
            Action::SetQueue(queue) => self.queue = Some(*queue),
            // Refused when a flow comes.
            Action::CopyTtlOut | Action::CopyTtlIn => {}
        }
    }

    fn extension(&mut self, extension: &Extension) {
        match extension {
            Extension::ResubmitPort(port) => {
                self.resubmit(&Resubmit { port: *port, table: ALL_TABLES });
            }
            Extension::Resubmit(resubmit) => self.resubmit(resubmit),
            Extension::CopyBits(copy) | Extension::CopyField(CopyField(copy)) => self.copy(*copy),
            Extension::LoadBits(load) => self.write(load.destination, load.value.into()),
            Extension::SetMasked(set) => self.set_field(set.field, set.value, Some(set.mask)),
            Extension::OutputBits(output) => {
                let port = self.read(output.port);
                self.output(port_of(port, output.port.bits()));
            }
            Extension::OutputBitsLong(output) => {
                let port = self.read(output.port);
                self.output(port_of(port, output.port.bits()));
            }
            Extension::Learn(learn) => self.learn(&learn.flow, &learn.specs),
            Extension::LimitedLearn(learn) => self.learn_some(learn),
            Extension::Exit => self.is_over = true,
            Extension::Controller(action) => {
                self.tell(action.controller, self.why(action.reason), Vec::new());
            }
            Extension::PausableController(action) => {
                let reason = self.why(action.reason);
                self.tell(action.controller, reason, action.user_data.clone());
            }
            Extension::DecrementTtl(decrement) => self.decrement_ttl(&decrement.controllers),
            Extension::Push(bits) => self.push(bits.0),
            Extension::Pop(bits) => self.pop(bits.0),
            Extension::Multipath(multipath) => self.multipath(multipath),
            Extension::Bundle(bundle) => {
                if let Some(port) = self.member(bundle) {
                    self.output(port.into());
                }
            }
            Extension::BundleLoad(load) => {
                let port = self.member(&load.bundle).unwrap_or(ShortPort::NONE);
                self.write(load.destination, port.0.into());
            }
            Extension::FinTimeout(timeout) => self.shorten(timeout),
            Extension::Truncate(truncate) => self.truncate(truncate.port.into(), truncate.max_length),
            Extension::Track(track) => self.track(track),
            Extension::Clone(actions) => self.within(|copy| {
                copy.actions(&actions.0);
                copy.carry_out_written();
            }),
            Extension::PopQueue => self.queue = None,
            // Refused when a flow comes, or nothing is to be done.
            _ => {}
        }
    }

    /// A controller action that does not say why stands for what led to it.
    fn why(&self, said: PacketInReason) -> PacketInReason {
        if said == PacketInReason::Action { self.reason } else { said }
    }

    /// Something is done with a copy of the packet, one level deeper; there are not too many of these.
    pub(super) fn within(&mut self, what: impl FnOnce(&mut Self)) {
        if self.depth >= super::MAX_DEPTH {
            self.fail("too deep");
            return;
        }
        self.depth += 1;
        self.aside(what);
        self.depth -= 1;
    }

    /// Something is done with a copy of the packet, and then all is as if it had not been.
    pub(super) fn aside(&mut self, what: impl FnOnce(&mut Self)) {
        let before = (self.key.clone(), self.settled.clone(), self.stack.clone(), self.written.clone());
        let steps = std::mem::take(&mut self.steps);
        let (was_over, was_expired, queue) = (self.is_over, self.is_expired, self.queue);
        what(self);
        self.freeze();
        let aside = std::mem::replace(&mut self.steps, steps);
        (self.key, self.settled, self.stack, self.written) = before;
        (self.is_over, self.is_expired) = (was_over || self.has_failed, was_expired);
        self.queue = queue;
        // What changes nothing needs no copy.
        let is_plain = |step: &Step| {
            matches!(
                step,
                Step::Output(_)
                    | Step::Encapsulate(_)
                    | Step::Enqueue(_)
                    | Step::Truncated(..)
                    | Step::Controller(_)
            )
        };
        if aside.iter().all(is_plain) {
            self.steps.extend(aside);
        } else {
            self.steps.push(Step::Clone(shared(aside)));
        }
    }

    fn resubmit(&mut self, resubmit: &Resubmit) {
        let table = if resubmit.table == ALL_TABLES { self.table } else { resubmit.table };
        match resubmit.port {
            ShortPort::IN_PORT => self.table_at(table),
            port => self.table_as_from(table, port.into()),
        }
    }

    pub(super) fn output(&mut self, port: PortNumber) {
        match port {
            PortNumber::IN_PORT => self.send(self.in_port()),
            PortNumber::TABLE => self.table_at(0),
            PortNumber::NORMAL => self.normal(),
            PortNumber::FLOOD => self.flood(PortConfig::NO_FLOOD),
            PortNumber::ALL => self.flood(PortConfig::DOWN),
            PortNumber::CONTROLLER => self.tell(0, self.reason, Vec::new()),
            PortNumber::ANY | PortNumber::UNSET => {}
            port if port == self.in_port() => self.say(|| "not back to where it came from".into()),
            port => self.send(port),
        }
    }

    /// To a port by its number, if it sends.
    pub(super) fn send(&mut self, port: PortNumber) {
        if self.pipeline.sends(port.0) {
            self.leave(port.0, None);
        } else {
            self.say(|| format!("port {port} does not send"));
        }
    }

    fn truncate(&mut self, port: PortNumber, max_length: u32) {
        let from = self.in_port();
        let port = match port {
            PortNumber::IN_PORT => from,
            port if port == from => return,
            port => port,
        };
        if self.pipeline.sends(port.0) {
            self.leave(port.0, Some(max_length));
        }
    }

    /// To all ports but those that are so.
    fn flood(&mut self, not_to: PortConfig) {
        let from = self.in_port().0;
        let others: Vec<u32> = {
            let ports = self.pipeline.ports.read();
            let is_meant = |port: &PortInfo| port.sends() && !port.config.contains(not_to);
            let others = ports.iter().filter(|(number, port)| **number != from && is_meant(port));
            others.map(|(number, _)| *number).collect()
        };
        others.into_iter().for_each(|port| self.leave(port, None));
    }

    /// Of all of the packet, whatever length the action says: no packet is buffered, and only of one that is may the rest be left out (section
    /// 7.4.1).
    pub(super) fn tell(&mut self, controller: u16, reason: PacketInReason, user_data: Vec<u8>) {
        let mut notice = self.notice(controller, reason);
        notice.user_data = user_data;
        self.steps.push(Step::Controller(Arc::new(notice)));
    }

    /// The flow lasts no longer than this, if the packet ends its connection.
    fn shorten(&mut self, timeout: &FinTimeout) {
        const ENDS: u128 = 0b101;
        if self.consult(Field::TCP_FLAGS, ENDS) & ENDS != 0
            && let Some(flow) = &self.flow
        {
            self.credits.push(Credit::Finished(flow.clone(), timeout.idle_timeout, timeout.hard_timeout));
        }
    }

    pub(super) fn meter(&mut self, number: u32) {
        // Without its meter a flow would have gone: this is a moment between.
        let Some(meter) = self.pipeline.meters.read().get(&number).cloned() else { return };
        self.steps.push(Step::Meter(Arc::new(MeterStep(meter))));
    }
}

/// The port of a number of so many bits: of 16, it is one of OpenFlow 1.0.
fn port_of(number: u128, bits: u8) -> PortNumber {
    match u16::try_from(number) {
        Ok(short) if bits <= 16 => ShortPort(short).into(),
        _ => PortNumber(u32::try_from(number).unwrap_or(PortNumber::ANY.0)),
    }
}
