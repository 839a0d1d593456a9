//! A switch as a whole, without anything that sends or receives.

use crate::cache::Caching;
use crate::control::{self, Done, Event};
use crate::forwarder::Forwarder;
use crate::mac::{Flapping, Learning, Station};
use crate::mirror::{Mirror, Mirrors};
use crate::pipeline::Pipeline;
use crate::port::{PortInfo, in_use};
use crate::queue::{Queues, Shaping};
use crate::step::Steps;
use crate::traffic::Traffic;
use crate::translate::Translation;
use crate::{answers, monitor, step};
use fulmar_classifier::Optimisations;
use fulmar_conntrack::{Limits, Tracker};
use fulmar_node::Time;
use fulmar_openflow::error::{BadRequest, SwitchConfigFailed};
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::monitor::{MonitorRequest, MonitorUpdate};
use fulmar_openflow::multipart::{MultipartReply, MultipartRequest};
use fulmar_openflow::ports::{PortStatus, PortStatusReason};
use fulmar_openflow::queue::QueueConfig;
use fulmar_openflow::switch::{Description, Fragments};
use fulmar_openflow::{Body, ErrorCode};
use fulmar_packet::FlowKey;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// So many connections are forgotten at once.
const MOST_FORGOTTEN: usize = 100_000;

/// How a switch decides, and how it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What is done so that decisions depend on few bits.
    pub optimisations: Optimisations,
    /// What is remembered.
    pub caching: Caching,
    /// For hashes: whoever does not know it cannot make packets that all meet in one place.
    pub seed: u64,
}

/// A switch: flow tables, ports, and what else decides about packets.
pub struct Switch {
    pipeline: Arc<Pipeline>,
    tracker: Arc<Tracker>,
    settings: Settings,
    datapath: u64,
    description: Description,
}

impl Switch {
    /// One without ports and flows, of this number and name.
    pub fn new(datapath: u64, name: &str, settings: Settings) -> Self {
        let description = Description {
            manufacturer: "Fulmar".into(),
            hardware: "Virtual switch".into(),
            software: env!("CARGO_PKG_VERSION").into(),
            serial: "None".into(),
            datapath: name.into(),
        };
        let pipeline = Arc::new(Pipeline::new(settings.optimisations, settings.seed));
        let tracker = Arc::new(Tracker::new(Limits::default(), settings.seed));
        Self { pipeline, tracker, settings, datapath, description }
    }

    /// The same, which says that it runs on something else than "Virtual switch".
    #[must_use]
    pub fn on(mut self, hardware: &str) -> Self {
        self.description.hardware = hardware.into();
        self
    }

    #[cfg(test)]
    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Its number, of which the last 48 bits are an Ethernet address.
    pub fn datapath(&self) -> u64 {
        self.datapath
    }

