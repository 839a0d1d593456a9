//! What one member knows of another.

use crate::council::Council;
use crate::frame::{Frame, Verdict};
use crate::key::PublicKey;
use crate::news::Fault;
use fulmar_byzantine::Wire;
use std::collections::BTreeMap;

/// How another member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Present,
    Halted(Verdict),
    Faulty(u32, Fault),
}

/// How far a member is that hears another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The round that goes on; 0 before the first.
    pub(super) round: u32,
    /// Whether it has halted, and needs no messages any more.
    pub(super) has_halted: bool,
}

/// Another member. Invariant: its inbox holds no rounds but this and the next.
pub(super) struct Peer<M> {
    pub(super) is_called: bool,
    /// Whether it was ever called: else it has missed what was sent.
    pub(super) was_called: bool,
    pub(super) is_heard: bool,
    pub(super) is_ready: bool,
    pub(super) has_begun: bool,
    pub(super) standing: Standing,
    /// The last round of which a message has come.
    last: u32,
    /// What has come for this round and the next.
    inbox: BTreeMap<u32, M>,
}

impl<M> Default for Peer<M> {
    fn default() -> Self {
        Self {
            is_called: false,
            was_called: false,
            is_heard: false,
            is_ready: false,
            has_begun: false,
            standing: Standing::Present,
            last: 0,
            inbox: BTreeMap::new(),
        }
    }
}

impl<M: Wire> Peer<M> {
    /// Whether there are connections to it and from it.
    pub(super) const fn is_connected(&self) -> bool {
        self.is_called && self.is_heard
    }

    pub(super) const fn is_faulty(&self) -> bool {
        matches!(self.standing, Standing::Faulty(..))
    }

    /// Whether more is to come of it, or to be sent to it, before this round can end early.
    pub(super) fn is_awaited(&self, round: u32) -> bool {
        match self.standing {
            Standing::Present => !self.was_called || !self.has_sent(round),
            Standing::Halted(_) => !self.was_called,
            Standing::Faulty(..) => false,
        }
    }

    pub(super) fn has_sent(&self, round: u32) -> bool {
        self.inbox.contains_key(&round)
    }

    /// What it has sent in this round.
    pub(super) fn take(&mut self, round: u32) -> Option<M> {
        self.inbox.remove(&round)
    }

    /// From now on nothing of it counts.
    pub(super) fn convict(&mut self, round: u32, fault: Fault) {
        self.standing = Standing::Faulty(round, fault);
        self.inbox.clear();
    }

    /// Takes a frame of it, whose key is `key`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn hear(
        &mut self,
        frame: Frame,
        progress: Progress,
        council: &Council,
        key: &PublicKey,
    ) -> Result<(), Fault> {
        match frame {
            Frame::Ready => self.is_ready = true,
            Frame::Round { round, message } => {
                if round <= self.last {
                    return Err(Fault::Doubled);
                }
                let is_early = round > progress.round + 1 && !progress.has_halted;
                if round > self.last + 1 || is_early {
                    return Err(Fault::Ahead);
                }
                self.last = round;
                let mut bytes = &message[..];
                let message = M::decode(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Fault::Malformed)?;
                if !progress.has_halted {
                    self.inbox.insert(round, message);
                }
            }
            Frame::Halted(_) if self.last == 0 => return Err(Fault::Ahead),
            Frame::Halted(verdict) if !verdict.is_by(council, key) => return Err(Fault::Forged),
            Frame::Halted(verdict) => self.standing = Standing::Halted(verdict),
        }
        Ok(())
    }
}
