//! What one of the threads does.

use super::affinity::Affinity;
use super::exits::Exits;
use super::{Listener, Mailbox, Order};
use crate::clock::Clock;
use crate::tunnels::Tunnels;
use fulmar_node::Time;
use fulmar_openflow::Action;
use fulmar_packet::FlowKey;
use fulmar_port::vxlan::Arrivals;
use fulmar_port::{Frame, Offload, Receiver};
use fulmar_vswitch::{Encapsulation, Forwarder, Notice, Output, Policer, PortCounters, Traffic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// So many packets are taken from a port before the next one's turn.
const BATCH: usize = 64;
/// How long it sleeps at most: then it looks after idle flows.
const SLEEP: Duration = Duration::from_millis(200);
/// How long, while frames wait for room at an interface, which does not wake it.
const SLEEP_WHEN_FULL: Duration = Duration::from_millis(1);
/// Room before a packet that a controller sends.
const HEADROOM: usize = 128;

/// Where frames of a port come in: all, or those of one of its lanes.
pub(super) struct Entrance {
    number: u32,
    receiver: Box<Receiver>,
    policer: Option<Arc<Policer>>,
    counters: Arc<PortCounters>,
}

impl Entrance {
    pub(super) fn new(number: u32, receiver: Receiver, counters: Arc<PortCounters>) -> Self {
        Self { number, receiver: Box::new(receiver), policer: None, counters }
    }
}

pub(super) struct Work<L> {
    forwarder: Forwarder,
    clock: Clock,
    listener: Arc<L>,
    mailbox: Arc<Mailbox>,
    entrances: Vec<Entrance>,
    exits: Exits,
    arrivals: Vec<Arrivals>,
    tunnels: Tunnels,
}

/// Where frames of one turn go.
struct Outgoing<'a, L> {
    exits: &'a mut Exits,
    tunnels: &'a mut Tunnels,
    listener: &'a L,
}

impl<L: Listener> Output for Outgoing<'_, L> {
    fn send(&mut self, port: u32, frame: &Frame<'_>) {
        self.exits.send(port, frame.bytes(), frame.offload, frame.trail.as_ref());
    }

    fn send_part(&mut self, port: u32, frame: &Frame<'_>, length: usize) {
        self.exits.send(port, &frame.bytes()[..length], Offload::NONE, frame.trail.as_ref());
    }

    fn encapsulate(&mut self, step: &Encapsulation, frame: &Frame<'_>, entropy: u64) {
        self.tunnels.send(step, frame, entropy);
    }

    fn tell(&mut self, notice: &Notice, frame: &[u8]) {
        self.listener.packet(notice, frame);
    }

    fn tree(&mut self, port: u32, frame: &[u8]) {
        self.listener.tree(port, frame);
    }
}

impl<L> Drop for Work<L> {
    fn drop(&mut self) {
        self.mailbox.end();
    }
}

