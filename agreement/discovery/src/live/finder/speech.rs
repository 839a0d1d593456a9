//! Asking, answering and saying farewell.

use super::super::member::{Member, Standing, plain};
use super::super::message::{Heard, Kind, Message, ROOM, Span, Verdict, put_member};
use super::super::pace;
use super::{Event, Farewell, Finder, micros};
use fulmar_node::{Outbox, Time};
use std::net::SocketAddr;

/// An answer has at most so many datagrams; who asked asks again for what is left.
const FRAGMENTS: usize = 8;

impl Finder {
    /// A message with nothing in it but who sends it.
    fn blank(&mut self, now: Time, kind: Kind, to: SocketAddr) -> Message {
        self.stamp = (self.stamp + 1).max(micros(now.since(Time::ZERO)));
        Message {
            kind,
            sender: self.me.clone(),
            called: to,
            stamp: self.stamp,
            pause: self.ascent.beat,
            heard: self.peers.from(to),
            digest: self.roster.digest(),
            content: self.contacts.are_settled(&self.roster),
            insists: false,
            whole: false,
            span: Span::default(),
            verdict: None,
            members: Vec::new(),
        }
    }

    /// What the sender says that it has heard of this node, in this life.
    pub(super) fn heard_by(&self, message: &Message) -> Option<Heard> {
        message.heard.filter(|heard| heard.life == self.me.incarnation.life)
    }

    fn send(&mut self, to: SocketAddr, message: Message, out: &mut Outbox<Self>) {
        // Numbers of nodes that were forgotten are given up now and then.
        if self.book.len() > 2 * super::super::roster::MOST_MEMBERS {
            let (roster, contacts) = (&self.roster, &self.contacts);
            self.book.retain(|address| {
                address == to || roster.get(address).is_some() || contacts.contains(address)
            });
        }
        let to = self.book.number(to);
        out.send(to, message);
    }

    /// Asks a node for a sign of life, and tells it what it has to refute.
    pub(super) fn ask(&mut self, now: Time, to: SocketAddr, out: &mut Outbox<Self>) {
        let mut message = self.blank(now, Kind::Ask, to);
        let accused = |member: &&Member| member.standing != Standing::Alive;
        message.members = self.roster.get(to).filter(accused).cloned().into_iter().collect();
        self.send(to, message, out);
    }

    /// Tells a node whom it is to follow, unasked: so the centre that this node leaves goes with all its cluster.
    pub(super) fn refer(&mut self, now: Time, to: SocketAddr, out: &mut Outbox<Self>) {
        let mut message = self.blank(now, Kind::Answer, to);
        message.members = self.roster.get(self.centre).cloned().into_iter().collect();
        self.send(to, message, out);
    }

    pub(super) fn call_contacts(&mut self, now: Time, out: &mut Outbox<Self>) {
        for address in self.contacts.due(now, &self.roster) {
            self.ask(now, address, out);
            self.contacts.called(address, self.stamp);
        }
    }

    /// A follower speaks to its centre: hands up what that may not know, and pulls what it does not know itself.
    pub(super) fn speak(&mut self, now: Time, out: &mut Outbox<Self>) {
        if self.is_centre() || self.ascent.due > now {
            return;
        }
        let to = self.centre;
        let mut message = self.blank(now, Kind::Ask, to);
        message.members = self.ascent.depart(now, message.stamp, &self.roster);
        message.insists = self.avoided.keys().any(|avoided| *avoided < to);
        if let Some(peer) = self.peers.get_mut(to) {
            peer.due = peer.due.min(now + pace::PATIENCE);
        }
        self.send(to, message, out);
    }

    /// An answer with nothing in it but what the other one has to refute.
    fn reply(&mut self, now: Time, ask: &Message) -> Message {
        let to = plain(ask.sender.address);
        let mut reply = self.blank(now, Kind::Answer, to);
        reply.called = ask.called;
        reply.heard = reply.heard.map(|mut of| {
            of.stamp = ask.stamp;
            of
        });
        reply.members =
            self.roster.get(to).filter(|known| known.outranks(&ask.sender)).cloned().into_iter().collect();
        reply
    }

