//! A barrier's answer means that the very next packet is treated as was asked.

use crate::client::Client;
use crate::network::Network;
use crate::served::{Served, bridge};
use fulmar_port::{Offload, Port, packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// A packet of the one flow; only its content says which it is.
fn packet(number: u64) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Says what a packet of [`packet`] has in it.
fn number_of(frame: &[u8]) -> Option<u64> {
    (frame.get(12..14)? == [0x88, 0xb5]).then_some(())?;
    frame.get(14..22)?.try_into().ok().map(u64::from_be_bytes)
}

/// The content of packets that keep caches warm.
const WARM: u64 = u64::MAX;
/// So many of those are under way.
const WINDOW: u64 = 64;

#[test]
fn the_next_packet_after_a_barrier_is_treated_as_asked() {
    // As many as `FULMAR_ROUNDS` says in a long run.
    let tries = std::env::var("FULMAR_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10_000);
    let network = Network::new("barrier", 3);
    let controller = network.switch.within(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let target = format!("tcp:{}", controller.local_addr().expect("bound"));
    let mut wanted = bridge(3);
    wanted.controllers.push(target);
    let served = Served::new(network, vec![wanted]);
    let (stream, _) = controller.accept().expect("it calls");
    stream.set_nodelay(true).expect("it can");
    let mut client = Client::greet(stream);

    // Before the first packet, so that none is lost.
    client.add_flow("in_port=1 actions=output:2");
    let open = |host| served.network.host(host).within(|| packet::open("eth0").expect("it is there"));
    let (mut sender, mut warmer) = (open(1), open(1));
    let mut receivers = [open(2), open(3)];
    let (arrived, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (arrived, stops) = (&arrived, &stops);
        scope.spawn(move || {
            let mut sent = 0;
            while !stops.load(SeqCst) {
                if sent < arrived.load(SeqCst) + WINDOW {
                    warmer.send(&packet(WARM), Offload::NONE);
                    warmer.flush();
                    sent += 1;
                }
            }
        });
        let wrong = (0..tries).filter(|number| {
            let expected = usize::from(number % 2 == 1);
            client.add_flow(&format!("in_port=1 actions=output:{}", expected + 2));
            sender.send(&packet(*number), Offload::NONE);
            sender.flush();
            arrival(&mut receivers, *number, arrived) != Some(expected)
        });
        let wrong: Vec<u64> = wrong.collect();
        stops.store(true, SeqCst);
        assert!(wrong.is_empty(), "{} of {tries} went another way: {wrong:?}", wrong.len());
    });
    let warm = arrived.load(SeqCst);
    assert!(warm > tries, "{warm} other packets");
    println!("{tries} of {tries}, with {warm} other packets");
}

/// At which of these a packet arrives. The others are counted meanwhile, of which one more must have come for each such packet: else no cache
/// has what was asked for before.
fn arrival(receivers: &mut [Port; 2], number: u64, warm: &AtomicU64) -> Option<usize> {
    // What is lost is waited for so long.
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    let mut found = None;
    loop {
        for (index, receiver) in receivers.iter_mut().enumerate() {
            let each = |frame: fulmar_port::Frame<'_>| match number_of(frame.bytes()) {
                Some(WARM) => drop(warm.fetch_add(1, SeqCst)),
                Some(arrived) if arrived == number => found = Some(index),
                _ => {}
            };
            receiver.receive(64, each).expect("it is up");
        }
        if found.is_some() && warm.load(SeqCst) > number {
            return found;
        }
        let [one, two] = &*receivers;
        let mut fds = [PollFd::new(one, PollFlags::IN), PollFd::new(two, PollFlags::IN)];
        if poll(&mut fds, Some(&patience)).expect("it polls") == 0 {
            return found;
        }
    }
}
