//! What a switch's threads, its sessions and whoever configures it have together.

use crate::clock::Clock;
use crate::datapath::{Interfaces, Listener, Mailbox};
use crate::monitors::{self, Monitors};
use crate::spanning::{Spanning, Surroundings};
use fulmar_node::Time;
use fulmar_openflow::error::SwitchConfigFailed;
use fulmar_openflow::experimenter::Experimenter;
use fulmar_openflow::monitor::MonitorRequest;
use fulmar_openflow::multipart::{MultipartRequest, RequestBody};
use fulmar_openflow::packet_in::PacketIn2;
use fulmar_openflow::packet_out::PacketOut;
use fulmar_openflow::ports::PortConfig;
use fulmar_openflow::switch::Fragments;
use fulmar_openflow::{Body, ErrorCode, Message, Version};
use fulmar_port::Link;
use fulmar_session::{Asker, SessionId, Sessions};
use fulmar_vswitch::{Done, Event, Notice, PortInfo, Switch};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

/// What is below, and what tells of it.
pub(super) struct Shared {
    pub(super) switch: Switch,
    pub(super) clock: Clock,
    /// Made after this, for which they work.
    pub(super) sessions: OnceLock<Sessions>,
    pub(super) mailbox: OnceLock<Arc<Mailbox>>,
    pub(super) interfaces: OnceLock<Interfaces>,
    /// How links were when they were last heard of.
    pub(super) links: Mutex<BTreeMap<u32, Option<Link>>>,
    /// Held while flows are changed and that is told, so that all are told in the same order.
    monitors: Mutex<Monitors>,
    /// Held while the tree's ports change their states, so that they do in its order.
    pub(super) spanning: Mutex<Spanning>,
    /// Controllers of OpenFlow 1.0, which get what no flow is for.
    old: Mutex<BTreeSet<SessionId>>,
}

impl Shared {
    pub(super) fn new(switch: Switch, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            switch,
            clock,
            sessions: OnceLock::new(),
            mailbox: OnceLock::new(),
            interfaces: OnceLock::new(),
            links: Mutex::default(),
            monitors: Mutex::default(),
            spanning: Mutex::default(),
            old: Mutex::default(),
        })
    }

    /// Tells of what has happened, but for changes of flows.
    pub(super) fn tell(&self, event: Event) {
        let event = match event {
            Event::FlowRemoved(removed) => fulmar_session::Event::FlowRemoved(removed),
            Event::PortStatus(status) => fulmar_session::Event::PortStatus(Box::new(status)),
            Event::FlowChanged(_) => return,
        };
        if let Some(sessions) = self.sessions.get() {
            sessions.tell(&event);
        }
    }

    /// Tells of what has happened, changes of flows too, which somebody may have asked for.
    fn tell_all(&self, monitors: &Monitors, events: Vec<Event>, asker: Option<&Asker>) {
        let mut changes = Vec::new();
        for event in events {
            match event {
                Event::FlowChanged(change) => changes.push(*change),
                event => self.tell(event),
            }
        }
        if let Some(sessions) = self.sessions.get() {
            monitors.tell(&changes, asker).iter().for_each(|event| sessions.tell(event));
        }
    }

    /// Has flows changed, or what they need.
    pub(super) fn change<E>(
        &self,
        asker: Option<&Asker>,
        change: impl FnOnce(&Switch, Time) -> Result<Done, E>,
    ) -> Result<Vec<Body>, E> {
        let monitors = self.monitors.lock();
        let Done { answers, learned, events, packets, links } = change(&self.switch, self.clock.now())?;
        self.tell_all(&monitors, learned, None);
        self.tell_all(&monitors, events, asker);
        drop(monitors);
        self.send(packets);
        self.set_links(links);
        Ok(answers)
    }

    /// Has something else done, which waits for nobody.
    fn carry_out(&self, request: Body) -> Result<Vec<Body>, ErrorCode> {
        let Done { answers, events, packets, links, .. } = self.switch.request(request, self.clock.now())?;
        events.into_iter().for_each(|event| self.tell(event));
        self.send(packets);
        self.set_links(links);
        Ok(answers)
    }

    fn set_links(&self, links: Vec<(u32, bool)>) {
        let Some(interfaces) = self.interfaces.get() else { return };
        links.into_iter().for_each(|(port, is_up)| interfaces.set_up(port, is_up));
    }

    fn send(&self, packets: Vec<PacketOut>) {
        let Some(mailbox) = self.mailbox.get() else { return };
        for packet in packets {
            mailbox.send(packet.port.0, packet.actions, packet.data);
        }
    }

    /// Has the spanning tree hear of something.
    pub(super) fn spanning(&self, hear: impl FnOnce(&mut Spanning, &Surroundings<'_>) -> Vec<Event>) {
        let Some(mailbox) = self.mailbox.get() else { return };
        let mut spanning = self.spanning.lock();
        let around =
            Surroundings { switch: &self.switch, mailbox, now: self.clock.now(), links: &self.links };
        hear(&mut spanning, &around).into_iter().for_each(|event| self.tell(event));
    }

    /// Removes flows whose time is over.
    pub(super) fn expire(&self) {
        let monitors = self.monitors.lock();
        self.tell_all(&monitors, self.switch.expire(self.clock.now()), None);
    }

    /// A session is told from now on how flows change.
    fn watch(&self, asker: &Asker, asked: &[MonitorRequest]) -> Result<(), ErrorCode> {
        let mut monitors = self.monitors.lock();
        let mut more = monitors.clone();
        more.begin(asker.session, asked)?;
        let (events, there) = self.switch.watch(asked);
        self.tell_all(&monitors, events, None);
        // Before anything that happens from now on is told.
        if let Some(sessions) = self.sessions.get() {
            sessions.tell(&monitors::first(asker, there));
        }
        *monitors = more;
        Ok(())
    }

    /// A monitor, or all of a session, is not needed any more.
    fn stop_watching<T>(&self, end: impl FnOnce(&mut Monitors) -> T) -> T {
        let mut monitors = self.monitors.lock();
        let ended = end(&mut monitors);
        if monitors.is_empty() {
            self.switch.stop_watching();
        }
        ended
    }
}

