//! The thread that moves packets: it takes them from ports, has them decided about, and gives them to other ports.

use crate::clock::Clock;
use crate::tunnels::Tunnels;
use fulmar_node::Time;
use fulmar_openflow::Action;
use fulmar_packet::FlowKey;
use fulmar_port::vxlan::{Arrivals, Departures};
use fulmar_port::{Frame, Link, Offload, Port};
use fulmar_vswitch::{Encapsulation, Forwarder, Notice, Outlet, PortCounters, Traffic};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many packets are taken from a port before the next one's turn.
const BATCH: usize = 64;
/// So often all ports are found empty before the thread sleeps: packets often come right after each other.
const SPINS: u32 = 100;
/// How long it sleeps at most: then it looks after links and idle flows.
const SLEEP: Duration = Duration::from_millis(200);
/// How often links are looked at.
const LINKS: Duration = Duration::from_millis(500);
/// Room before a packet that a controller sends.
const HEADROOM: usize = 128;

/// Hears what the thread has to tell.
pub(crate) trait Listener: Send + Sync + 'static {
    /// A packet for a controller.
    fn packet(&self, notice: &Notice, frame: &[u8]);
    /// How a port's link is; nothing, if its interface is gone.
    fn link(&self, port: u32, link: Option<Link>);
}

/// A look at what the thread remembers.
type Look = Box<dyn FnOnce(&mut Forwarder, Time) + Send>;

/// What the thread is to do between packets.
pub(crate) enum Order {
    Attach(u32, Box<Port>, Arc<PortCounters>),
    Detach(u32),
    /// Tunnels of a UDP port, of which frames come in and go out here.
    Join(Box<(Arrivals, Departures)>),
    /// There are none of this UDP port any more.
    Leave(u16),
    /// The end of a tunnel of a UDP port.
    AttachTunnel(u32, u16, Arc<PortCounters>),
    /// A packet that came in there, or nowhere, and what is done with it.
    Send(u32, Vec<Action>, Vec<u8>),
    Look(Look),
    Stop,
}

/// What others have in common with the thread.
pub(crate) struct Mailbox {
    orders: Mutex<Vec<Order>>,
    has_orders: AtomicBool,
    waker: OwnedFd,
}

impl Mailbox {
    pub(crate) fn order(&self, order: Order) {
        self.orders.lock().push(order);
        self.has_orders.store(true, SeqCst);
        // If it cannot be written to, it is readable.
        let _ = rustix::io::write(&self.waker, &[0, 0, 0, 0, 0, 0, 0, 1]);
    }
}

/// The thread, for others.
pub(crate) struct Datapath {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

impl Datapath {
    pub(crate) fn start(
        name: &str,
        forwarder: Forwarder,
        clock: Clock,
        listener: Arc<dyn Listener>,
    ) -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let mailbox =
            Arc::new(Mailbox { orders: Mutex::default(), has_orders: AtomicBool::new(false), waker });
        let loop_ = Loop {
            forwarder,
            clock,
            listener,
            mailbox: mailbox.clone(),
            slots: Vec::new(),
            places: HashMap::default(),
            hairpin: Vec::new(),
            arrivals: Vec::new(),
            tunnels: Tunnels::default(),
            next_links: Time::ZERO,
        };
        let thread = std::thread::Builder::new().name(format!("{name} packets")).spawn(|| loop_.run())?;
        Ok(Self { mailbox, thread: Some(thread) })
    }

    pub(crate) fn order(&self, order: Order) {
        self.mailbox.order(order);
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Looks at what the thread remembers, between two batches of packets. Nothing, if it has ended.
    pub(crate) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Forwarder, Time) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.order(Order::Look(Box::new(move |forwarder, now| {
            // Who asked may have ended.
            let _ = sender.send(look(forwarder, now));
        })));
        receiver.recv().ok()
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there has been told already.
            let _ = thread.join();
        }
    }
}

/// A port in its place. It is out of it while its packets are forwarded.
struct Slot {
    number: u32,
    port: Option<Box<Port>>,
    counters: Arc<PortCounters>,
    /// Frames wait to be sent.
    is_dirty: bool,
}

