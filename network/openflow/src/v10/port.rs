//! Ports and their queues (sections 5.2.1, 5.2.2, 5.3.1, 5.3.3, 5.3.4, 5.3.5 and 5.4.3).

use crate::numbers::flags;
use crate::ports::{
    self, HardwareAddress, PortConfig, PortFeatures as Later, PortState as LaterState, PortStatusReason,
};
use crate::queue::{self, QueueProperty};
use crate::switch::{self, Capabilities};
use crate::text_bytes::Text;
use crate::wire::layout;
use crate::{PortNumber, ShortPort};

layout! {
    /// A port.
    struct Port {
        number: ShortPort;
        address: HardwareAddress;
        name: Text<16>;
        config: PortConfig;
        state: PortState;
        current: PortFeatures;
        advertised: PortFeatures;
        supported: PortFeatures;
        peer: PortFeatures;
    }
}

flags! {
    struct PortState: u32, {
        LINK_DOWN = 1,
    }
}

flags! {
    /// What a port can do: up to 10 Gbit/s as in later versions, and then what these have further up.
    struct PortFeatures: u32, {
        SPEEDS = 0x7f,
        OTHERS = 0xf80,
    }
}

/// So far up.
const MOVED: u32 = 4;

impl From<Later> for PortFeatures {
    fn from(Later(bits): Later) -> Self {
        Self(bits & Self::SPEEDS.0 | bits >> MOVED & Self::OTHERS.0)
    }
}

impl From<PortFeatures> for Later {
    fn from(PortFeatures(bits): PortFeatures) -> Self {
        Self(bits & PortFeatures::SPEEDS.0 | (bits & PortFeatures::OTHERS.0) << MOVED)
    }
}

/// A number of 16 bits; none, if there is none.
fn short(port: PortNumber) -> ShortPort {
    ShortPort::try_from(port).unwrap_or(ShortPort::NONE)
}

impl From<&ports::Port> for Port {
    fn from(port: &ports::Port) -> Self {
        Self {
            number: short(port.number),
            address: port.address,
            name: port.name,
            config: port.config,
            state: PortState(port.state.0 & PortState::LINK_DOWN.0),
            current: port.current.into(),
            advertised: port.advertised.into(),
            supported: port.supported.into(),
            peer: port.peer.into(),
        }
    }
}

impl From<Port> for ports::Port {
    fn from(port: Port) -> Self {
        Self {
            number: port.number.into(),
            address: port.address,
            name: port.name,
            config: port.config,
            state: LaterState(port.state.0 & PortState::LINK_DOWN.0),
            current: port.current.into(),
            advertised: port.advertised.into(),
            supported: port.supported.into(),
            peer: port.peer.into(),
            current_speed: 0,
            max_speed: 0,
        }
    }
}

layout! {
    /// What a switch is.
    struct Features {
        datapath: u64;
        buffers: u32;
        tables: u8 [3];
        capabilities: Capabilities;
        /// The actions of which there are any, by their numbers.
        actions: u32;
        ports: Vec<Port>;
    }
}

/// What both versions can say of a switch…
const SAME: u32 = Capabilities::FLOW_STATS.0
    | Capabilities::TABLE_STATS.0
    | Capabilities::PORT_STATS.0
    | Capabilities::REASSEMBLY.0
    | Capabilities::QUEUE_STATS.0;
/// …and this one alone: it matches addresses in ARP.
const MATCHES_ARP: u32 = 128;
/// All actions of the specification.
const ACTIONS: u32 = 0xfff;
/// So many ports fit into a message. Of the others there is a question.
const MOST_PORTS: usize = (65_535 - 32) / 48;

impl From<&switch::Features> for Features {
    fn from(features: &switch::Features) -> Self {
        Self {
            datapath: features.datapath,
            buffers: features.buffers,
            tables: features.tables,
            capabilities: Capabilities(features.capabilities.0 & SAME | MATCHES_ARP),
            actions: ACTIONS,
            ports: features.ports.iter().take(MOST_PORTS).map(Port::from).collect(),
        }
    }
}

impl From<Features> for switch::Features {
    fn from(features: Features) -> Self {
        Self {
            datapath: features.datapath,
            buffers: features.buffers,
            tables: features.tables,
            auxiliary: 0,
            capabilities: Capabilities(features.capabilities.0 & SAME),
            ports: features.ports.into_iter().map(ports::Port::from).collect(),
        }
    }
}

layout! {
    struct PortStatus {
        reason: PortStatusReason [7];
        port: Port;
    }
}

impl From<&ports::PortStatus> for PortStatus {
    fn from(status: &ports::PortStatus) -> Self {
        Self { reason: status.reason, port: (&status.port).into() }
    }
}

impl From<PortStatus> for ports::PortStatus {
    fn from(status: PortStatus) -> Self {
        Self { reason: status.reason, port: status.port.into() }
    }
}

layout! {
    struct PortMod {
        port: ShortPort;
        address: HardwareAddress;
        config: PortConfig;
        mask: PortConfig;
        advertise: PortFeatures [4];
    }
}

impl From<&ports::PortMod> for PortMod {
    fn from(port_mod: &ports::PortMod) -> Self {
        let ports::PortMod { port, address, config, mask, advertise } = *port_mod;
        Self { port: short(port), address, config, mask, advertise: advertise.into() }
    }
}

