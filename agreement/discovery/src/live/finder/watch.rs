//! Who is silent, and what becomes of it.
//!
//! A follower watches its centre, and a centre all others. When more than two are silent that it wanted to follow, one after the other, it
//! watches twice as many each time of those that it would follow next: else any number of smaller addresses that somebody has invented would keep
//! it from its centre for half a second each. Silence leads to questions, questions without an answer to suspicion,
//! which all are told, and a suspicion that nobody refutes to death (SWIM, section 4.2). The centre alone lets die. A node that
//! was only cut off is asked now and then after its death, too, and refutes.

use super::super::member::{Member, Standing};
use super::super::pace;
use super::Finder;
use fulmar_node::{Outbox, Time};
use std::net::SocketAddr;

/// So many may crash together that would be followed one after the other.
const FEW: u32 = 2;
/// A follower watches so many at once at the most, as a power of two.
const MOST_DOUBLINGS: u32 = 8;

impl Finder {
    /// Asks who is silent, suspects who does not answer, and gives up who does not refute.
    pub(super) fn watch(&mut self, now: Time, out: &mut Outbox<Self>) {
        let (is_centre, upto) = (self.is_centre(), self.watched_upto());
        let watched = self.peers.iter().map(|(address, _)| address).filter(|it| self.watches(*it, upto));
        for address in watched.collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(address).filter(|peer| peer.due <= now) else { continue };
            peer.asked += 1;
            peer.due = now + pace::PATIENCE;
            let is_silent = peer.asked > pace::ASKED;
            if is_silent {
                self.believe(now, address, Standing::Alive, Standing::Suspect, out);
            }
            if is_silent && !is_centre {
                self.avoided.insert(address, now + pace::AVOIDED);
                self.silent += u32::from(address == self.centre);
            } else if address == self.centre {
                self.ascent.due = now;
            } else {
                self.ask(now, address, out);
            }
        }
        if is_centre {
            let late = |(member, since): &(&Member, Time)| {
                member.standing == Standing::Suspect && *since + pace::SUSPICION <= now
            };
            let dead: Vec<SocketAddr> =
                self.roster.all().filter(late).map(|(member, _)| member.address).collect();
            for address in dead {
                self.believe(now, address, Standing::Suspect, Standing::Dead, out);
            }
        }
    }

    /// The last address that a follower watches, of those that it can reach and would follow.
    pub(super) fn watched_upto(&self) -> SocketAddr {
        let more = self.roster.live().map(|member| member.address);
        let more = more.filter(|address| *address > self.centre && !self.avoided.contains_key(address));
        let count = (1_usize << self.silent.saturating_sub(FEW).min(MOST_DOUBLINGS)) - 1;
        more.take_while(|address| *address < self.me.address).take(count).last().unwrap_or(self.centre)
    }

    pub(super) fn watches(&self, node: SocketAddr, upto: SocketAddr) -> bool {
        self.is_centre() || node <= upto && !self.avoided.contains_key(&node)
    }

    /// Comes to believe something of a node by itself, if it believed this before.
    fn believe(&mut self, now: Time, node: SocketAddr, from: Standing, to: Standing, out: &mut Outbox<Self>) {
        let Some(member) = self.roster.get(node).filter(|member| member.standing == from) else { return };
        let member = Member { standing: to, ..member.clone() };
        let me = self.me.address;
        self.learn(now, &member, me, out);
        // What a centre comes to believe is on no way up, and what a follower does is.
        self.ascent.add(now, node);
    }

    pub(super) fn next_death(&self) -> Option<Time> {
        let suspect = |(member, _): &(&Member, Time)| member.standing == Standing::Suspect;
        self.roster.all().filter(suspect).map(|(_, since)| since + pace::SUSPICION).min()
    }

    /// A centre asks some of the dead, in turn, whether they are alive after all.
    pub(super) fn reunite(&mut self, now: Time, out: &mut Outbox<Self>) {
        if !self.is_centre() || self.reunion.1 > now {
            return;
        }
        self.reunion.1 = now + pace::REUNION;
        let count = pace::REUNITED.max(self.roster.dead_after(None).count().div_ceil(pace::REUNIONS));
        let dead = self.roster.dead_after(self.reunion.0).map(|dead| dead.address);
        for next in dead.take(count).collect::<Vec<_>>() {
            self.reunion.0 = Some(next);
            self.ask(now, next, out);
        }
    }

    pub(super) fn next_reunion(&self) -> Option<Time> {
        self.roster.dead_after(None).next().map(|_| self.reunion.1)
    }
}
