//! How a session begins: members are connected, are ready, and begin nearly together.

use super::peer::Peer;
use super::{Link, Phase, Session, node};
use crate::frame::Frame;
use crate::key::Digest;
use crate::news::{Failure, Fault, News};
use fulmar_byzantine::{Decision, Synchronous};
use fulmar_node::{Outbox, Time};

impl<P> Session<P>
where
    P: Synchronous<Value = Decision<Digest>>,
{
    /// Says that it is ready when it has reason to, and begins when enough are.
    ///
    /// The reliable broadcast of Srikanth and Toueg (1987, section 3) with "ready" as what is broadcast: t + 1 that are ready make
    /// everybody ready, as one of them is correct; n − t begin it. Of these n − 2t ≥ t + 1 are correct, whom all correct processes hear; so
    /// when one begins, all do within two message delays.
    pub(super) fn get_ready(&mut self, now: Time, out: &mut Outbox<Self>) {
        let Phase::Gathering { is_patient, is_ready, until } = self.phase else { return };
        let (correct, tolerated) = (self.council.correct(), self.council.tolerates());
        let connected = 1 + self.count(Peer::is_connected);
        let needed = if is_patient { self.peers.len() } else { correct };
        let others = self.count(|peer| peer.is_ready);
        if !is_ready {
            if connected < needed && others <= tolerated {
                return;
            }
            self.phase = Phase::Gathering { is_patient, is_ready: true, until };
            self.send_all(&Frame::Ready, out);
        }
        if others + 1 >= correct {
            self.phase = Phase::Running { began: now, round: 1, decided: None };
            out.event(News::Began);
            self.send_round(out);
            self.go_on(out);
        }
    }

    /// Goes on with n − t when its patience has ended; and gives up when that has ended again.
    pub(super) fn lose_patience(&mut self, now: Time, out: &mut Outbox<Self>) {
        let Phase::Gathering { until, is_patient, is_ready } = self.phase else { return };
        let needed = self.council.correct();
        if !is_patient {
            let ready = 1 + self.count(|peer| peer.is_ready);
            return self.end(Err(Failure::NotReady { ready, needed }), out);
        }
        let present = 1 + self.count(Peer::is_connected);
        if present < needed {
            return self.end(Err(Failure::Absent { present, needed }), out);
        }
        let until = until + self.patience;
        self.phase = Phase::Gathering { until, is_patient: false, is_ready };
        out.set_timer((), until);
        self.get_ready(now, out);
    }

    pub(super) fn link(&mut self, link: Link, out: &mut Outbox<Self>) {
        let (Link::Called(number)
        | Link::Uncalled(number)
        | Link::Heard(number)
        | Link::Unheard(number, _)
        | Link::Begun(number)) = link;
        let is_gathering = matches!(self.phase, Phase::Gathering { .. });
        let peer = &mut self.peers[number];
        let was_connected = peer.is_connected();
        match link {
            Link::Called(_) => {
                (peer.is_called, peer.was_called) = (true, true);
                let is_ready = matches!(self.phase, Phase::Gathering { is_ready: true, .. });
                if is_ready || self.opening.is_some() {
                    out.send(node(number), Frame::Ready);
                }
                self.opening.iter().for_each(|opening| out.send(node(number), opening.clone()));
            }
            Link::Uncalled(_) => peer.is_called = false,
            Link::Heard(_) => peer.is_heard = true,
            Link::Unheard(_, Fault::Lost) if is_gathering => peer.is_heard = false,
            Link::Unheard(_, fault) => {
                peer.is_heard = false;
                self.blame(number, fault, out);
            }
            Link::Begun(_) => {
                peer.has_begun = true;
                // One of so many is correct.
                if is_gathering && self.count(|peer| peer.has_begun) > self.council.tolerates() {
                    self.end(Err(Failure::Begun), out);
                }
            }
        }
        let peer = &self.peers[number];
        match (was_connected, peer.is_connected()) {
            (false, true) => out.event(News::Connected(number)),
            (true, false) if is_gathering => out.event(News::Disconnected(number)),
            _ => {}
        }
    }
}
