//! All that is believed of all nodes, in the order in which it was learned.

use super::member::{Member, Standing, plain, put_address};
use fulmar_coding::put_varint;
use fulmar_node::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Bound::{Excluded, Unbounded};
use xxhash_rust::xxh3::xxh3_64;

/// So many nodes are remembered, dead ones included. Newcomers beyond are refused.
pub const MOST_MEMBERS: usize = 4_096;

/// Tells views apart: the sum of a hash of each member's address and life. Two views that differ have the same one with
/// probability 2⁻⁶⁴, unless somebody wants them to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a member of the view adds to the digest. Refutations change no view: it is about who is there.
fn part(member: &Member) -> u64 {
    if !member.standing.is_live() {
        return 0;
    }
    let mut bytes = Vec::with_capacity(32);
    put_address(&mut bytes, member.address);
    put_varint(&mut bytes, member.incarnation.life);
    xxh3_64(&bytes)
}

#[derive(Debug)]
struct Entry {
    member: Member,
    /// Its place in the journal.
    revision: u64,
    /// Since when this is believed here.
    since: Time,
}

/// A set of beliefs that only grows newer, so that it does not matter in which order, how often and from whom they come.
#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: BTreeMap<SocketAddr, Entry>,
    /// Who was changed by each revision, but for those who were changed again since.
    journal: BTreeMap<u64, SocketAddr>,
    /// Of these, who is dead or gone.
    gone: BTreeMap<u64, SocketAddr>,
    /// The last revision.
    revision: u64,
    /// That of the live entries.
    digest: Digest,
}

impl Roster {
    /// Believes this, unless what is believed already is as new, or there is no room. Says whether it is news.
    pub(super) fn merge(&mut self, now: Time, member: Member) -> bool {
        debug_assert_eq!(member.address, plain(member.address));
        let before = self.entries.get(&member.address);
        if before.is_some_and(|before| !member.outranks(&before.member)) {
            return false;
        }
        if before.is_none() && self.entries.len() >= MOST_MEMBERS {
            return false;
        }
        self.revision += 1;
        self.digest.0 = self.digest.0.wrapping_add(part(&member));
        self.journal.insert(self.revision, member.address);
        if !member.standing.is_live() {
            self.gone.insert(self.revision, member.address);
        }
        let entry = Entry { member, revision: self.revision, since: now };
        if let Some(before) = self.entries.insert(entry.member.address, entry) {
            self.digest.0 = self.digest.0.wrapping_sub(part(&before.member));
            self.journal.remove(&before.revision);
            self.gone.remove(&before.revision);
        }
        true
    }

    /// Makes room for a newcomer, if there is none: forgets who has been dead or gone for longest, and says who that is.
    pub(super) fn make_room(&mut self, newcomer: SocketAddr) -> Option<SocketAddr> {
        if self.entries.len() < MOST_MEMBERS || self.entries.contains_key(&newcomer) {
            return None;
        }
        let (revision, address) = self.gone.pop_first()?;
        self.journal.remove(&revision);
        self.entries.remove(&address);
        Some(address)
    }

    /// Forgets who has been dead or gone since before this moment, and says who that is.
    pub(super) fn forget_before(&mut self, moment: Time) -> Vec<SocketAddr> {
        let is_past = |entry: &Entry| !entry.member.standing.is_live() && entry.since < moment;
        let past = self.entries.extract_if(.., |_, entry| is_past(entry));
        let forget = |(address, entry): (SocketAddr, Entry)| {
            self.journal.remove(&entry.revision);
            self.gone.remove(&entry.revision);
            address
        };
        past.map(forget).collect()
    }

    pub(super) fn get(&self, address: SocketAddr) -> Option<&Member> {
        self.entries.get(&address).map(|entry| &entry.member)
    }

    pub(super) fn is_live(&self, address: SocketAddr) -> bool {
        self.get(address).is_some_and(|member| member.standing.is_live())
    }

