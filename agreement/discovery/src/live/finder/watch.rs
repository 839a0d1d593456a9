//! Who is silent, and what becomes of it.
//!
//! A follower watches its centre, and a centre all others. Silence leads to questions, questions without an answer to suspicion,
//! which all are told, and a suspicion that nobody refutes to death (SWIM, section 4.2). The centre alone lets die. A node that
//! was only cut off is asked now and then after its death, too, and refutes.

use super::super::member::{Member, Standing};
use super::super::pace;
use super::Finder;
use fulmar_node::{Outbox, Time};
use std::net::SocketAddr;

impl Finder {
    /// Asks who is silent, suspects who does not answer, and gives up who does not refute.
    pub(super) fn watch(&mut self, now: Time, out: &mut Outbox<Self>) {
        let (is_centre, centre) = (self.is_centre(), self.centre);
        let mut overdue = Vec::new();
        for (address, peer) in self.peers.iter_mut() {
            if (is_centre || address == centre) && peer.due <= now {
                peer.asked += 1;
                peer.due = now + pace::PATIENCE;
                overdue.push((address, peer.asked > pace::ASKED));
            }
        }
        for (address, is_silent) in overdue {
            if is_silent {
                self.believe(now, address, Standing::Alive, Standing::Suspect, out);
            }
            if is_centre {
                self.ask(now, address, out);
            } else if is_silent {
                self.avoided.insert(address, now + pace::AVOIDED);
            } else {
                self.ascent.due = now;
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
        let mut asked = Vec::new();
        for _ in 0..pace::REUNITED {
            let next = self.roster.dead_after(self.reunion.0).map(|dead| dead.address);
            let Some(next) = next.filter(|next| !asked.contains(next)) else { break };
            asked.push(next);
            self.reunion.0 = Some(next);
            self.ask(now, next, out);
        }
    }

    pub(super) fn next_reunion(&self) -> Option<Time> {
        self.roster.dead_after(None).map(|_| self.reunion.1)
    }
}
