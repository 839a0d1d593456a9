//! The process: what it knows, whom it follows, and what it does when something comes or is due.

#[cfg(test)]
mod heard;
mod speech;
#[cfg(test)]
mod strangers;
mod verdict;
mod watch;

use super::ascent::Ascent;
use super::book::Book;
use super::contacts::Contacts;
use super::member::{Incarnation, Member, Standing, plain};
use super::message::{Kind, Message};
use super::name::Name;
use super::pace;
use super::peers::Peers;
use super::roster::{Digest, Roster};
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
pub use verdict::{Missing, Stable};

/// What a finder's user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Says farewell to all; [`Event::Departed`] follows, and then nothing any more.
    Leave,
}

/// What a finder tells its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something new is believed of a node other than this one.
    News(Member),
    /// A view is stable that was not before.
    Stable(Stable),
    /// Somebody has heard the farewell, or nobody can any more.
    Departed,
}

/// The one timer: something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due;

/// A farewell that goes on.
#[derive(Debug)]
struct Farewell {
    said: u32,
    due: Time,
}

/// A node that finds all others.
#[derive(Debug)]
pub struct Finder {
    me: Member,
    /// What is believed of all, this node included.
    roster: Roster,
    contacts: Contacts,
    /// Of each live node but this one.
    peers: Peers,
    book: Book,
    /// Who did not answer lately, and until when it is not followed. Live nodes only.
    avoided: BTreeMap<SocketAddr, Time>,
    /// Whom this node follows: of those that it can reach the one with the smallest address, perhaps itself.
    centre: SocketAddr,
    /// How many of those it wanted to follow were silent, one after the other.
    silent: u32,
    ascent: Ascent,
    /// The view as of the last step, and since when it is that.
    seen: (Digest, Time),
    /// The view that was told to be stable, if it still is the view.
    stable: Option<Digest>,
    /// Whom the centre asked last of those who may only have been cut off, and when it asks the next.
    reunion: (Option<SocketAddr>, Time),
    /// When it next forgets who has been dead or gone for long.
    forgets: Time,
    /// The stamp of the last message.
    stamp: u64,
    farewell: Option<Farewell>,
    departed: bool,
    /// When the timer expires.
    alarm: Option<Time>,
    #[cfg(test)]
    pub(super) defect: Option<super::simulation::Defect>,
}

impl Finder {
    /// A node that others reach at `address`, is called `name` and knows the addresses `known`, of which its own is left out.
    #[must_use]
    pub fn new(address: SocketAddr, name: Name, known: impl IntoIterator<Item = SocketAddr>) -> Self {
        let address = plain(address);
        let known = known.into_iter().map(plain).filter(|known| *known != address);
        let incarnation = Incarnation::default();
        Self {
            me: Member { address, incarnation, standing: Standing::Alive, name },
            roster: Roster::default(),
            contacts: Contacts::new(known),
            peers: Peers::default(),
            book: Book::default(),
            avoided: BTreeMap::new(),
            centre: address,
            silent: 0,
            ascent: Ascent::new(),
            seen: (Digest::default(), Time::ZERO),
            stable: None,
            reunion: (None, Time::ZERO),
            forgets: Time::ZERO,
            stamp: 0,
            farewell: None,
            departed: false,
            alarm: None,
            #[cfg(test)]
            defect: None,
        }
    }

    /// This node, as others believe it to be if they have heard the latest.
    #[must_use]
    pub const fn me(&self) -> &Member {
        &self.me
    }

