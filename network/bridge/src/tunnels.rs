//! Tunnels of one switch, as one of its threads for packets has them.

use fulmar_port::Frame;
use fulmar_port::vxlan::{Departures, Origin};
use fulmar_vswitch::{Encapsulation, PortCounters, Traffic};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where frames go out, by UDP ports, and which of the switch's ports are ends of tunnels there.
#[derive(Default)]
pub(crate) struct Tunnels {
    departures: Vec<Departures>,
    ports: BTreeMap<u32, End>,
}

struct End {
    udp_port: u16,
    counters: Arc<PortCounters>,
}

impl Tunnels {
    /// A UDP port is used from now on.
    pub(crate) fn join(&mut self, departures: Departures) {
        self.departures.push(departures);
    }

    /// It is no longer used.
    pub(crate) fn leave(&mut self, udp_port: u16) {
        self.departures.retain(|departures| departures.udp_port() != udp_port);
    }

    pub(crate) fn attach(&mut self, number: u32, udp_port: u16, counters: Arc<PortCounters>) {
        self.ports.insert(number, End { udp_port, counters });
    }

    pub(crate) fn detach(&mut self, number: u32) {
        self.ports.remove(&number);
    }

    pub(crate) fn has_received(&self, origin: &Origin, bytes: usize) {
        if let Some(end) = self.ports.get(&origin.port) {
            end.counters.has_received(Traffic { packets: 1, bytes: bytes as u64 });
        }
    }

    pub(crate) fn send(&mut self, step: &Encapsulation, frame: &Frame<'_>, entropy: u64) {
        let Some(end) = self.ports.get(&step.port) else { return };
        let mut all = self.departures.iter_mut();
        let Some(departures) = all.find(|departures| departures.udp_port() == end.udp_port) else { return };
        let (bytes, offload) = match step.length.and_then(|length| usize::try_from(length).ok()) {
            Some(length) if length < frame.bytes().len() => {
                (&frame.bytes()[..length], fulmar_port::Offload::NONE)
            }
            _ => (frame.bytes(), frame.offload),
        };
        departures.send(step.port, &step.outer, entropy, bytes, offload);
    }

    /// Sends what waits, and counts what has become of it.
    pub(crate) fn flush(&mut self) {
        for departures in &mut self.departures {
            for departed in departures.flush() {
                if let Some(end) = self.ports.get(&departed.port) {
                    let traffic = Traffic { packets: departed.frames, bytes: departed.bytes };
                    end.counters.have_sent(traffic, departed.went);
                }
            }
        }
    }
}
