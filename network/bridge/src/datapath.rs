//! The threads that move packets: each takes them from ports of its own, has them decided about, and gives them to any port.
//!
//! The frames of a connection are forwarded by one thread, so that they keep their order: a port gives all its frames to one thread, or each of its
//! *lanes* gives all frames of some connections to a thread of its own.

mod affinity;
mod exits;
mod links;
mod thread;

use crate::at_once;
use crate::clock::Clock;
use affinity::Affinity;
use exits::Exit;
use fulmar_node::Time;
use fulmar_openflow::Action;
use fulmar_port::vxlan::{Arrivals, Departures};
use fulmar_port::{Link, Port};
use fulmar_vswitch::{Forwarder, Notice, Policer, PortCounters};
pub(crate) use links::{Interfaces, Links};
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;
use thread::Entrance;

/// Hears what threads have to tell.
pub(crate) trait Listener: Send + Sync + 'static {
    /// A packet for a controller.
    fn packet(&self, notice: &Notice, frame: &[u8]);
    /// How a port's link is; nothing, if its interface is gone.
    fn link(&self, port: u32, link: Option<Link>);
    /// A message of the spanning tree that came in at a port.
    fn tree(&self, port: u32, frame: &[u8]);
}

/// A look at what a thread remembers.
type Look = Box<dyn FnOnce(&mut Forwarder, Time) + Send>;

/// What a thread is to do between packets.
enum Order {
    /// Frames of a port come in here.
    Receive(Entrance),
    /// What comes in at a port is policed so, or not.
    Police(u32, Option<Arc<Policer>>),
    /// Frames of a port go out there.
    SendBy(u32, Exit, Arc<PortCounters>),
    /// There are no ports of these numbers any more, or none at all. What the thread had of them is sent back, as closing takes its time.
    Detach(Option<Arc<[u32]>>, Sender<Detached>),
    /// Frames of tunnels of a UDP port come in here.
    Arrive(Box<Arrivals>),
    /// They go out here.
    Depart(Box<Departures>),
    /// There are none of this UDP port any more.
    Leave(u16),
    /// The end of a tunnel of a UDP port.
    AttachTunnel(u32, u16, Arc<PortCounters>),
    /// A packet that came in there, or nowhere, and what is done with it.
    Send(u32, Vec<Action>, Vec<u8>),
    /// A frame of the spanning tree, which leaves by a port whatever its state.
    Emit(u32, Vec<u8>),
    Look(Look),
    Stop,
}

/// What a thread had of ports that have left.
type Detached = (Vec<Entrance>, Vec<Exit>);

/// So many bytes of packets that controllers send wait at most…
const MOST_WAITING: usize = 1 << 20;
/// …and for so long somebody waits for room for one more, which is dropped then.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a thread is to do, in its order.
#[derive(Default)]
struct Orders {
    list: Vec<Order>,
    /// Of packets in it.
    bytes: usize,
    /// The thread has ended: nobody waits for what it would have done.
    are_over: bool,
}

/// What others have in common with a thread.
pub(crate) struct Mailbox {
    orders: Mutex<Orders>,
    has_room: Condvar,
    has_orders: AtomicBool,
    waker: OwnedFd,
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            orders: Mutex::default(),
            has_room: Condvar::new(),
            has_orders: AtomicBool::new(false),
            waker,
        })
    }

    fn order(&self, order: Order) {
        self.put(&mut self.orders.lock(), order);
    }

    fn put(&self, orders: &mut Orders, order: Order) {
        if orders.are_over {
            return;
        }
        orders.list.push(order);
        self.has_orders.store(true, SeqCst);
        // If it cannot be written to, it is readable.
        let _ = rustix::io::write(&self.waker, &[0, 0, 0, 0, 0, 0, 0, 1]);
    }

    /// Carries out actions on a packet, as if it had come in at a port. Who sends faster than the thread does waits for it, and what finds no
    /// room even so is dropped.
    pub(crate) fn send(&self, port: u32, actions: Vec<Action>, frame: Vec<u8>) {
        let mut orders = self.orders.lock();
        let is_full = |orders: &mut Orders| orders.bytes >= MOST_WAITING;
        if self.has_room.wait_while_for(&mut orders, is_full, PATIENCE).timed_out() {
            return;
        }
        orders.bytes += frame.len() + actions.len() * size_of::<Action>();
        self.put(&mut orders, Order::Send(port, actions, frame));
    }

    /// Has a frame of the spanning tree leave by a port.
    pub(crate) fn emit(&self, port: u32, frame: Vec<u8>) {
        self.order(Order::Emit(port, frame));
    }

    /// Nothing more is done.
    fn end(&self) {
        let mut orders = self.orders.lock();
        (orders.are_over, orders.bytes) = (true, 0);
        let left = std::mem::take(&mut orders.list);
        drop(orders);
        drop(left);
    }

    /// All that there is to do now.
    fn take(&self) -> Vec<Order> {
        self.has_orders.store(false, SeqCst);
        let mut orders = self.orders.lock();
        orders.bytes = 0;
        let list = std::mem::take(&mut orders.list);
        drop(orders);
        self.has_room.notify_all();
        list
    }
}

struct Thread {
    mailbox: Arc<Mailbox>,
    handle: JoinHandle<()>,
}

/// The threads of one switch.
pub(crate) struct Datapath {
    threads: Vec<Thread>,
    /// Which thread receives for a port of one lane.
    places: Mutex<BTreeMap<u32, usize>>,
}