    /// All that is believed of any node, this one included, in the order of their addresses.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.roster.all().map(|(member, _)| member)
    }

    /// Who is believed to be alive, this node included: suspects are, until they had their time to refute.
    pub fn view(&self) -> impl Iterator<Item = &Member> {
        self.roster.live()
    }

    /// Tells views apart.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.roster.digest()
    }

    /// Whom this node follows, perhaps itself.
    #[must_use]
    pub const fn centre(&self) -> SocketAddr {
        self.centre
    }

    /// Whether the view was told to be stable and is the same since.
    #[must_use]
    pub const fn is_stable(&self) -> bool {
        self.stable.is_some()
    }

    /// Where to send what the process sends to this number: numbers are its own, and mean nothing to other nodes.
    #[must_use]
    pub fn address(&self, number: NodeId) -> Option<SocketAddr> {
        self.book.address(number)
    }

    fn is_centre(&self) -> bool {
        self.centre == self.me.address
    }

    /// Hears what is said of a node, by the node at `from`.
    fn learn(&mut self, now: Time, member: &Member, from: SocketAddr, out: &mut Outbox<Self>) {
        let mut member = member.clone();
        member.address = plain(member.address);
        if member.address == self.me.address {
            return self.defend(now, &member);
        }
        let (address, life) = (member.address, member.incarnation.life);
        let is_other = self.roster.get(address).is_none_or(|before| before.incarnation.life != life);
        if let Some(forgotten) = self.roster.make_room(address) {
            self.ascent.drop(forgotten);
        }
        if !self.roster.merge(now, member.clone()) {
            return;
        }
        if !member.standing.is_live() {
            self.peers.forget(address);
            self.avoided.remove(&address);
        } else if is_other || self.peers.get(address).is_none() {
            self.peers.expect(address, life, now + pace::BUSY + pace::PATIENCE);
        }
        if from == self.centre {
            self.ascent.drop(address);
        } else {
            self.ascent.add(now, address);
        }
        out.event(Event::News(member));
    }

    /// Forgets who has been dead or gone for long.
    fn forget(&mut self, now: Time) {
        if now < self.forgets {
            return;
        }
        self.forgets = now + pace::FORGETTING;
        for forgotten in self.roster.forget_before(now - pace::REMEMBERED) {
            self.ascent.drop(forgotten);
        }
    }

    /// Refutes what is said of this node and is not so.
    fn defend(&mut self, now: Time, said: &Member) {
        #[cfg(test)]
        if self.defect == Some(super::simulation::Defect::NeverRefutes) {
            return;
        }
        if self.farewell.is_some() || !said.outranks(&self.me) {
            return;
        }
        // In another life its clock has been set back since.
        let anew = said.incarnation.life > self.me.incarnation.life;
        self.me.incarnation = said.incarnation.next(anew);
        self.roster.merge(now, self.me.clone());
        self.ascent.hasten(now);
    }

    /// Draws the consequences of a step.
    fn settle(&mut self, now: Time, told_by: Option<SocketAddr>, out: &mut Outbox<Self>) {
        self.choose_centre(now, told_by, out);
        if self.seen.0 != self.roster.digest() {
            self.seen = (self.roster.digest(), now);
            self.stable = None;
            self.ascent.confirm(now);
        }
        self.judge_own(now, out);
        let alarm = self.next_due(now);
        if alarm != self.alarm {
            self.alarm = alarm;
            match alarm {
                Some(alarm) => out.set_timer(Due, alarm),
                None => out.cancel_timer(Due),
            }
        }
    }

    /// Follows the smallest address within reach, and tells the centre that it leaves, unless that has told of the new one. It is
    /// smaller with each node that follows, so nobody follows itself through others.
    fn choose_centre(&mut self, now: Time, told_by: Option<SocketAddr>, out: &mut Outbox<Self>) {
        self.avoided.retain(|_, until| *until > now);
        let reachable = |member: &&Member| !self.avoided.contains_key(&member.address);
        let smallest = self.roster.live().find(reachable).map(|member| member.address);
        let centre = smallest.filter(|smallest| *smallest < self.me.address).unwrap_or(self.me.address);
        if centre == self.centre {
            return;
        }
        let before = std::mem::replace(&mut self.centre, centre);
        if self.is_centre() {
            self.silent = 0;
            // They have to find out that this node is their centre now.
            let time = pace::BUSY + pace::PATIENCE;
            self.peers.iter_mut().for_each(|(_, peer)| (peer.due, peer.asked) = (now + time, 0));
        } else {
            self.ascent.turn(now);
            let is_new = before != self.me.address && before > centre && told_by != Some(before);
            if is_new && self.roster.is_live(before) {
                self.refer(now, before, out);
            }
        }
    }

    /// When something is to be done next.
    fn next_due(&self, now: Time) -> Option<Time> {
        if self.departed {
            return None;
        }
        if let Some(farewell) = &self.farewell {
            return Some(farewell.due);
        }
        let contacts = self.contacts.next_due();
        let avoided = self.avoided.values().copied().min();
        let role = if self.is_centre() {
            let silent = self.peers.iter().map(|(_, peer)| peer.due).min();
            let calm = self.seen.1 + pace::CALM;
            let calm = (calm > now).then_some(calm);
            [silent, calm, self.next_death(), self.next_reunion()].into_iter().flatten().min()
        } else {
            let upto = self.watched_upto();
            let silent = self.peers.iter().filter(|(address, _)| self.watches(*address, upto));
            let silent = silent.map(|(_, peer)| peer.due).min();
            silent.into_iter().chain([self.ascent.due]).min()
        };
        [contacts, avoided, role].into_iter().flatten().min()
    }

    /// Numbers these as they come, as the simulator does, whose nodes are numbered from one.
    #[cfg(test)]
    pub(super) fn number_as(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        for address in addresses {
            self.book.number(address);
        }
    }

    /// What holds after every step.
    #[cfg(test)]
    pub(super) fn invariants(&self) -> Result<(), String> {
        self.roster.invariants()?;
        let has_begun = self.roster.revision() > 0;
        if has_begun && self.roster.get(self.me.address) != Some(&self.me) {
            return Err(format!("{} is not what it takes itself for", self.me.address));
        }
        let live = self.roster.live().map(|member| member.address).filter(|live| *live != self.me.address);
        if !live.eq(self.peers.iter().map(|(address, _)| address)) {
            return Err("peers are not the live members".to_owned());
        }
        if let Some(forgotten) = self.ascent.pending().find(|pending| self.roster.get(*pending).is_none()) {
            return Err(format!("{forgotten} is forgotten, and to be handed up"));
        }
        if self.centre > self.me.address {
            return Err(format!("{} follows {}", self.me.address, self.centre));
        }
        Ok(())
    }
}