    /// All, in the order of their addresses, and since when that is believed of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Member, Time)> {
        self.entries.values().map(|entry| (&entry.member, entry.since))
    }

    /// The view: who is alive, or suspected only.
    pub(super) fn live(&self) -> impl Iterator<Item = &Member> {
        self.entries.values().map(|entry| &entry.member).filter(|member| member.standing.is_live())
    }

    /// The dead, who may only have been cut off, from behind this address on, and then from the first.
    pub(super) fn dead_after(&self, after: Option<SocketAddr>) -> impl Iterator<Item = &Member> {
        let behind = after.map_or(Unbounded, Excluded);
        let upto = after.into_iter().flat_map(|after| self.entries.range(..=after));
        let all = self.entries.range((behind, Unbounded)).chain(upto).map(|(_, entry)| &entry.member);
        all.filter(|member| member.standing == Standing::Dead)
    }

    /// What was learned after a revision, oldest first, with the revisions.
    pub(super) fn learned_after(&self, revision: u64) -> impl Iterator<Item = (u64, &Member)> {
        let later = self.journal.range(revision.saturating_add(1)..);
        later.filter_map(|(revision, address)| Some((*revision, self.get(*address)?)))
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) const fn digest(&self) -> Digest {
        self.digest
    }

    /// What holds after every step.
    #[cfg(test)]
    pub(super) fn invariants(&self) -> Result<(), String> {
        let sum = self.live().fold(0_u64, |sum, member| sum.wrapping_add(part(member)));
        if sum != self.digest.0 {
            return Err(format!("the digest is {}, and that of the members {sum:016x}", self.digest));
        }
        let places: BTreeMap<u64, SocketAddr> =
            self.entries.iter().map(|(address, entry)| (entry.revision, *address)).collect();
        if places != self.journal || places.last_key_value().is_some_and(|(last, _)| *last > self.revision) {
            return Err(format!("the journal {:?} is not {places:?}", self.journal));
        }
        let is_gone = |(_, address): &(&u64, &SocketAddr)| !self.is_live(**address);
        if !self.gone.iter().eq(self.journal.iter().filter(is_gone)) {
            return Err(format!("{:?} are not those who are gone", self.gone));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::member::Incarnation;
    use super::*;
    use fulmar_node::Random;

    fn some(random: &mut Random, hosts: u64) -> Member {
        let host = u8::try_from(random.below(hosts)).expect("few hosts");
        Member {
            address: SocketAddr::from(([10, 0, 0, host], 7000)),
            incarnation: Incarnation { life: 1 + random.below(3), refutations: u32::from(random.one_in(2)) },
            standing: Standing::ALL[random.index(4)],
            name: format!("host {host}").parse().expect("a name"),
        }
    }

    /// Against the naive one: sort what was ever said, and take the last of each.
    #[test]
    fn neither_order_nor_repetition_matters() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let said: Vec<Member> = (0..30).map(|_| some(&mut random, 6)).collect();
            let mut best: BTreeMap<SocketAddr, Member> = BTreeMap::new();
            for member in &said {
                let before = best.entry(member.address).or_insert_with(|| member.clone());
                if member.outranks(before) {
                    *before = member.clone();
                }
            }
            let mut rosters = [Roster::default(), Roster::default()];
            for member in &said {
                rosters[0].merge(Time::ZERO, member.clone());
                rosters[0].invariants().expect("all is well");
            }
            for _ in 0..2 {
                for member in said.iter().rev() {
                    rosters[1].merge(Time::ZERO, member.clone());
                }
            }
            for roster in &rosters {
                assert!(roster.all().map(|(member, _)| member).eq(best.values()));
                assert_eq!(roster.digest(), rosters[0].digest());
                assert_eq!(roster.learned_after(0).count(), best.len());
            }
        }
    }

    #[test]
    fn room_is_made_only_by_forgetting_the_dead() {
        let mut roster = Roster::default();
        let member = |number: usize, standing| Member {
            address: SocketAddr::from((
                [10, 0, 0, 1],
                u16::try_from(number + 1).expect("fewer members than ports"),
            )),
            incarnation: Incarnation { life: 1, refutations: 0 },
            standing,
            name: "n".parse().expect("a name"),
        };
        for number in 0..MOST_MEMBERS {
            let standing = if number == 7 { Standing::Dead } else { Standing::Alive };
            assert!(roster.merge(Time::ZERO, member(number, standing)));
        }
        let dead = member(7, Standing::Dead).address;
        let newcomer = member(MOST_MEMBERS, Standing::Alive);
        assert_eq!(roster.make_room(newcomer.address), Some(dead));
        assert!(roster.merge(Time::ZERO, newcomer));
        let another = member(MOST_MEMBERS + 1, Standing::Alive);
        assert_eq!(roster.make_room(another.address), None);
        assert!(!roster.merge(Time::ZERO, another));
        assert_eq!((roster.all().count(), roster.live().count()), (MOST_MEMBERS, MOST_MEMBERS));
        assert!(roster.get(dead).is_none());
        roster.invariants().expect("all is well");
    }
}