impl Datapath {
    /// A thread for each of these, of which there is one at least.
    pub(crate) fn start(
        name: &str,
        forwarders: Vec<Forwarder>,
        clock: Clock,
        listener: &Arc<impl Listener>,
    ) -> io::Result<Self> {
        let mut datapath = Self { threads: Vec::new(), places: Mutex::default() };
        let busy: Arc<[AtomicBool]> = forwarders.iter().map(|_| AtomicBool::new(false)).collect();
        for (number, forwarder) in forwarders.into_iter().enumerate() {
            let mailbox = Arc::new(Mailbox::new()?);
            let work = thread::Work::new(forwarder, clock, listener.clone(), mailbox.clone());
            let name = format!("{name} packets {number}");
            let busy = busy.clone();
            let run = move || work.run(Affinity::new(number, busy));
            let handle = std::thread::Builder::new().name(name).spawn(run)?;
            datapath.threads.push(Thread { mailbox, handle });
        }
        Ok(datapath)
    }

    /// The mailbox of the thread that sends what controllers send, so that this keeps its order.
    pub(crate) fn sender(&self) -> Arc<Mailbox> {
        self.threads[0].mailbox.clone()
    }

    fn order_all(&self, mut order: impl FnMut() -> Order) {
        self.threads.iter().for_each(|thread| thread.mailbox.order(order()));
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.threads.len()).unwrap_or(NonZeroUsize::MIN)
    }

    /// A port joins, of one lane, or as many as there are threads; when this returns, frames go out there.
    pub(crate) fn attach(&self, number: u32, lanes: Vec<Port>, counters: Arc<PortCounters>) {
        let (receivers, senders): (Vec<_>, Vec<_>) = lanes.into_iter().map(Port::split).unzip();
        self.replace(number);
        for (thread, exit) in self.threads.iter().zip(Exit::for_threads(self.threads.len(), senders)) {
            thread.mailbox.order(Order::SendBy(number, exit, counters.clone()));
        }
        let first = if receivers.len() == 1 { self.place(number) } else { 0 };
        for (lane, receiver) in receivers.into_iter().enumerate() {
            let entrance = Entrance::new(number, receiver, counters.clone());
            self.threads[(first + lane) % self.threads.len()].mailbox.order(Order::Receive(entrance));
        }
        self.look(|_, _| ());
    }

    /// Whatever had this number has it no more.
    fn replace(&self, number: u32) {
        self.places.lock().remove(&number);
        let (nobody_waits, _) = std::sync::mpsc::channel();
        self.order_all(|| Order::Detach(Some([number].into()), nobody_waits.clone()));
    }

    /// The thread that has the fewest ports, and has this one, too, from now on.
    fn place(&self, number: u32) -> usize {
        let mut places = self.places.lock();
        let ports = |thread: &usize| places.values().filter(|place| *place == thread).count();
        let place = (0..self.threads.len()).min_by_key(ports).unwrap_or_default();
        places.insert(number, place);
        place
    }

    /// What comes in at a port is policed so from now on, or not; nothing happens if it is the end of a tunnel.
    pub(crate) fn police(&self, number: u32, policer: Option<Arc<Policer>>) {
        self.order_all(|| Order::Police(number, policer.clone()));
    }

    /// The end of a tunnel joins, of a UDP port that was joined.
    pub(crate) fn attach_tunnel(&self, number: u32, udp_port: u16, counters: &Arc<PortCounters>) {
        self.replace(number);
        self.order_all(|| Order::AttachTunnel(number, udp_port, counters.clone()));
        self.look(|_, _| ());
    }

    /// Tunnels of a UDP port, of which frames come in here.
    pub(crate) fn join(&self, arrivals: Arrivals, mut departures: impl FnMut() -> Departures) {
        self.order_all(|| Order::Depart(Box::new(departures())));
        // Which thread it is does not matter, as long as it is one.
        let place = usize::from(arrivals.udp_port()) % self.threads.len();
        self.threads[place].mailbox.order(Order::Arrive(Box::new(arrivals)));
    }

    /// There are none of this UDP port any more.
    pub(crate) fn leave(&self, udp_port: u16) {
        self.order_all(|| Order::Leave(udp_port));
    }

    /// Ports leave, and are closed when this returns.
    pub(crate) fn detach(&self, numbers: &[u32]) {
        self.places.lock().retain(|number, _| !numbers.contains(number));
        self.close(Some(numbers.into()));
    }

    /// Closes ports, or all that there are, beside the threads and many at once.
    fn close(&self, numbers: Option<Arc<[u32]>>) {
        let (sender, detached) = std::sync::mpsc::channel();
        self.order_all(|| Order::Detach(numbers.clone(), sender.clone()));
        drop(sender);
        let (entrances, exits): (Vec<_>, Vec<_>) = detached.iter().unzip();
        let entrances = entrances.into_iter().flatten().map(|entrance| Box::new(entrance) as Box<dyn Send>);
        let exits = exits.into_iter().flatten().map(|exit| Box::new(exit) as Box<dyn Send>);
        at_once::for_each(entrances.chain(exits).collect(), drop);
    }

    /// Looks at what each thread remembers, between two batches of packets. Nothing of threads that have ended.
    pub(crate) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Forwarder, Time) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.order_all(|| {
            let (sender, look) = (sender.clone(), look.clone());
            Order::Look(Box::new(move |forwarder, now| {
                // Who asked may have ended.
                let _ = sender.send(look(forwarder, now));
            }))
        });
        drop(sender);
        receiver.iter().collect()
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        self.close(None);
        self.order_all(|| Order::Stop);
        for thread in self.threads.drain(..) {
            // A panic there has been told already.
            let _ = thread.handle.join();
        }
    }
}