impl<L: Listener> Work<L> {
    pub(super) fn new(forwarder: Forwarder, clock: Clock, listener: Arc<L>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            forwarder,
            clock,
            listener,
            mailbox,
            entrances: Vec::new(),
            exits: Exits::default(),
            arrivals: Vec::new(),
            tunnels: Tunnels::default(),
        }
    }

    pub(super) fn run(mut self, mut affinity: Affinity) {
        loop {
            if self.mailbox.has_orders.load(SeqCst) && !self.obey() {
                return;
            }
            // Once for all ports: what comes in meanwhile is some microseconds older than it is.
            let now = self.clock.now();
            let moved = self.take_from_ports(now) + self.take_from_tunnels(now);
            self.tunnels.flush();
            let is_sent = self.exits.flush();
            affinity.look(now, moved);
            self.forwarder.credit(now);
            let clock = &self.clock;
            self.forwarder.sweep(now, || clock.now());
            // Neither ahead of those who send, nor looking for packets in their time: then many come at once.
            if moved == 0 {
                self.sleep(if is_sent { SLEEP } else { SLEEP_WHEN_FULL });
            }
        }
    }

    /// Carries out orders. Says whether to go on.
    fn obey(&mut self) -> bool {
        for order in self.mailbox.take() {
            match order {
                Order::Receive(entrance) => self.entrances.push(entrance),
                Order::Police(number, policer) => {
                    if let Some(entrance) =
                        self.entrances.iter_mut().find(|entrance| entrance.number == number)
                    {
                        entrance.policer = policer;
                    }
                }
                Order::SendBy(number, exit, counters) => self.exits.add(number, exit, counters),
                Order::Detach(numbers, sender) => {
                    let leaves = |number| numbers.as_ref().is_none_or(|numbers| numbers.contains(&number));
                    let entrances = std::mem::take(&mut self.entrances).into_iter();
                    let (gone, stay) = entrances.partition(|entrance| leaves(entrance.number));
                    self.entrances = stay;
                    numbers
                        .iter()
                        .flat_map(|numbers| numbers.iter())
                        .for_each(|number| self.tunnels.detach(*number));
                    // Who asked may have ended: then they are closed here.
                    let _ = sender.send((gone, self.exits.remove(leaves)));
                }
                Order::Arrive(arrivals) => self.arrivals.push(*arrivals),
                Order::Depart(departures) => self.tunnels.join(*departures),
                Order::Leave(udp_port) => {
                    self.arrivals.retain(|arrivals| arrivals.udp_port() != udp_port);
                    self.tunnels.leave(udp_port);
                }
                Order::AttachTunnel(number, udp_port, counters) => {
                    self.tunnels.attach(number, udp_port, counters);
                }
                Order::Send(port, actions, mut frame) => self.send(port, &actions, &mut frame),
                Order::Emit(port, frame) => self.exits.send(port, &frame, Offload::NONE, None),
                Order::Look(look) => {
                    let now = self.clock.now();
                    look(&mut self.forwarder, now);
                }
                Order::Stop => return false,
            }
        }
        true
    }

    fn send(&mut self, port: u32, actions: &[Action], frame: &mut Vec<u8>) {
        frame.splice(0..0, [0; HEADROOM]);
        let Self { forwarder, clock, listener, exits, tunnels, .. } = self;
        let mut out = Outgoing { exits, tunnels, listener: &**listener };
        forwarder.carry_out(clock.now(), port, actions, Frame::new(frame, HEADROOM, Offload::NONE), &mut out);
    }

    /// Forwards packets that came in at ports; how many there were.
    fn take_from_ports(&mut self, now: Time) -> usize {
        let Self { forwarder, listener, entrances, exits, tunnels, .. } = self;
        let mut out = Outgoing { exits, tunnels, listener: &**listener };
        let mut moved = 0;
        for Entrance { number, receiver, policer, counters, .. } in entrances {
            let (mut received, mut refused) = (Traffic::default(), Traffic::default());
            let mut take = |frame: Frame<'_>| {
                received.packets += 1;
                received.bytes += frame.bytes().len() as u64;
                forwarder.forward(now, *number, &FlowKey::EMPTY, frame, &mut out);
            };
            let taken = match policer {
                None => receiver.receive(BATCH, take),
                Some(policer) => receiver.receive(BATCH, |frame| {
                    let bytes = frame.bytes().len();
                    if policer.admits(bytes, now) {
                        take(frame);
                    } else {
                        refused.packets += 1;
                        refused.bytes += bytes as u64;
                    }
                }),
            };
            // What is wrong with a link is told when links are looked at.
            moved += taken.unwrap_or(0);
            if received.packets > 0 {
                counters.has_received(received);
            }
            if refused.packets > 0 {
                counters.has_refused(refused);
            }
        }
        moved
    }

    /// Forwards packets that came by tunnels; how many there were.
    fn take_from_tunnels(&mut self, now: Time) -> usize {
        let Self { forwarder, listener, exits, arrivals, tunnels, .. } = self;
        let mut moved = 0;
        for arrivals in arrivals {
            moved += arrivals.receive(BATCH, |origin, frame| {
                tunnels.has_received(origin, frame.bytes().len());
                let known = fulmar_vswitch::tunnelled(origin.network, origin.remote, origin.local);
                let mut out = Outgoing { exits, tunnels, listener: &**listener };
                forwarder.forward(now, origin.port, &known, frame, &mut out);
            });
        }
        moved
    }

    fn sleep(&self, longest: Duration) {
        let mut fds = vec![PollFd::new(&self.mailbox.waker, PollFlags::IN)];
        fds.extend(self.entrances.iter().map(|entrance| PollFd::new(&*entrance.receiver, PollFlags::IN)));
        let tunnels = self.arrivals.iter().flat_map(Arrivals::sources);
        fds.extend(tunnels.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        // Interrupted or not, what there is to do is found by looking.
        let _ = poll(&mut fds, Some(&timeout));
        let _ = rustix::io::read(&self.mailbox.waker, &mut [0; 8]);
    }
}