impl Process for Finder {
    type Message = Message;
    type Timer = Due;
    type Request = Request;
    type Event = Event;
    type Record = ();

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.me.incarnation.life = micros(now.since(Time::ZERO));
        self.roster.merge(now, self.me.clone());
        self.contacts.begin(now);
        self.expire(now, Due, out);
    }

    fn receive(&mut self, now: Time, _: NodeId, message: Message, out: &mut Outbox<Self>) {
        let until = micros(now.since(Time::ZERO));
        let mut said = message.members.iter().chain([&message.sender]);
        if self.departed || !said.all(|member| member.incarnation.can_be(until)) {
            return;
        }
        let from = plain(message.sender.address);
        if let Some(heard) = self.heard_by(&message).filter(|_| message.kind == Kind::Answer) {
            self.contacts.answered(message.called, heard.stamp, from);
        }
        self.learn(now, &message.sender, from, out);
        for member in &message.members {
            self.learn(now, member, from, out);
        }
        let life = message.sender.incarnation.life;
        let is_heard = from != self.me.address
            && self.roster.get(from).is_some_and(|member| member.incarnation.life == life);
        if is_heard && from == self.centre {
            self.silent = 0;
        }
        if is_heard && self.roster.is_live(from) {
            self.peers.heard(from, life, message.stamp, now, message.pause.min(pace::IDLE));
            self.avoided.remove(&from);
        }
        match message.kind {
            Kind::Ask if is_heard => self.answer(now, &message, out),
            Kind::Ask => self.contradict(now, &message, out),
            Kind::Answer if is_heard => self.heed(now, &message, out),
            Kind::Answer => {}
        }
        self.settle(now, Some(from), out);
    }

    fn expire(&mut self, now: Time, Due: Due, out: &mut Outbox<Self>) {
        self.alarm = None;
        if self.farewell.is_some() {
            self.part(now, out);
        } else {
            self.forget(now);
            self.choose_centre(now, None, out);
            self.call_contacts(now, out);
            self.watch(now, out);
            self.choose_centre(now, None, out);
            self.speak(now, out);
            self.reunite(now, out);
        }
        self.settle(now, None, out);
    }

    fn request(&mut self, now: Time, Request::Leave: Request, out: &mut Outbox<Self>) {
        if self.farewell.is_none() {
            self.leave(now, out);
            self.settle(now, None, out);
        }
    }
}

/// Microseconds, as they travel.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
