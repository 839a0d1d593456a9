//! Counts how many messages a second one core simulates, and how many turns a second hosted programs take.
//!
//! `cargo run --release -p fulmar-sim --example throughput`

use fulmar_node::{NodeId, Outbox, Process, Time};
use fulmar_sim::{Delay, Sim};
use std::time::{Duration, Instant};

/// Passes each ball on to some other node, and answers a request by an event.
struct Player {
    id: u32,
    players: u32,
}

impl Process for Player {
    type Message = u64;
    type Timer = ();
    type Request = u64;
    type Event = u64;
    type Record = ();

    fn start(&mut self, _now: Time, out: &mut Outbox<Self>) {
        out.send(NodeId((self.id + 1) % self.players), u64::from(self.id));
    }

    fn receive(&mut self, now: Time, _from: NodeId, ball: u64, out: &mut Outbox<Self>) {
        let ball = ball.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        out.send(NodeId((ball >> 32) as u32 % self.players), ball);
        out.set_timer((), now + Duration::from_secs(1));
    }

    fn request(&mut self, _now: Time, request: u64, out: &mut Outbox<Self>) {
        out.event(request + 1);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is about how long simulating takes, not about what is simulated"
)]
fn main() {
    for players in [10, 1_000, 10_000, 100_000] {
        let mut sim = Sim::new(1, move |id, _: &[()]| Player { id: id.0, players });
        sim.network.link.latency =
            Delay::Tailed { median: Duration::from_micros(60), p99: Duration::from_micros(300) };
        (0..players).for_each(|id| sim.add(NodeId(id)));
        let begin = Instant::now();
        while sim.counts.received < 5_000_000 {
            sim.step(Time::MAX);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let (received, millions) = (sim.counts.received, sim.counts.received as f64 / 1e6 / seconds);
        println!("{players:>7} nodes: {received} messages at {millions:.1} million a second");
    }

    let mut sim = Sim::new(1, |id, _: &[()]| Player { id: id.0, players: 8 });
    sim.network.link.loss = 1.0;
    let calls = 20_000;
    for id in (0..8).map(NodeId) {
        sim.add(id);
        sim.host(id, move |port| {
            for number in 0..calls {
                assert_eq!(port.call(number), Ok(number + 1));
            }
        });
    }
    let begin = Instant::now();
    sim.run_until(Duration::MAX, |_, _, _| {}, |sim| sim.programs_running() == 0);
    let micros = begin.elapsed().as_secs_f64() * 1e6 / (8.0 * calls as f64);
    println!("8 programs: {micros:.1} µs a call");
}
