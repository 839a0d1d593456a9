//! All sessions of a switch.

use crate::attempts::State;
use crate::clock::Clock;
use crate::event::Event;
use crate::interest::Kind;
use crate::listings::Listings;
use crate::place::{Place, Settings, Status};
use crate::share::Pools;
use crate::shared::{Presence, Shared};
use crate::switch::Switch;
use crate::target::Target;
use crate::threads::keep;
use fulmar_node::Time;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread::JoinHandle;
use std::time::Duration;

/// The sessions of a switch. Any thread may use it. When it is dropped all of them have ended.
pub struct Sessions {
    shared: Arc<Shared>,
    places: Mutex<Vec<(Arc<Place>, JoinHandle<()>)>>,
    /// Held while the places change, which may take a while; the places themselves are not.
    change: Mutex<()>,
}

impl Sessions {
    /// No sessions yet. `report` hears of connections that come and go, and why: for a log.
    #[must_use]
    pub fn new(switch: Arc<dyn Switch>, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let shared = Shared {
            switch,
            report: Box::new(report),
            clock: Clock::new(),
            election: Mutex::default(),
            lines: RwLock::default(),
            presence: Mutex::new(Presence { controllers: 0, since: Time::ZERO }),
            snoops: AtomicUsize::new(0),
            pools: Pools::default(),
            listings: Listings::default(),
            count: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared), places: Mutex::default(), change: Mutex::default() }
    }

    /// From now on these are the controllers. Sessions of targets that stay as they are go on; those of others have ended when this
    /// returns, so that it waits for what the switch is doing for them. A passive target listens, if it can.
    ///
    /// # Errors
    /// If the system is out of threads or file descriptors; controllers that could be taken on are.
    pub fn set_controllers(&self, controllers: Vec<(Target, Settings)>) -> io::Result<()> {
        self.set(Kind::Controller, controllers)
    }

    /// From now on tools come in here: `ovs-ofctl` at a socket `punix:PATH`. They are told nothing before they ask for it
    /// (`miss_send_len`), and do not count as [controllers](Self::is_connected).
    ///
    /// # Errors
    /// If the system is out of threads or file descriptors.
    pub fn set_services(&self, services: Vec<(Target, Settings)>) -> io::Result<()> {
        self.set(Kind::Service, services)
    }

    /// From now on it can be listened in here on what controllers and the switch say to each other: `ovs-ofctl snoop`. Who listens in may
    /// change nothing, and misses what it does not read as fast as it is said.
    ///
    /// # Errors
    /// If the system is out of threads or file descriptors.
    pub fn set_snoops(&self, snoops: Vec<(Target, Settings)>) -> io::Result<()> {
        self.set(Kind::Snoop, snoops)
    }

    fn set(&self, kind: Kind, mut wanted: Vec<(Target, Settings)>) -> io::Result<()> {
        let _change = self.change.lock();
        let stays = |(place, _): &(Arc<Place>, _)| {
            let same = |(target, settings): &(Target, Settings)| {
                *target == place.target && *settings == place.settings
            };
            let at = wanted.iter().position(same).filter(|_| place.kind == kind);
            at.map(|at| wanted.remove(at)).is_some() || place.kind != kind
        };
        let mut places = self.places.lock();
        let (kept, ended) = std::mem::take(&mut *places).into_iter().partition(stays);
        *places = kept;
        drop(places);
        end(ended);
        for (target, settings) in wanted {
            let place = Arc::new(Place::new(kind, target, settings)?);
            let thread = keep(self.shared.clone(), place.clone())?;
            self.places.lock().push((place, thread));
        }
        Ok(())
    }

    /// Tells each session of an event that wants to know, and does not wait until it knows. A session that does not read as fast
    /// as packets come loses some of them, which are counted; one for which some megabytes of anything else wait is closed.
    pub fn tell(&self, event: &Event) {
        for line in self.shared.lines.read().values() {
            if line.session.lock().tell(event, line.standing.role()) {
                line.signal.raise();
            }
        }
    }

    /// Whether there is a controller.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.presence.lock().controllers > 0
    }

    /// For how long there has been no controller, if there is none: how a switch fails depends on that.
    #[must_use]
    pub fn for_how_long_not(&self) -> Option<Duration> {
        let presence = *self.shared.presence.lock();
        (presence.controllers == 0).then(|| self.shared.clock.now().since(presence.since))
    }

    /// How it is with each controller, in the order in which they were taken on.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let places = self.places.lock();
        let controllers = places.iter().filter(|(place, _)| place.kind == Kind::Controller);
        controllers.map(|(place, _)| self.status_of(place)).collect()
    }

    fn status_of(&self, place: &Arc<Place>) -> Status {
        let lines = self.shared.lines.read();
        let lines = lines.values().filter(|line| Arc::ptr_eq(&line.place, place));
        let (mut role, mut dropped_packets) = (None, 0);
        for line in lines {
            let session = line.session.lock();
            dropped_packets += session.dropped_packets();
            if session.version().is_some() {
                role.get_or_insert_with(|| line.standing.role());
            }
        }
        let (attempts, now) = (place.attempts.lock(), self.shared.clock.now());
        let ago = |time: Option<Time>| time.map(|time| now.since(time));
        let is_connected = role.is_some();
        Status {
            target: place.target.clone(),
            is_connected,
            role,
            last_error: attempts.last_error.clone(),
            state: match attempts.state {
                _ if is_connected => State::Active,
                // Who comes is not called.
                _ if place.target.is_passive() => State::Void,
                state => state,
            },
            since_connect: ago(attempts.connected),
            since_disconnect: ago(attempts.disconnected),
            dropped_packets,
            port: *place.port.lock(),
        }
    }
}

fn end(places: Vec<(Arc<Place>, JoinHandle<()>)>) {
    for (place, _) in &places {
        place.stop.set();
    }
    for (_, thread) in places {
        // Its panic was reported as all are.
        let _ = thread.join();
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        end(std::mem::take(&mut *self.places.lock()));
    }
}