    /// The connections that are tracked.
    pub fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }

    /// The way for packets, for one thread.
    pub fn forwarder(&self) -> Forwarder {
        self.forwarder_of(NonZeroUsize::MIN)
    }

    /// A way for packets for each of so many threads: what one remembers is its own, and all together remember as much as one would.
    /// Packets of one connection keep their order if those of one port go one way.
    pub fn forwarders(&self, threads: NonZeroUsize) -> Vec<Forwarder> {
        (0..threads.get()).map(|_| self.forwarder_of(threads)).collect()
    }

    fn forwarder_of(&self, threads: NonZeroUsize) -> Forwarder {
        let Settings { caching, seed, .. } = self.settings;
        Forwarder::new(self.pipeline.clone(), self.tracker.clone(), caching, threads, seed)
    }

    /// Carries out a request, or answers a question. All packets that come in after this are treated as it says.
    ///
    /// # Errors
    /// What the asker is told; then nothing has changed.
    pub fn request(&self, request: Body, now: Time) -> Result<Done, ErrorCode> {
        let answer = |body| Ok(Done { answers: vec![body], ..Done::default() });
        match request {
            Body::FeaturesRequest => {
                answer(Body::FeaturesReply(answers::features(&self.pipeline, self.datapath)))
            }
            Body::QueueConfigRequest(asked) => {
                let queues = answers::queues(&self.pipeline, asked.port)?;
                answer(Body::QueueConfigReply(QueueConfig { port: asked.port, queues }))
            }
            Body::MultipartRequest(MultipartRequest { body: request, .. }) => {
                let found = answers::answer(&self.pipeline, &request, &self.description, now)?;
                answer(Body::MultipartReply(MultipartReply { has_more: false, body: found }))
            }
            Body::PacketOut(_)
            | Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::PortMod(_)
            | Body::TableMod(_)
            | Body::MeterMod(_) => self.commit(&[request], now).map_err(|(_, code)| code),
            _ => Err(BadRequest::BadType.into()),
        }
    }

    /// Carries out requests, all of them or none: no packet meets some without the others.
    ///
    /// # Errors
    /// Which of them is wrong, and how; then nothing has changed.
    pub fn commit(&self, requests: &[Body], now: Time) -> Result<Done, (usize, ErrorCode)> {
        control::commit(&self.pipeline, requests, now)
    }

    /// Removes what the time has made void. To be called about once a second.
    pub fn expire(&self, now: Time) -> Vec<Event> {
        if self.pipeline.macs.lock().age(now) {
            self.pipeline.has_changed();
        }
        let events = control::expire(&self.pipeline, now);
        self.pipeline.tidy();
        self.tracker.forget(now.since(Time::ZERO), MOST_FORGOTTEN);
        events
    }

    /// There is a port of this number from now on, or it is another than it was.
    pub fn put_port(&self, number: u32, mut port: PortInfo, now: Time) -> Event {
        let _alone = self.pipeline.alone();
        let mut ports = self.pipeline.ports.write();
        let reason = if let Some(before) = ports.get(&number) {
            port.created = before.created;
            PortStatusReason::Modify
        } else {
            port.created = now;
            PortStatusReason::Add
        };
        let status = PortStatus { reason, port: port.tell(number) };
        ports.insert(number, port);
        self.pipeline.has_changed();
        Event::PortStatus(status)
    }

    /// A port is another than it was; nothing, if there is none of this number.
    pub fn change_port(&self, number: u32, change: impl FnOnce(&mut PortInfo)) -> Option<Event> {
        let _alone = self.pipeline.alone();
        let mut ports = self.pipeline.ports.write();
        let port = ports.get_mut(&number)?;
        let vlans = port.vlans.clone();
        change(port);
        if port.vlans != vlans {
            self.pipeline.macs.lock().forget_port(number);
        }
        let status = PortStatus { reason: PortStatusReason::Modify, port: port.tell(number) };
        self.pipeline.has_changed();
        Some(Event::PortStatus(status))
    }

    /// A port has these queues from now on, or none; those that stay as they were go on counting. Nothing happens if there is no such
    /// port.
    pub fn shape(&self, number: u32, shaping: Option<&Shaping>, now: Time) {
        let _alone = self.pipeline.alone();
        let mut ports = self.pipeline.ports.write();
        let Some(port) = ports.get_mut(&number) else { return };
        if port.queues.as_ref().map(|queues| queues.shaping()) == shaping {
            return;
        }
        let queues = shaping.map(|shaping| Arc::new(Queues::new(shaping, port.queues.as_deref(), now)));
        port.queues = queues;
        self.pipeline.has_changed();
    }

    /// These are its mirrors from now on; those that were there before go on counting.
    pub fn set_mirrors(&self, mirrors: Vec<Mirror>) {
        let _alone = self.pipeline.alone();
        let mut there = self.pipeline.mirrors.write();
        if !there.are(&mirrors) {
            *there = Mirrors::new(mirrors, &there);
            // Stations are not there where copies go.
            let mut macs = self.pipeline.macs.lock();
            for port in there.outputs() {
                macs.forget_port(port);
            }
            self.pipeline.has_changed();
        }
    }

    /// What each mirror has copied, by its `id`.
    pub fn mirrored(&self) -> Vec<(u128, Traffic)> {
        self.pipeline.mirrors.read().stats()
    }

    /// There is no port of this number any more. What is told of that, and which stations were there.
    pub fn remove_port(&self, number: u32) -> Option<(Event, Vec<Station>)> {
        let _alone = self.pipeline.alone();
        let port = self.pipeline.ports.write().remove(&number)?;
        let stations = self.pipeline.macs.lock().forget_port(number);
        self.pipeline.has_changed();
        let status = PortStatus { reason: PortStatusReason::Delete, port: port.tell(number) };
        Some((Event::PortStatus(status), stations))
    }

    /// What the spanning tree lets a port do, if it is in one; nothing is told if that is no news.
    pub fn set_tree(&self, number: u32, tree: Option<fulmar_rstp::State>) -> Option<Event> {
        self.port(number).filter(|port| port.tree != tree)?;
        self.change_port(number, |port| port.tree = tree)
    }

    /// Forgets which stations were at a port.
    pub fn forget_port(&self, number: u32) {
        if !self.pipeline.macs.lock().forget_port(number).is_empty() {
            self.pipeline.has_changed();
        }
    }

    /// So much is remembered of stations from now on.
    pub fn set_learning(&self, learning: Learning) {
        if self.pipeline.macs.lock().set_learning(learning) {
            self.pipeline.has_changed();
        }
    }

    /// How often a station was heard at another port than before.
    pub fn station_moves(&self) -> u64 {
        self.pipeline.macs.lock().moves()
    }

    /// Stations that move as no station does, since this was asked last: ten times a second. Is there a loop of links?
    pub fn take_flapping(&self) -> Vec<Flapping> {
        self.pipeline.macs.lock().take_flapping()
    }

    /// Forgets where these stations are: they are looked for everywhere until they are heard again.
    pub fn forget(&self, stations: &[Station]) {
        if self.pipeline.macs.lock().forget_all(stations) {
            self.pipeline.has_changed();
        }
    }

    /// A port's information, if there is one of this number.
    pub fn port(&self, number: u32) -> Option<PortInfo> {
        self.pipeline.ports.read().get(&number).cloned()
    }

    /// Whether a port is the member of its bond that is in use, or is in none.
    pub fn is_in_use(&self, number: u32) -> bool {
        in_use(&self.pipeline.ports.read(), number) == Some(number)
    }

    /// All ports, by their numbers.
    pub fn ports(&self) -> Vec<(u32, PortInfo)> {
        self.pipeline.ports.read().iter().map(|(number, port)| (*number, port.clone())).collect()
    }

    /// Whether all packets are treated as an ordinary switch does, whatever flows say: these stay, and count nothing meanwhile.
    pub fn pass_flows_over(&self, passes: bool) {
        let _alone = self.pipeline.alone();
        if self.pipeline.passes_flows_over.swap(passes, Relaxed) != passes {
            self.pipeline.has_changed();
        }
    }

    /// Whether controllers get what no flow is for, as those of OpenFlow 1.0 do: told as [`Notice`](crate::Notice)s without a cookie.
    pub fn tell_misses(&self, tells: bool) {
        let _alone = self.pipeline.alone();
        if self.pipeline.tells_misses.swap(tells, Relaxed) != tells {
            self.pipeline.has_changed();
        }
    }

    /// What happens to fragments of IP packets.
    pub fn fragments(&self) -> Fragments {
        if self.pipeline.drops_fragments.load(Relaxed) { Fragments::Drop } else { Fragments::Normal }
    }

    /// From now on this happens to fragments: nothing, or they are dropped where they would be looked up in a table.
    ///
    /// # Errors
    /// They cannot be put together.
    pub fn set_fragments(&self, fragments: Fragments) -> Result<(), SwitchConfigFailed> {
        let drops = match fragments {
            Fragments::Normal => false,
            Fragments::Drop => true,
            Fragments::Reassemble => return Err(SwitchConfigFailed::BadFlags),
        };
        let _alone = self.pipeline.alone();
        if self.pipeline.drops_fragments.swap(drops, Relaxed) != drops {
            self.pipeline.has_changed();
        }
        Ok(())
    }

    /// From now on it is told how flows change ([`Event::FlowChanged`]): of those that controllers change when that is done, of those that
    /// are learned with what is told next, after a second at the latest. Answers what was to be told before, and the flows
    /// that these monitors tell of at first.
    pub fn watch(&self, monitors: &[MonitorRequest]) -> (Vec<Event>, Vec<MonitorUpdate>) {
        let _alone = self.pipeline.alone();
        self.pipeline.watch(true);
        (control::learned(&self.pipeline).collect(), monitor::there(&self.pipeline, monitors))
    }

    /// Nobody watches any more.
    pub fn stop_watching(&self) {
        let _alone = self.pipeline.alone();
        self.pipeline.watch(false);
        self.pipeline.learned.lock().clear();
    }

    /// The stations that were heard, in order: where, and how long ago.
    pub fn stations(&self, now: Time) -> Vec<(Station, u32, Duration)> {
        self.pipeline.macs.lock().list(now)
    }

    /// How many flows there are.
    pub fn flows(&self) -> usize {
        self.pipeline.tables.len()
    }

    /// What would be done with a packet, and why: line by line, as text. Nothing changes.
    pub fn trace(&self, key: &FlowKey, now: Time) -> String {
        let mut text = String::new();
        let mut rest: Option<Arc<step::Frozen>> = None;
        let mut key = key.clone();
        // As often as a packet would be looked at again.
        for _ in 0..16 {
            let (decision, consulted, lines) = Translation::trace(&self.pipeline, &key, rest.as_deref(), now);
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
            let consulted = fulmar_packet::Match::new(&key, consulted);
            text.push_str(&format!("Megaflow: {}\n", fulmar_openflow::MatchText(&consulted)));
            text.push_str(&format!("Datapath actions: {}\n", Steps(&decision.steps)));
            let Some(frozen) = again(&decision.steps) else { break };
            text.push_str(&format!("\nrecirc({:#x}):\n", frozen.number));
            key = resumed(&key, &frozen);
            rest = Some(frozen);
        }
        text
    }

    /// A flow that is there whatever controllers say, as of a switch that has none.
    ///
    /// # Errors
    /// As of [`Switch::request`].
    pub fn add_flow(&self, flow_mod: FlowMod, now: Time) -> Result<(), ErrorCode> {
        self.request(Body::FlowMod(flow_mod), now).map(drop)
    }
}

/// Where a packet, or a copy of it, is to be looked at again.
fn again(steps: &[step::Step]) -> Option<Arc<step::Frozen>> {
    steps.iter().find_map(|step| match step {
        step::Step::Recirculate(frozen) => Some(frozen.clone()),
        step::Step::Clone(steps) => again(steps),
        _ => None,
    })
}

/// A packet's key when it is looked at again: a new connection, as far as it was tracked.
fn resumed(key: &FlowKey, frozen: &step::Frozen) -> FlowKey {
    use fulmar_packet::{Field, Stage};
    const TRACKED_AND_NEW: u128 = 0x21;
    let mut resumed = frozen.rest.metadata.clone();
    for word in Stage::L2.start()..Stage::L4.end() {
        resumed.put(word, key.word(word));
    }
    resumed.set(Field::RECIRCULATION, frozen.number.into());
    resumed.set(Field::CT_STATE, TRACKED_AND_NEW);
    resumed
}
