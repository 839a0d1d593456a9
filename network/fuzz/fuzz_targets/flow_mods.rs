//! Flows as text, and packets: a switch that remembers treats them as one that has just been started.
#![no_main]

use fulmar_node::Time;
use fulmar_openflow::flow::FlowMod;
use fulmar_packet::FlowKey;
use fulmar_port::{Frame, Offload};
use fulmar_vswitch::{Forwarder, Notice, Output, PortInfo, Settings, Switch};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Default, PartialEq)]
struct Sent(Vec<(u32, Vec<u8>)>, Vec<Notice>);

impl Output for Sent {
    fn send(&mut self, port: u32, frame: &Frame<'_>) {
        self.0.push((port, frame.bytes().to_vec()));
    }

    fn send_part(&mut self, port: u32, frame: &Frame<'_>, length: usize) {
        self.0.push((port, frame.bytes()[..length].to_vec()));
    }

    fn tell(&mut self, notice: &Notice, _: &[u8]) {
        self.1.push(notice.clone());
    }
}

fn forward(forwarder: &mut Forwarder, port: u32, frame: &[u8]) -> Sent {
    let mut buffer = vec![0; 64];
    buffer.extend_from_slice(frame);
    let mut sent = Sent::default();
    forwarder.forward(
        Time::ZERO,
        port,
        &FlowKey::EMPTY,
        Frame::new(&mut buffer, 64, Offload::NONE),
        &mut sent,
    );
    sent
}

// Of each line, one that begins with `P` is a packet: its port, and its bytes. Others are flows.
fuzz_target!(|input: &[u8]| {
    let switch = Switch::new(1, "tested", Settings::default());
    for number in 1..=3 {
        switch.put_port(number, PortInfo::new(&format!("p{number}"), [2, 0, 0, 0, 0, 1]), Time::ZERO);
    }
    let mut used = switch.forwarder();
    for line in input.split(|byte| *byte == b'\n') {
        if let [b'P', port, packet @ ..] = line {
            let port = u32::from(port % 3) + 1;
            let fresh = forward(&mut switch.forwarder(), port, packet);
            assert_eq!(forward(&mut used, port, packet), fresh);
            used.credit(Time::ZERO);
        } else if let Some(flow) = str::from_utf8(line).ok().and_then(|line| line.parse::<FlowMod>().ok()) {
            // What each packet changes cannot be compared.
            let text = flow.to_string();
            if !["learn", "NORMAL", "ct(", "meter"].iter().any(|word| text.contains(word)) {
                // One that is refused changes nothing.
                let _ = switch.add_flow(flow, Time::ZERO);
            }
        }
    }
});
