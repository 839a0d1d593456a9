//! What a member tells of itself in figures, for Prometheus.

use fulmar_discovery::live::{Host, Standing};
use fulmar_metrics::{Figures, Kind};
use fulmar_transport::Counters;

/// A name, what it is, and which of those that are counted.
type Counted = (&'static str, &'static str, fn(&Counters) -> u64);

/// What is told of the socket.
const TRAFFIC: [Counted; 4] = [
    ("fulmar_discovery_messages_sent_total", "Messages to other members.", |counted| counted.messages_sent),
    ("fulmar_discovery_messages_received_total", "Messages from them.", |counted| counted.messages_received),
    ("fulmar_discovery_sent_bytes_total", "Bytes that were sent.", |counted| counted.bytes_sent),
    ("fulmar_discovery_received_bytes_total", "Bytes that came.", |counted| counted.bytes_received),
];

/// Adds what this member believes of all, itself included, and what its socket has carried.
pub(crate) fn add(figures: &mut Figures, host: &Host) {
    // One that is about to end says no more.
    let (Some(snapshot), Some(counted)) = (host.snapshot(), host.counters()) else { return };
    const MEMBERS: &str = "fulmar_discovery_members";
    figures.family(MEMBERS, Kind::Gauge, "Members, by what is believed of them.");
    for standing in Standing::ALL {
        let count = snapshot.members.iter().filter(|member| member.standing == standing).count();
        figures.sample(MEMBERS, &[("standing", standing.name())], count as u64);
    }
    const STABLE: &str = "fulmar_discovery_stable";
    figures.family(STABLE, Kind::Gauge, "1 while the view is stable.");
    figures.sample(STABLE, &[], u64::from(snapshot.is_stable));
    for (name, about, value) in TRAFFIC {
        figures.family(name, Kind::Counter, about);
        figures.sample(name, &[], value(&counted));
    }
}