    /// Answers with what the other one lacks, if it is to follow this node, and else with whom to follow.
    pub(super) fn answer(&mut self, now: Time, ask: &Message, out: &mut Outbox<Self>) {
        let to = plain(ask.sender.address);
        // What was never said cannot have been heard: it would outrank all confirmations to come.
        let heard = self.heard_by(ask).filter(|heard| heard.stamp <= self.stamp);
        if let Some(heard) = heard {
            self.peers.confirm(to, ask.content.then_some(ask.digest), heard.stamp);
        }
        let mut answer = self.reply(now, ask);
        if to < self.me.address || !(self.is_centre() || ask.insists) {
            answer.members.extend(self.roster.get(self.centre).filter(|_| !self.is_centre()).cloned());
            return self.send(to, answer, out);
        }
        answer.whole = true;
        answer.verdict = self.judge(now).map(|age| Verdict { digest: answer.digest, age });
        let end = self.roster.revision();
        let have = heard.map_or(0, |heard| heard.have);
        if ask.digest == answer.digest || have >= end {
            answer.span = Span { base: 0, upto: end, end };
            return self.send(to, answer, out);
        }
        for fragment in self.fragments(&answer, have) {
            self.send(to, fragment, out);
        }
    }

    /// Tells who speaks in a life that is over, as far as this node knows, what it has to refute: its clock may have been set back
    /// since, and somebody may have invented the later life.
    pub(super) fn contradict(&mut self, now: Time, ask: &Message, out: &mut Outbox<Self>) {
        let reply = self.reply(now, ask);
        if !reply.members.is_empty() {
            self.send(plain(ask.sender.address), reply, out);
        }
    }

    /// What was learned after a revision, in as many messages as it takes, or as may be.
    fn fragments(&self, blank: &Message, have: u64) -> Vec<Message> {
        let end = self.roster.revision();
        let mut fragments = Vec::new();
        let mut bytes = Vec::new();
        let mut fragment = Message { span: Span { base: have, upto: have, end }, ..blank.clone() };
        fragment.members.iter().for_each(|member| put_member(&mut bytes, member));
        for (revision, member) in self.roster.learned_after(have) {
            let before = bytes.len();
            put_member(&mut bytes, member);
            if bytes.len() > ROOM {
                bytes.drain(..before);
                let next = Message {
                    span: Span { base: fragment.span.upto, ..fragment.span },
                    members: Vec::new(),
                    ..blank.clone()
                };
                fragments.push(std::mem::replace(&mut fragment, next));
                if fragments.len() == FRAGMENTS {
                    return fragments;
                }
            }
            fragment.members.push(member.clone());
            fragment.span.upto = revision;
        }
        // Revisions behind the last one are of nodes that were forgotten.
        fragment.span.upto = end;
        fragments.push(fragment);
        fragments
    }

    /// Takes what the centre answers.
    pub(super) fn heed(&mut self, now: Time, answer: &Message, out: &mut Outbox<Self>) {
        let from = plain(answer.sender.address);
        let heard = self.heard_by(answer);
        if self.farewell.is_some() {
            return self.depart(out);
        }
        let Some(heard) = heard.filter(|_| from == self.centre && !self.is_centre()) else { return };
        let is_latest = self.ascent.arrived(now, heard.stamp, &self.roster);
        if let Some(peer) = self.peers.get_mut(from) {
            peer.due = self.ascent.due.max(now) + pace::PATIENCE;
        }
        if !answer.whole {
            return;
        }
        if !self.peers.note(from, answer.span) {
            self.ascent.hasten(now);
        } else if is_latest && self.ascent.is_done() && answer.digest != self.roster.digest() {
            // What another centre has acknowledged has not got to this one, as that may have crashed in between; or what is known
            // here is older than what it was taken for, as digests do not tell refutations.
            self.exchange_all(now, from);
        }
        if let Some(verdict) = answer.verdict {
            self.heed_verdict(now, from, heard.stamp, verdict, out);
        }
    }

    /// Begins anew with the centre, in both directions.
    fn exchange_all(&mut self, now: Time, centre: SocketAddr) {
        #[cfg(test)]
        if self.defect == Some(super::super::simulation::Defect::TrustsAcknowledgements) {
            return;
        }
        for (member, _) in self.roster.all() {
            self.ascent.add(now, member.address);
        }
        self.peers.unlearn(centre);
    }

    /// Begins to say farewell, to all at once.
    pub(super) fn leave(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.me.standing = Standing::Left;
        self.roster.merge(now, self.me.clone());
        self.farewell = Some(Farewell { said: 0, due: now });
        self.part(now, out);
    }

    /// Says farewell again to those who are to hear it, as nobody has answered.
    pub(super) fn part(&mut self, now: Time, out: &mut Outbox<Self>) {
        let others: Vec<SocketAddr> = self.peers.iter().map(|(address, _)| address).collect();
        let Some(farewell) = &mut self.farewell else { return };
        if farewell.due > now {
            return;
        }
        farewell.said += 1;
        farewell.due = now + pace::PATIENCE;
        if farewell.said > pace::FAREWELLS || others.is_empty() {
            return self.depart(out);
        }
        for to in others {
            self.ask(now, to, out);
        }
    }

    fn depart(&mut self, out: &mut Outbox<Self>) {
        self.departed = true;
        out.event(Event::Departed);
    }
}
