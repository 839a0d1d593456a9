//! Bits of packets that actions read and set.

use super::{MAX_STACK, Translation, ethernet_type, is_ip};
use crate::step::{Setting, Step};
use fulmar_openflow::OxmField;
use fulmar_openflow::action::{CopyBits, Subfield};
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_packet::{Field, Match, Stage, ethernet};

/// What a label is given of hops to live when nothing is known of them.
const UNKNOWN_TTL: u128 = 64;

/// So many bits, from the lowest.
pub(super) fn low_bits(bits: u8) -> u128 {
    u128::MAX >> (128 - u32::from(bits.max(1)))
}

impl Translation<'_> {
    /// The decision depends on these bits of a field.
    pub(super) fn consult(&mut self, field: Field, bits: u128) -> u128 {
        self.consulted.add(field, bits & !self.settled.get(field));
        self.key.get(field)
    }

    /// Whether the packet has a field, as far as is known by now; the decision depends on that.
    pub(super) fn has(&mut self, field: OxmField) -> bool {
        let place = field.place();
        if place.stage() == Stage::L4 || place.stage() == Stage::L3 {
            self.consult(Field::IP_PROTOCOL, u128::MAX);
        }
        let kind = Match::ANY
            .with(Field::ETH_TYPE, self.key.get(Field::ETH_TYPE))
            .with(Field::IP_PROTOCOL, self.key.get(Field::IP_PROTOCOL))
            .with(Field::IP_FRAGMENT, self.key.get(Field::IP_FRAGMENT))
            .with(Field::VLAN_TCI, self.key.get(Field::VLAN_TCI))
            .with(Field::L4_SOURCE, self.key.get(Field::L4_SOURCE));
        if matches!(place, Field::VLAN_TCI | Field::VLAN_VID | Field::VLAN_PCP) {
            self.consult(Field::VLAN_TCI, ethernet::TAGGED.into());
        }
        field.is_in(&kind)
    }

    /// Those bits have this value from now on; those of the packet itself are set in it, too.
    pub(super) fn set(&mut self, field: Field, value: u128, mask: u128) {
        let mask = mask & field.ones();
        let is_in_packet = field.stage() > Stage::Metadata;
        if is_in_packet {
            self.steps.push(Step::Set(Box::new(Setting { field, value: value & mask, mask })));
        }
        self.key.set_masked(field, value, mask);
        self.settled.add(field, mask);
    }

    /// Sets a field to a value as OpenFlow writes it.
    pub(super) fn set_field(&mut self, field: OxmField, value: u128, mask: Option<u128>) {
        let place = field.place();
        let Some(value) = field.to_place(value) else { return };
        if self.has(field) {
            let all = place.ones();
            let mask = mask.filter(|mask| *mask != low_bits(field.bits())).unwrap_or(all);
            self.tag_for(place, value & mask);
            self.set(place, value, mask);
        }
    }

    /// The bits as a number.
    pub(super) fn read(&mut self, bits: Subfield) -> u128 {
        let mask = low_bits(bits.bits());
        let value = self.consult(bits.field().place(), mask << bits.start());
        value >> bits.start() & mask
    }

    pub(super) fn write(&mut self, bits: Subfield, value: u128) {
        let mask = low_bits(bits.bits());
        if self.has(bits.field()) {
            let (place, value) = (bits.field().place(), (value & mask) << bits.start());
            self.tag_for(place, value);
            self.set(place, value, mask << bits.start());
        }
    }

    /// Whose tag is set as one that is there has one: as in Open vSwitch, and as OpenFlow 1.0 sets VLANs.
    fn tag_for(&mut self, place: Field, value: u128) {
        let tagged = u128::from(ethernet::TAGGED);
        if place == Field::VLAN_TCI
            && value & tagged != 0
            && self.consult(Field::VLAN_TCI, tagged) & tagged == 0
        {
            self.push_vlan(ethernet::VLAN);
        }
    }

    pub(super) fn copy(&mut self, copy: CopyBits) {
        if self.has(copy.source.field()) {
            let value = self.read(copy.source);
            self.write(copy.destination, value);
        }
    }

    pub(super) fn push(&mut self, bits: Subfield) {
        let value = self.read(bits);
        if self.stack.len() < MAX_STACK {
            self.stack.push((value, bits.bits()));
        }
    }

    pub(super) fn pop(&mut self, bits: Subfield) {
        if let Some((value, _)) = self.stack.pop() {
            self.write(bits, value);
        }
    }

    /// One hop less to live. At the end of its life the controllers are told, and what its flow says besides is not done.
    pub(super) fn decrement_ttl(&mut self, controllers: &[u16]) {
        if !is_ip(&self.key) {
            return;
        }
        let ttl = self.consult(Field::IP_TTL, u128::MAX);
        if ttl > 1 {
            self.set(Field::IP_TTL, ttl - 1, u128::MAX);
        } else {
            self.expire(controllers);
        }
    }

    pub(super) fn decrement_mpls_ttl(&mut self) {
        if !self.is_mpls() {
            return;
        }
        let ttl = self.consult(Field::MPLS_TTL, u128::MAX);
        if ttl > 1 {
            self.set(Field::MPLS_TTL, ttl - 1, u128::MAX);
        } else {
            self.expire(&[0]);
        }
    }

    fn expire(&mut self, controllers: &[u16]) {
        for controller in controllers {
            self.tell(*controller, PacketInReason::InvalidTtl, Vec::new());
        }
        self.is_expired = true;
    }

    pub(super) fn is_mpls(&self) -> bool {
        matches!(ethernet_type(&self.key), ethernet::MPLS | ethernet::MPLS_MULTICAST)
    }

    pub(super) fn push_vlan(&mut self, kind: u16) {
        for field in [Field::VLAN_TPID, Field::VLAN_TCI, Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI] {
            self.consult(field, u128::MAX);
            self.settled.add_all(field);
        }
        let (outer, tag) = (self.key.get(Field::VLAN_TPID), self.key.get(Field::VLAN_TCI));
        self.has_hidden_tag |= self.key.get(Field::INNER_VLAN_TCI) != 0;
        self.key.set(Field::INNER_VLAN_TPID, outer);
        self.key.set(Field::INNER_VLAN_TCI, tag);
        // A new tag is empty, as in Open vSwitch; section 5.10.1 would have it be like the one that it is put around.
        self.key.set(Field::VLAN_TPID, kind.into());
        self.key.set(Field::VLAN_TCI, ethernet::TAGGED.into());
        self.steps.push(Step::PushVlan(kind));
    }

    pub(super) fn pop_vlan(&mut self) {
        let tag = self.consult(Field::VLAN_TCI, u128::MAX);
        if tag == 0 {
            return;
        }
        for field in [Field::VLAN_TPID, Field::VLAN_TCI, Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI] {
            self.consult(field, u128::MAX);
            self.settled.add_all(field);
        }
        let (outer, tag) = (self.key.get(Field::INNER_VLAN_TPID), self.key.get(Field::INNER_VLAN_TCI));
        self.key.set(Field::VLAN_TPID, outer);
        self.key.set(Field::VLAN_TCI, tag);
        self.key.set(Field::INNER_VLAN_TPID, 0);
        self.key.set(Field::INNER_VLAN_TCI, 0);
        self.steps.push(Step::PopVlan);
        // What is behind two tags is known; what is behind a third is not until it is looked at.
        if self.has_hidden_tag || matches!(ethernet_type(&self.key), ethernet::VLAN | ethernet::SERVICE_VLAN)
        {
            self.recirculate();
        }
    }

    pub(super) fn push_mpls(&mut self, kind: u16) {
        let label = if self.is_mpls() {
            let word = [Field::MPLS_LABEL, Field::MPLS_CLASS, Field::MPLS_TTL];
            word.map(|field| self.consult(field, u128::MAX))
        } else {
            let (ttl, class) = if is_ip(&self.key) {
                // Of the code point the last three bits, as in Open vSwitch; section 5.10.1 would have it be 0.
                let ttl = self.consult(Field::IP_TTL, u128::MAX);
                (if ttl == 0 { UNKNOWN_TTL } else { ttl }, self.consult(Field::IP_DSCP, 7) & 7)
            } else {
                (UNKNOWN_TTL, 0)
            };
            // The explicit null label of the family (RFC 3032, section 2.1).
            let null = if ethernet_type(&self.key) == ethernet::IPV6 { 2 } else { 0 };
            [null, class, ttl]
        };
        let bottom = u128::from(!self.is_mpls());
        self.steps.push(Step::PushMpls(kind));
        self.leave_network(kind);
        for (field, value) in [Field::MPLS_LABEL, Field::MPLS_CLASS, Field::MPLS_TTL].into_iter().zip(label) {
            self.set(field, value, u128::MAX);
        }
        self.key.set(Field::MPLS_BOTTOM, bottom);
        self.settled.add_all(Field::MPLS_BOTTOM);
    }

    pub(super) fn pop_mpls(&mut self, kind: u16) {
        if !self.is_mpls() {
            return;
        }
        self.steps.push(Step::PopMpls(kind));
        self.leave_network(kind);
        self.recirculate();
    }

    /// What comes after the tags is of another type, and nothing is known of it.
    fn leave_network(&mut self, kind: u16) {
        self.key.clear_from(Stage::L3);
        for word in Stage::L3.start()..Stage::L4.end() {
            self.settled.add_word(word, u64::MAX);
        }
        for field in [Field::MPLS_LABEL, Field::MPLS_CLASS, Field::MPLS_BOTTOM, Field::MPLS_TTL] {
            self.key.set(field, 0);
            self.settled.add_all(field);
        }
        self.key.set(Field::ETH_TYPE, kind.into());
    }
}