/// What sessions call; they may outlive the bridge by a moment.
pub(super) struct Requests(pub(super) Weak<Shared>);

impl fulmar_session::Switch for Requests {
    fn request(&self, asker: &Asker, body: Body) -> Result<Vec<Body>, ErrorCode> {
        let Some(shared) = self.0.upgrade() else { return Ok(Vec::new()) };
        match body {
            Body::MultipartRequest(MultipartRequest { body: RequestBody::Monitor(asked), .. }) => {
                shared.watch(asker, &asked).map(|()| Vec::new())
            }
            Body::Experimenter(Experimenter::CancelMonitor(number)) => {
                shared.stop_watching(|monitors| monitors.end(asker.session, number)).map(|()| Vec::new())
            }
            Body::FlowMod(_) | Body::GroupMod(_) | Body::MeterMod(_) => {
                shared.change(Some(asker), |switch, now| switch.request(body, now))
            }
            body => shared.carry_out(body),
        }
    }

    fn commit(&self, asker: &Asker, messages: &[Message]) -> Result<(), (usize, ErrorCode)> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let bodies: Vec<Body> = messages.iter().map(|message| message.body.clone()).collect();
        shared.change(Some(asker), |switch, now| switch.commit(&bodies, now)).map(drop)
    }

    fn fragments(&self) -> Fragments {
        self.0.upgrade().map_or(Fragments::Normal, |shared| shared.switch.fragments())
    }

    fn set_fragments(&self, fragments: Fragments) -> Result<(), SwitchConfigFailed> {
        self.0.upgrade().map_or(Ok(()), |shared| shared.switch.set_fragments(fragments))
    }

    fn came(&self, session: SessionId, version: Version) {
        if let Some(shared) = self.0.upgrade()
            && version == Version::V10
        {
            let mut old = shared.old.lock();
            old.insert(session);
            shared.switch.tell_misses(true);
        }
    }

    fn gone(&self, session: SessionId) {
        if let Some(shared) = self.0.upgrade() {
            shared.stop_watching(|monitors| monitors.end_all(session));
            let mut old = shared.old.lock();
            if old.remove(&session) {
                shared.switch.tell_misses(!old.is_empty());
            }
        }
    }
}

impl Listener for Shared {
    fn packet(&self, notice: &Notice, frame: &[u8]) {
        let Some(sessions) = self.sessions.get() else { return };
        let cookie = Some(notice.cookie).filter(|cookie| *cookie != u64::MAX);
        let packet = PacketIn2 {
            table: notice.table,
            cookie,
            known: fulmar_openflow::Told(notice.known.clone()),
            user_data: notice.user_data.clone(),
            ..PacketIn2::new(frame.to_vec(), notice.reason)
        };
        sessions.tell(&fulmar_session::Event::PacketIn {
            controller: notice.controller,
            packet: Box::new(packet),
        });
    }

    fn link(&self, port: u32, link: Option<Link>) {
        let before = self.links.lock().insert(port, link);
        if before == Some(link) {
            return;
        }
        // Others change it meanwhile, or take it away.
        let changed = self.switch.change_port(port, |info| take_over(info, link));
        changed.into_iter().for_each(|event| self.tell(event));
        self.spanning(|spanning, around| spanning.link(port, link, around));
    }

    fn tree(&self, port: u32, frame: &[u8]) {
        self.spanning(|spanning, around| spanning.hear(port, frame, around));
    }
}

/// What controllers are told of a port, by its link; there is none if the interface is gone, or cannot tell.
pub(super) fn take_over(info: &mut PortInfo, link: Option<Link>) {
    info.has_link = link.is_some_and(|link| link.is_up && link.is_running);
    if let Some(link) = link {
        info.address = link.address;
        let kilobits = link.bits_per_second.unwrap_or_default() / 1000;
        info.speed = u32::try_from(kilobits).unwrap_or(u32::MAX);
        if link.index.is_some() {
            // Whoever set the interface, controllers read it here, as with Open vSwitch.
            let down = if link.is_up { 0 } else { PortConfig::DOWN.0 };
            info.config = PortConfig(info.config.0 & !PortConfig::DOWN.0 | down);
        }
    }
}