impl From<PortMod> for ports::PortMod {
    fn from(port_mod: PortMod) -> Self {
        let PortMod { port, address, config, mask, advertise } = port_mod;
        Self { port: port.into(), address, config, mask, advertise: advertise.into() }
    }
}

layout! {
    struct PortFilter {
        port: ShortPort [6];
    }
}

impl From<&ports::PortFilter> for PortFilter {
    fn from(filter: &ports::PortFilter) -> Self {
        Self { port: short(filter.port) }
    }
}

impl From<PortFilter> for ports::PortFilter {
    fn from(filter: PortFilter) -> Self {
        Self { port: filter.port.into() }
    }
}

layout! {
    /// What a port has done.
    struct PortStats {
        port: ShortPort [6];
        /// In the order of later versions.
        counts: Counts;
    }
}

layout! {
    struct Counts {
        received_packets: u64;
        sent_packets: u64;
        received_bytes: u64;
        sent_bytes: u64;
        receive_dropped: u64;
        send_dropped: u64;
        receive_errors: u64;
        send_errors: u64;
        frame_errors: u64;
        overruns: u64;
        crc_errors: u64;
        collisions: u64;
    }
}

/// The counts of one as those of another.
macro_rules! same_counts {
    ($from:expr, $($into:ident)::+ { $($rest:tt)* }) => {{
        let from = $from;
        $($into)::+ {
            received_packets: from.received_packets,
            sent_packets: from.sent_packets,
            received_bytes: from.received_bytes,
            sent_bytes: from.sent_bytes,
            receive_dropped: from.receive_dropped,
            send_dropped: from.send_dropped,
            receive_errors: from.receive_errors,
            send_errors: from.send_errors,
            frame_errors: from.frame_errors,
            overruns: from.overruns,
            crc_errors: from.crc_errors,
            collisions: from.collisions,
            $($rest)*
        }
    }};
}

impl From<&ports::PortStats> for PortStats {
    fn from(stats: &ports::PortStats) -> Self {
        Self { port: short(stats.port), counts: same_counts!(stats, Counts {}) }
    }
}

impl From<PortStats> for ports::PortStats {
    fn from(PortStats { port, counts }: PortStats) -> Self {
        let port = port.into();
        same_counts!(counts, ports::PortStats { port, seconds: 0, nanoseconds: 0 })
    }
}

layout! {
    /// Which queues are asked for.
    struct QueueFilter {
        port: ShortPort [2];
        queue: u32;
    }
}

/// All ports, where later versions have any.
const ALL: ShortPort = ShortPort(0xfffc);

impl From<&queue::QueueFilter> for QueueFilter {
    fn from(filter: &queue::QueueFilter) -> Self {
        let port = if filter.port == PortNumber::ANY { ALL } else { short(filter.port) };
        Self { port, queue: filter.queue }
    }
}

impl From<QueueFilter> for queue::QueueFilter {
    fn from(filter: QueueFilter) -> Self {
        let port = if filter.port == ALL { PortNumber::ANY } else { filter.port.into() };
        Self { port, queue: filter.queue }
    }
}

layout! {
    /// What a queue has done.
    struct QueueStats {
        port: ShortPort [2];
        queue: u32;
        bytes: u64;
        packets: u64;
        errors: u64;
    }
}

impl From<&queue::QueueStats> for QueueStats {
    fn from(stats: &queue::QueueStats) -> Self {
        let queue::QueueStats { port, queue, bytes, packets, errors, .. } = *stats;
        Self { port: short(port), queue, bytes, packets, errors }
    }
}

impl From<QueueStats> for queue::QueueStats {
    fn from(stats: QueueStats) -> Self {
        let QueueStats { port, queue, bytes, packets, errors } = stats;
        Self { port: port.into(), queue, bytes, packets, errors, seconds: 0, nanoseconds: 0 }
    }
}

layout! {
    struct QueueConfigRequest {
        port: ShortPort [2];
    }
}

impl From<&queue::QueueConfigRequest> for QueueConfigRequest {
    fn from(asked: &queue::QueueConfigRequest) -> Self {
        Self { port: short(asked.port) }
    }
}

impl From<QueueConfigRequest> for queue::QueueConfigRequest {
    fn from(asked: QueueConfigRequest) -> Self {
        Self { port: asked.port.into() }
    }
}

layout! {
    struct QueueConfig {
        port: ShortPort [6];
        queues: Vec<Queue>;
    }
}

layout! {
    measured at 4 struct Queue {
        queue: u32 [4];
        properties: Vec<QueueProperty>;
    }
}

impl From<&queue::QueueConfig> for QueueConfig {
    fn from(config: &queue::QueueConfig) -> Self {
        let queue = |queue: &queue::Queue| Queue { queue: queue.queue, properties: queue.properties.clone() };
        Self { port: short(config.port), queues: config.queues.iter().map(queue).collect() }
    }
}

impl From<QueueConfig> for queue::QueueConfig {
    fn from(QueueConfig { port, queues }: QueueConfig) -> Self {
        let port = port.into();
        let queue = |Queue { queue, properties }| queue::Queue { queue, port, properties };
        Self { port, queues: queues.into_iter().map(queue).collect() }
    }
}
