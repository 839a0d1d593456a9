//! Groups, and what else is one of several (section 5.6 of the OpenFlow specification).

use super::{Translation, is_ip, number};
use crate::group::{Group, Member, select};
use crate::step::Credit;
use fulmar_openflow::action::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use fulmar_openflow::group::GroupKind;
use fulmar_openflow::{GroupNumber, PortNumber, ShortPort};
use fulmar_packet::Field;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

impl Translation<'_> {
    pub(super) fn group(&mut self, number: GroupNumber) {
        let Some(group) = self.pipeline.groups.read().get(&number).cloned() else { return };
        self.credits.push(Credit::Group(group.clone()));
        match group.kind {
            GroupKind::All => group.members.iter().for_each(|member| self.member_of(member)),
            GroupKind::Indirect => group.members.iter().take(1).for_each(|member| self.member_of(member)),
            GroupKind::FastFailover => {
                let mut dead = BTreeSet::new();
                let alive = |member: &&Arc<Member>| {
                    member.watched() != (None, None) && self.is_alive(member, &mut dead)
                };
                if let Some(member) = group.members.iter().find(alive) {
                    self.member_of(member);
                }
            }
            GroupKind::Select => self.select(&group),
        }
    }

    fn member_of(&mut self, member: &Arc<Member>) {
        if self.may_work() {
            self.credits.push(Credit::Member(member.clone()));
            self.within(|copy| copy.bucket(&member.bucket.actions));
        }
    }

    /// A bucket is a set of actions, too, in the order of one.
    fn bucket(&mut self, actions: &[fulmar_openflow::Action]) {
        self.written.clear();
        actions.iter().for_each(|action| self.write_action(action));
        self.carry_out_written();
    }

    fn select(&mut self, group: &Group) {
        let mut dead = BTreeSet::new();
        let members = group.members.iter().enumerate();
        let alive: Vec<_> = members.filter(|(_, member)| self.is_alive(member, &mut dead)).collect();
        let hash = self.hash(HashFields::SymmetricL4, 0);
        if let Some(member) = select(alive.into_iter(), hash) {
            self.member_of(member);
        }
    }

    /// A bucket lives while one of what it watches does; a port changes the generation when it comes or goes. A circle of groups that watch each
    /// other is not alive. Each of the groups is looked at once: those in `dead` have been.
    fn is_alive(&mut self, member: &Member, dead: &mut BTreeSet<GroupNumber>) -> bool {
        let pipeline = self.pipeline;
        let (ports, groups) = (pipeline.ports.read(), pipeline.groups.read());
        let is_port_alive = |port: PortNumber| ports.get(&port.0).is_some_and(|port| port.is_alive());
        let (mut next, mut seen) = (vec![member], Vec::new());
        while let Some(member) = next.pop() {
            let (port, group) = member.watched();
            if (port, group) == (None, None) || port.is_some_and(is_port_alive) {
                // What led there may be alive.
                dead.retain(|group| !seen.contains(group));
                return true;
            }
            let Some(number) = group.filter(|group| dead.insert(*group)) else { continue };
            seen.push(number);
            for member in groups.get(&number).into_iter().flat_map(|group| &group.members) {
                if !self.may_work() {
                    return false;
                }
                next.push(member);
            }
        }
        false
    }

    /// A hash of what tells connections apart. The decision depends on all that goes into it.
    pub(super) fn hash(&mut self, fields: HashFields, basis: u16) -> u64 {
        let is_ip = is_ip(&self.key);
        let mut pairs: Vec<(Field, Field)> = Vec::new();
        let stations = (Field::ETH_SOURCE, Field::ETH_DESTINATION);
        let networks =
            [(Field::IPV4_SOURCE, Field::IPV4_DESTINATION), (Field::IPV6_SOURCE, Field::IPV6_DESTINATION)];
        let mut single = vec![Field::ETH_TYPE];
        match fields {
            HashFields::EthernetSource => single = vec![Field::ETH_SOURCE],
            HashFields::NetworkSource => single.extend([Field::IPV4_SOURCE, Field::IPV6_SOURCE]),
            HashFields::NetworkDestination => {
                single.extend([Field::IPV4_DESTINATION, Field::IPV6_DESTINATION])
            }
            HashFields::SymmetricL3 => pairs.extend(networks),
            HashFields::SymmetricL4 | HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => {
                if fields == HashFields::SymmetricL4 {
                    pairs.push(stations);
                    single.push(Field::VLAN_TCI);
                }
                if is_ip {
                    pairs.extend(networks);
                    single.push(Field::IP_PROTOCOL);
                    pairs.push((Field::L4_SOURCE, Field::L4_DESTINATION));
                }
            }
        }
        let mut values = vec![u128::from(basis)];
        values.extend(single.into_iter().map(|field| self.consult(field, u128::MAX)));
        for (one, other) in pairs {
            let ends = (self.consult(one, u128::MAX), self.consult(other, u128::MAX));
            values.extend([ends.0.min(ends.1), ends.0.max(ends.1)]);
        }
        foldhash::quality::FixedState::with_seed(0).hash_one(values)
    }

    pub(super) fn multipath(&mut self, multipath: &Multipath) {
        let links = u64::from(multipath.last_link) + 1;
        // The heaviest of all is looked for.
        if !self.may_do(u32::from(multipath.last_link) / 16) {
            return;
        }
        let hash = self.hash(multipath.fields, multipath.basis);
        let link = match multipath.algorithm {
            MultipathAlgorithm::Modulo => hash % links,
            MultipathAlgorithm::Threshold => number((u128::from(hash) * u128::from(links)) >> 64),
            MultipathAlgorithm::HighestRandomWeight | MultipathAlgorithm::Iterative => {
                heaviest(0..links, hash)
            }
        };
        self.write(multipath.destination, link.into());
    }

    /// The port of a bundle that this packet goes to.
    pub(super) fn member(&mut self, bundle: &Bundle) -> Option<ShortPort> {
        let alive: Vec<ShortPort> = {
            let ports = self.pipeline.ports.read();
            let lives = |port: &&ShortPort| {
                ports.get(&PortNumber::from(**port).0).is_some_and(|port| port.is_alive())
            };
            bundle.members.iter().filter(lives).copied().collect()
        };
        match bundle.algorithm {
            BundleAlgorithm::ActiveBackup => alive.first().copied(),
            BundleAlgorithm::HighestRandomWeight => {
                let hash = self.hash(bundle.fields, bundle.basis);
                let number = |port: &ShortPort| weight(u64::from(port.0), hash);
                alive.into_iter().max_by_key(number)
            }
        }
    }
}

/// A number's weight for a hash.
fn weight(number: u64, hash: u64) -> u64 {
    foldhash::quality::FixedState::with_seed(hash).hash_one(number)
}

fn heaviest(numbers: std::ops::Range<u64>, hash: u64) -> u64 {
    numbers.max_by_key(|number| weight(*number, hash)).unwrap_or_default()
}
