//! Ports: what they are, how they change, what they have done (sections 7.2.1, 7.3.4.2, 7.3.5.6 and 7.4.3).

use crate::PortNumber;
use crate::error::BadRequest;
use crate::numbers::{flags, numbers};
use crate::text_bytes::Text;
use crate::wire::layout;

/// An Ethernet address.
pub type HardwareAddress = [u8; 6];

flags! {
    /// How a port is used.
    struct PortConfig: u32, {
        /// Not at all.
        DOWN = 1,
        /// What comes in is dropped.
        NO_RECEIVE = 4,
        /// What is flooded does not go out (of OpenFlow 1.0 alone).
        NO_FLOOD = 16,
        /// What goes out is dropped.
        NO_FORWARD = 32,
        /// What no flow matches is not sent to controllers.
        NO_PACKET_IN = 64,
    }
}

flags! {
    /// How a port is.
    struct PortState: u32, {
        /// It has no link.
        LINK_DOWN = 1,
        /// A protocol keeps it out of use.
        BLOCKED = 2,
        /// It can be chosen by fast failover.
        LIVE = 4,
    }
}

flags! {
    /// What a port can do.
    struct PortFeatures: u32, {
        /// 10 Mbit/s in one direction at a time.
        HALF_10M = 1,
        /// 10 Mbit/s.
        FULL_10M = 1 << 1,
        /// 100 Mbit/s in one direction at a time.
        HALF_100M = 1 << 2,
        /// 100 Mbit/s.
        FULL_100M = 1 << 3,
        /// 1 Gbit/s in one direction at a time.
        HALF_1G = 1 << 4,
        /// 1 Gbit/s.
        FULL_1G = 1 << 5,
        /// 10 Gbit/s.
        FULL_10G = 1 << 6,
        /// 40 Gbit/s.
        FULL_40G = 1 << 7,
        /// 100 Gbit/s.
        FULL_100G = 1 << 8,
        /// 1 Tbit/s.
        FULL_1T = 1 << 9,
        /// Another rate.
        OTHER = 1 << 10,
        /// Copper.
        COPPER = 1 << 11,
        /// Fibre.
        FIBRE = 1 << 12,
        /// It finds its rate by itself.
        NEGOTIATES = 1 << 13,
        /// It can ask for pauses.
        PAUSE = 1 << 14,
        /// In one direction.
        PAUSE_ASYMMETRIC = 1 << 15,
    }
}

layout! {
    /// A port.
    struct Port {
        /// Its number.
        number: PortNumber [4];
        /// Its address.
        address: HardwareAddress [2];
        /// Its name.
        name: Text<16>;
        /// How it is used.
        config: PortConfig;
        /// How it is.
        state: PortState;
        /// What it does…
        current: PortFeatures;
        /// …tells that it can do…
        advertised: PortFeatures;
        /// …can do…
        supported: PortFeatures;
        /// …and what the other side tells.
        peer: PortFeatures;
        /// Its rate, kilobits a second…
        current_speed: u32;
        /// …and its highest.
        max_speed: u32;
    }
}

numbers! {
    /// What happened to a port.
    enum PortStatusReason: u8, else BadRequest::BadType, {
        /// It was added.
        Add = 0,
        /// It was removed.
        Delete = 1,
        /// It has changed.
        Modify = 2,
    }
}

layout! {
    /// Something happened to a port.
    struct PortStatus {
        /// What.
        reason: PortStatusReason [7];
        /// The port.
        port: Port;
    }
}

layout! {
    /// Change how a port is used.
    struct PortMod {
        /// Which…
        port: PortNumber [4];
        /// …which has this address.
        address: HardwareAddress [2];
        /// How it is used…
        config: PortConfig;
        /// …as far as these are concerned.
        mask: PortConfig;
        /// What it is to tell that it can do; unchanged, if 0.
        advertise: PortFeatures [4];
    }
}

layout! {
    /// Which port is asked for.
    struct PortFilter {
        /// This one, or [`PortNumber::ANY`].
        port: PortNumber [4];
    }
}

layout! {
    /// What a port has done. What is not known is all ones.
    struct PortStats {
        /// Which.
        port: PortNumber [4];
        /// Packets that came in…
        received_packets: u64;
        /// …and went out.
        sent_packets: u64;
        /// Bytes that came in…
        received_bytes: u64;
        /// …and went out.
        sent_bytes: u64;
        /// Packets that came and were dropped…
        receive_dropped: u64;
        /// …and that were to go.
        send_dropped: u64;
        /// Errors of what came in…
        receive_errors: u64;
        /// …and was to go out.
        send_errors: u64;
        /// Frames that were not aligned.
        frame_errors: u64;
        /// Packets for which there was no room.
        overruns: u64;
        /// Wrong checksums.
        crc_errors: u64;
        /// Collisions.
        collisions: u64;
        /// It has been there for so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
    }
}
