//! What the threads of all sessions have in common.

use crate::clock::Clock;
use crate::election::{Election, Standing};
use crate::interest::Kind;
use crate::listings::Listings;
use crate::place::{Place, Settings};
use crate::session::Session;
use crate::share::Pools;
use crate::signal::Signal;
use crate::switch::{SessionId, Switch};
use fulmar_node::Time;
use fulmar_openflow::Version;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A session as all threads see it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: SessionId,
    pub(crate) place: Arc<Place>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) session: Mutex<Session>,
    /// Raised when there is something to be sent.
    pub(crate) signal: Signal,
}

/// Whether there is a controller, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    pub(crate) controllers: usize,
    pub(crate) since: Time,
}

/// Of the locks only `lines` and those of sessions are taken together, in this order.
pub(crate) struct Shared {
    pub(crate) switch: Arc<dyn Switch>,
    pub(crate) report: Box<dyn Fn(&str) + Send + Sync>,
    pub(crate) clock: Clock,
    pub(crate) election: Mutex<Election>,
    pub(crate) lines: RwLock<BTreeMap<SessionId, Arc<Line>>>,
    pub(crate) presence: Mutex<Presence>,
    /// How many of them listen in.
    pub(crate) snoops: AtomicUsize,
    /// What they keep together.
    pub(crate) pools: Pools,
    pub(crate) listings: Listings,
    /// How many sessions there have been.
    pub(crate) count: AtomicU64,
}

impl Shared {
    /// A session begins.
    pub(crate) fn enter(&self, place: &Arc<Place>) -> io::Result<Arc<Line>> {
        let id = SessionId(self.count.fetch_add(1, Ordering::Relaxed));
        let Settings { inactivity, versions, .. } = &place.settings;
        let now = self.clock.now();
        let session = Session::new(id, place.kind, *inactivity, versions.clone(), &self.pools, now);
        let line = Arc::new(Line {
            id,
            place: place.clone(),
            standing: Arc::default(),
            session: Mutex::new(session),
            signal: Signal::new()?,
        });
        self.lines.write().insert(id, line.clone());
        if place.kind == Kind::Snoop {
            self.snoops.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line)
    }

    /// A session has agreed on a version.
    pub(crate) fn connected(&self, line: &Line, version: Version) {
        let (place, now) = (&line.place, self.clock.now());
        if place.kind == Kind::Controller {
            self.switch.came(line.id, version);
        }
        place.attempts.lock().succeed(now);
        if place.kind == Kind::Controller {
            let mut presence = self.presence.lock();
            presence.controllers += 1;
            if presence.controllers == 1 {
                presence.since = now;
            }
        }
        // Tools come and go with each command.
        if place.kind != Kind::Service {
            (self.report)(&format!("{}: connected, {version}", place.target));
        }
    }

    /// Whether somebody listens in on sessions of this place.
    pub(crate) fn is_overheard(&self, place: &Place) -> bool {
        place.kind == Kind::Controller && self.snoops.load(Ordering::Relaxed) > 0
    }

    /// Tells those who listen in what was said.
    pub(crate) fn copy(&self, messages: &[u8]) {
        if messages.is_empty() {
            return;
        }
        for line in self.lines.read().values() {
            if line.place.kind == Kind::Snoop && line.session.lock().copy(messages) {
                line.signal.raise();
            }
        }
    }

    /// A session is over, which was connected or not.
    pub(crate) fn leave(&self, line: &Line, was_connected: bool) {
        self.lines.write().remove(&line.id);
        self.switch.gone(line.id);
        if line.place.kind == Kind::Snoop {
            self.snoops.fetch_sub(1, Ordering::Relaxed);
        }
        if was_connected && line.place.kind == Kind::Controller {
            let mut presence = self.presence.lock();
            presence.controllers -= 1;
            if presence.controllers == 0 {
                presence.since = self.clock.now();
            }
        }
    }
}