struct Loop {
    forwarder: Forwarder,
    clock: Clock,
    listener: Arc<dyn Listener>,
    mailbox: Arc<Mailbox>,
    slots: Vec<Slot>,
    /// By a port's number, where its slot is.
    places: HashMap<u32, usize, foldhash::fast::RandomState>,
    /// Frames for the port whose packets are being forwarded.
    hairpin: Vec<(Vec<u8>, Offload)>,
    arrivals: Vec<Arrivals>,
    tunnels: Tunnels,
    next_links: Time,
}

/// Where frames of one turn go.
struct Outgoing<'a> {
    slots: &'a mut [Slot],
    places: &'a HashMap<u32, usize, foldhash::fast::RandomState>,
    hairpin: &'a mut Vec<(Vec<u8>, Offload)>,
    tunnels: &'a mut Tunnels,
    listener: &'a dyn Listener,
}

impl Outgoing<'_> {
    fn put(&mut self, port: u32, bytes: &[u8], offload: Offload) {
        let Some(slot) = self.places.get(&port).and_then(|place| self.slots.get_mut(*place)) else { return };
        slot.counters.has_sent(bytes.len(), true);
        match &mut slot.port {
            Some(port) => {
                port.send(bytes, offload);
                slot.is_dirty = true;
            }
            None => self.hairpin.push((bytes.to_vec(), offload)),
        }
    }
}

impl Outlet for Outgoing<'_> {
    fn send(&mut self, port: u32, frame: &Frame<'_>) {
        self.put(port, frame.bytes(), frame.offload);
    }

    fn send_part(&mut self, port: u32, part: &[u8]) {
        self.put(port, part, Offload::NONE);
    }

    fn encapsulate(&mut self, step: &Encapsulation, frame: &Frame<'_>, entropy: u64) {
        self.tunnels.send(step, frame, entropy);
    }

    fn tell(&mut self, notice: &Notice, frame: &[u8]) {
        self.listener.packet(notice, frame);
    }
}

impl Loop {
    fn run(mut self) {
        let mut idle = 0;
        loop {
            if self.mailbox.has_orders.load(SeqCst) && !self.obey() {
                return;
            }
            // Once for all ports: what comes in meanwhile is some microseconds older than it is.
            let now = self.clock.now();
            let moved = (0..self.slots.len()).fold(0, |moved, at| moved + self.turn(at, now));
            let moved = moved + self.take_from_tunnels(now);
            self.flush();
            self.forwarder.credit(now);
            let clock = &self.clock;
            self.forwarder.sweep(now, || clock.now());
            if now >= self.next_links {
                self.next_links = now + LINKS;
                self.look_at_links();
            }
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle > SPINS {
                self.sleep();
                idle = 0;
            }
        }
    }

    /// Carries out orders. Says whether to go on.
    fn obey(&mut self) -> bool {
        self.mailbox.has_orders.store(false, SeqCst);
        let orders = std::mem::take(&mut *self.mailbox.orders.lock());
        for order in orders {
            match order {
                Order::Attach(number, port, counters) => {
                    self.detach(number);
                    self.slots.push(Slot { number, port: Some(port), counters, is_dirty: false });
                    self.next_links = Time::ZERO;
                }
                Order::Detach(number) => self.detach(number),
                Order::Join(both) => {
                    let (arrivals, departures) = *both;
                    self.arrivals.push(arrivals);
                    self.tunnels.join(departures);
                }
                Order::Leave(udp_port) => {
                    self.arrivals.retain(|arrivals| arrivals.udp_port() != udp_port);
                    self.tunnels.leave(udp_port);
                }
                Order::AttachTunnel(number, udp_port, counters) => {
                    self.detach(number);
                    self.tunnels.attach(number, udp_port, counters);
                    self.next_links = Time::ZERO;
                }
                Order::Send(port, actions, mut frame) => self.send(port, &actions, &mut frame),
                Order::Look(look) => {
                    let now = self.clock.now();
                    look(&mut self.forwarder, now);
                }
                Order::Stop => return false,
            }
            let places = self.slots.iter().enumerate().map(|(place, slot)| (slot.number, place));
            self.places = places.collect();
        }
        true
    }

