//! One switch as it is run.

mod shared;

use crate::clock::Clock;
use crate::datapath::{Datapath, Links};
use crate::spanning::{Spanning, SpanningPort, SpanningStatus, SpanningTree};
use fulmar_node::Time;
use fulmar_openflow::flow::{FlowCommand, FlowMod};
use fulmar_openflow::{ALL_TABLES, Body, GroupNumber, Instructions, PortNumber, Version};
use fulmar_packet::Match;
use fulmar_port::vxlan::{Claim, Claims, Dropped, Vtep};
use fulmar_port::{Link, Port};
use fulmar_session::{Sessions, Status, Target};
use fulmar_vswitch::{Forwarder, Hits, Policer, Policing, PortInfo, Shaping, Station, Switch};
use parking_lot::Mutex;
use shared::{Requests, Shared, take_over};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a switch does without controllers (`fail_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// It works as an ordinary switch.
    #[default]
    Standalone,
    /// It goes on with the flows that it has, which may be none.
    Secure,
}

/// What the threads of a switch remember together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// How often decisions were found where.
    pub hits: Hits,
    /// Megaflows.
    pub megaflows: usize,
    /// Different masks of megaflows, of the thread that has the most.
    pub masks: usize,
    /// How many megaflows there may be.
    pub most: usize,
}

/// A controller is given up after so long: three probes.
const GIVE_UP: Duration = Duration::from_secs(15);

/// A switch with its ports, its threads for packets, and its controllers' sessions.
pub struct Bridge {
    datapath: Datapath,
    links: Links,
    shared: Arc<Shared>,
    /// By UDP ports, what is claimed there, and by which ports.
    tunnels: Mutex<BTreeMap<u16, (Claims, BTreeSet<u32>)>>,
    mode: Mutex<Mode>,
}

#[derive(Default)]
struct Mode {
    fail_mode: FailMode,
    has_controllers: bool,
    has_failed_open: bool,
}

impl Bridge {
    /// Starts a switch with so many threads for packets. It has no ports and no sessions yet.
    ///
    /// # Errors
    /// If the system is out of threads or file descriptors.
    pub fn start(
        name: &str,
        switch: Switch,
        threads: NonZeroUsize,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let clock = Clock::start();
        let forwarders = switch.forwarders(threads);
        let shared = Shared::new(switch, clock);
        let datapath = Datapath::start(name, forwarders, clock, &shared)?;
        let requests = Arc::new(Requests(Arc::downgrade(&shared)));
        // All are new, so that nobody has been there before.
        let _ = shared.mailbox.set(datapath.sender());
        let _ = shared.sessions.set(Sessions::new(requests, report));
        let links = Links::start(name, shared.clone())?;
        // New, too.
        let _ = shared.interfaces.set(links.interfaces());
        Ok(Self { datapath, links, shared, tunnels: Mutex::default(), mode: Mutex::default() })
    }

    /// The switch: its flows, its ports' information.
    pub fn switch(&self) -> &Switch {
        &self.shared.switch
    }

    /// Its sessions with controllers and tools.
    pub fn sessions(&self) -> &Sessions {
        self.shared.sessions.get().unwrap_or_else(|| unreachable!("set when it was made"))
    }

    /// How many threads move packets.
    pub fn threads(&self) -> NonZeroUsize {
        self.datapath.threads()
    }

    /// A port joins, under a number and a name. What comes in is one thread's.
    pub fn attach(&self, number: u32, info: PortInfo, port: Port) {
        self.attach_lanes(number, info, vec![port]);
    }

    /// A port joins, under a number and a name, of an interface that was [opened](fulmar_port::packet::open_lanes) for as many threads as there are.
    pub fn attach_lanes(&self, number: u32, mut info: PortInfo, lanes: Vec<Port>) {
        let watch = lanes.first().map(Port::watch);
        let link = watch.as_ref().and_then(|watch| watch.link().ok());
        take_over(&mut info, link);
        let counters = info.counters.clone();
        self.shared.links.lock().insert(number, link);
        self.shared.spanning(|spanning, around| spanning.leave(number, around));
        let event = self.shared.switch.put_port(number, info, self.shared.clock.now());
        self.datapath.attach(number, lanes, counters);
        self.shared.tell(event);
        watch.into_iter().for_each(|watch| self.links.watch(number, watch));
    }

    /// The end of a tunnel joins, at a UDP port of this host, for these datagrams: what is put before frames, `info` says.
    ///
    /// # Errors
    /// If another port has claimed the same datagrams, or the process has too many open files.
    pub fn attach_tunnel(
        &self,
        number: u32,
        mut info: PortInfo,
        vtep: &Arc<Vtep>,
        claim: Claim,
    ) -> Result<(), fulmar_port::Error> {
        let udp_port = vtep.udp_port();
        let mut tunnels = self.tunnels.lock();
        let there = match tunnels.entry(udp_port) {
            Entry::Occupied(there) => {
                there.get().0.admit(claim, number)?;
                there.into_mut()
            }
            Entry::Vacant(free) => {
                let (arrivals, claims) = vtep.join()?;
                claims.admit(claim, number)?;
                self.datapath.join(arrivals, || vtep.departures());
                free.insert((claims, BTreeSet::new()))
            }
        };
        there.1.insert(number);
        take_over(&mut info, Some(tunnel_link(number)));
        let counters = info.counters.clone();
        self.shared.links.lock().insert(number, Some(tunnel_link(number)));
        self.shared.spanning(|spanning, around| spanning.leave(number, around));
        let event = self.shared.switch.put_port(number, info, self.shared.clock.now());
        self.datapath.attach_tunnel(number, udp_port, &counters);
        self.shared.tell(event);
        Ok(())
    }

    /// By UDP ports, what was dropped that came by tunnels: of all bridges that share the port.
    pub fn dropped(&self) -> Vec<(u16, Dropped)> {
        let tunnels = self.tunnels.lock();
        tunnels.iter().map(|(udp_port, (claims, _))| (*udp_port, claims.vtep().dropped())).collect()
    }

    /// Ports leave. Which stations were there: other bridges may know them where this one is.
    pub fn detach(&self, numbers: &[u32]) -> Vec<Station> {
        self.links.forget(numbers);
        self.datapath.detach(numbers);
        self.tunnels.lock().retain(|udp_port, (claims, ports)| {
            for number in numbers {
                if ports.remove(number) {
                    claims.dismiss(*number);
                }
            }
            if ports.is_empty() {
                self.datapath.leave(*udp_port);
            }
            !ports.is_empty()
        });
        // Nobody looks at a UDP port any more that was left.
        self.datapath.look(|_, _| ());
        let mut left = Vec::new();
        for number in numbers {
            self.shared.spanning(|spanning, around| spanning.leave(*number, around));
            if let Some((event, stations)) = self.shared.switch.remove_port(*number) {
                self.shared.tell(event);
                left.extend(stations);
            }
        }
        left
    }

    /// Forgets where these stations are.
    pub fn forget(&self, stations: &[Station]) {
        self.shared.switch.forget(stations);
    }

    /// Takes part in a spanning tree so from now on, with these ports, or not at all.
    pub fn set_spanning_tree(&self, wanted: Option<(&SpanningTree, &BTreeMap<u16, SpanningPort>)>) {
        self.shared.spanning(|spanning, around| spanning.set(wanted, around));
    }

    /// How it is in its spanning tree, if it is in one.
    pub fn spanning_tree(&self) -> Option<SpanningStatus> {
        self.shared.spanning.lock().status()
    }

    /// How a port's VLANs are, from now on.
    pub fn set_vlans(&self, number: u32, vlans: fulmar_vswitch::Vlans) {
        if self.shared.switch.port(number).is_some_and(|info| info.vlans != vlans) {
            self.shared.switch.change_port(number, |info| info.vlans = vlans);
        }
    }

    /// The queues that a port has from now on, or that it has none.
    pub fn shape(&self, number: u32, shaping: Option<&Shaping>) {
        self.shared.switch.shape(number, shaping, self.shared.clock.now());
    }

    /// So much may come in at a port from now on; what is held of a burst begins anew.
    pub fn police(&self, number: u32, policing: Policing) {
        let policer =
            (policing != Policing::default()).then(|| Policer::new(policing, self.shared.clock.now()));
        self.datapath.police(number, policer.map(Arc::new));
    }

    /// Sockets for `ovs-ofctl`: for requests, and for a copy of what goes to and from controllers. These versions are spoken there; if
    /// they are others than before, sessions end.
    ///
    /// # Errors
    /// If they cannot be made.
    pub fn listen(&self, requests: &Path, snoop: &Path, versions: &[Version]) -> io::Result<()> {
        // Tools are not asked whether they are there: one may show an answer page by page.
        let settings =
            fulmar_session::Settings { versions: versions.to_vec(), inactivity: None, ..Default::default() };
        let at = |path: &Path| vec![(Target::PassiveUnix(path.to_owned()), settings.clone())];
        self.sessions().set_services(at(requests))?;
        self.sessions().set_snoops(at(snoop))
    }

    /// Whether it is to have controllers from now on, and what it does without them. Where there were none, or will be none, all flows
    /// go: they were somebody else's.
    pub fn set_mode(&self, has_controllers: bool, fail_mode: FailMode) {
        let mut mode = self.mode.lock();
        let changes = has_controllers != mode.has_controllers;
        if changes || !has_controllers && fail_mode != mode.fail_mode {
            self.change(delete_all());
            if std::mem::take(&mut mode.has_failed_open) {
                self.shared.switch.pass_flows_over(false);
            }
            if !has_controllers && fail_mode == FailMode::Standalone {
                self.work_alone();
            }
        }
        (mode.has_controllers, mode.fail_mode) = (has_controllers, fail_mode);
    }

    /// These are its controllers from now on, in the [mode](Self::set_mode) that this asks for.
    ///
    /// # Errors
    /// If the system is out of threads or file descriptors.
    pub fn set_controllers(
        &self,
        controllers: Vec<(Target, fulmar_session::Settings)>,
        fail_mode: FailMode,
    ) -> io::Result<()> {
        self.set_mode(!controllers.is_empty(), fail_mode);
        self.sessions().set_controllers(controllers)
    }

    /// As an ordinary switch, where no flow says otherwise.
    pub fn work_alone(&self) {
        self.change(ordinary());
    }

    fn change(&self, flow_mod: FlowMod) {
        // Such a change cannot be refused: it needs nothing that may not be there.
        let _ = self.shared.change(None, |switch, now| switch.request(Body::FlowMod(flow_mod), now));
    }

    /// Removes what the time has made void, and sees whether there are controllers. To be called about once a second.
    pub fn tick(&self) {
        self.shared.expire();
        self.shared.spanning(Spanning::tick);
        let mut mode = self.mode.lock();
        let is_given_up = mode.has_controllers
            && mode.fail_mode == FailMode::Standalone
            && self.sessions().for_how_long_not().is_some_and(|long| long >= GIVE_UP);
        if is_given_up != mode.has_failed_open {
            mode.has_failed_open = is_given_up;
            self.shared.switch.pass_flows_over(is_given_up);
        }
    }

    /// How it is with each controller.
    pub fn status(&self) -> Vec<Status> {
        self.sessions().status()
    }

    /// How a port's link was when it was last looked at.
    pub fn link(&self, number: u32) -> Option<Link> {
        self.shared.links.lock().get(&number).copied().flatten()
    }

    /// Whether a port's interface is gone.
    pub fn is_gone(&self, number: u32) -> bool {
        self.shared.links.lock().get(&number) == Some(&None)
    }

    /// What would be done with a packet.
    pub fn trace(&self, packet: &Match) -> String {
        self.shared.switch.trace(packet.key(), self.shared.clock.now())
    }

    /// Stations, as `ovs-appctl fdb/show` lists them.
    pub fn stations(&self) -> Vec<(Station, u32, Duration)> {
        self.shared.switch.stations(self.shared.clock.now())
    }

    /// How much is remembered, and how often that was met; nothing, if the switch is ending.
    pub fn remembered(&self) -> Option<Remembered> {
        let all = self.look(|forwarder, _| (forwarder.hits(), forwarder.sizes()));
        Some(Remembered {
            hits: all.iter().map(|(hits, _)| *hits).sum(),
            megaflows: all.iter().map(|(_, (megaflows, ..))| megaflows).sum(),
            masks: all.iter().map(|(_, (_, masks, _))| *masks).max()?,
            most: all.iter().map(|(_, (.., most))| most).sum(),
        })
    }

    /// Looks at what each of the switch's threads remembers, between two batches of packets; nothing of those that have ended.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Forwarder, Time) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        self.datapath.look(look)
    }
}

/// A tunnel is always up, and has an address of its own: no interface is behind it.
fn tunnel_link(number: u32) -> Link {
    let [a, b, c, d] = number.to_be_bytes();
    Link { is_up: true, is_running: true, address: [2, 0x7a, a, b, c, d], ..Link::default() }
}

/// The flow of an ordinary switch: what no other flow is for.
fn ordinary() -> FlowMod {
    let output = fulmar_openflow::action::Output { port: PortNumber::NORMAL, max_length: 0 };
    let mut flow =
        FlowMod::add(Match::ANY, Instructions::apply(vec![fulmar_openflow::Action::Output(output)]));
    flow.priority = 0;
    flow
}

fn delete_all() -> FlowMod {
    let mut flow = FlowMod::add(Match::ANY, Instructions::default());
    flow.table = ALL_TABLES;
    flow.command = FlowCommand::Delete;
    flow.out_group = GroupNumber::ANY;
    flow
}