    fn detach(&mut self, number: u32) {
        self.slots.retain(|slot| slot.number != number);
        self.tunnels.detach(number);
    }

    fn send(&mut self, port: u32, actions: &[Action], frame: &mut Vec<u8>) {
        frame.splice(0..0, [0; HEADROOM]);
        let Self { forwarder, clock, listener, slots, places, hairpin, tunnels, .. } = self;
        let mut out = Outgoing { slots, places, hairpin, tunnels, listener: &**listener };
        forwarder.carry_out(clock.now(), port, actions, Frame::new(frame, HEADROOM, Offload::NONE), &mut out);
    }

    /// Forwards packets of one port; how many there were.
    fn turn(&mut self, at: usize, now: Time) -> usize {
        let Self { forwarder, listener, slots, places, hairpin, tunnels, .. } = self;
        let number = slots[at].number;
        let Some(mut port) = slots[at].port.take() else { return 0 };
        let mut received = Traffic::default();
        let mut out = Outgoing { slots, places, hairpin, tunnels, listener: &**listener };
        // What is wrong with a link is told when links are looked at.
        let moved = port.receive(BATCH, |frame| {
            received.packets += 1;
            received.bytes += frame.bytes().len() as u64;
            forwarder.forward(now, number, &FlowKey::EMPTY, frame, &mut out);
        });
        let slot = &mut slots[at];
        if received.packets > 0 {
            slot.counters.has_received(received);
        }
        for (bytes, offload) in hairpin.drain(..) {
            port.send(&bytes, offload);
            slot.is_dirty = true;
        }
        slot.port = Some(port);
        moved.unwrap_or(0)
    }

    /// Forwards packets that came by tunnels; how many there were.
    fn take_from_tunnels(&mut self, now: Time) -> usize {
        let Self { forwarder, listener, slots, places, hairpin, arrivals, tunnels, .. } = self;
        let mut moved = 0;
        for arrivals in arrivals {
            moved += arrivals.receive(BATCH, |origin, frame| {
                tunnels.has_received(origin, frame.bytes().len());
                let known = fulmar_vswitch::tunnelled(origin.network, origin.remote, origin.local);
                let mut out = Outgoing { slots, places, hairpin, tunnels, listener: &**listener };
                forwarder.forward(now, origin.port, &known, frame, &mut out);
            });
        }
        moved
    }

    fn flush(&mut self) {
        self.tunnels.flush();
        for slot in self.slots.iter_mut().filter(|slot| slot.is_dirty) {
            slot.is_dirty = false;
            if let Some(port) = &mut slot.port {
                port.flush();
            }
        }
    }

    fn look_at_links(&self) {
        for slot in &self.slots {
            if let Some(port) = &slot.port {
                self.listener.link(slot.number, port.link().ok());
            }
        }
        for number in self.tunnels.numbers() {
            self.listener.link(number, Some(tunnel_link(number)));
        }
    }

    fn sleep(&self) {
        let mut fds = vec![PollFd::new(&self.mailbox.waker, PollFlags::IN)];
        let ports = self.slots.iter().filter_map(|slot| slot.port.as_deref());
        fds.extend(ports.map(|port| PollFd::new(port, PollFlags::IN)));
        let tunnels = self.arrivals.iter().flat_map(Arrivals::sources);
        fds.extend(tunnels.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
        // Interrupted or not, what there is to do is found by looking.
        let _ = poll(&mut fds, Some(&timeout));
        let _ = rustix::io::read(&self.mailbox.waker, &mut [0; 8]);
    }
}

/// A tunnel is always up, and has an address of its own: no interface is behind it.
fn tunnel_link(number: u32) -> Link {
    let [a, b, c, d] = number.to_be_bytes();
    Link { is_up: true, is_running: true, address: [2, 0x7a, a, b, c, d], ..Link::default() }
}
