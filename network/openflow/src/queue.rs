//! Queues of ports (sections 7.2.2, 7.3.5.11 and 7.3.6).

use crate::PortNumber;
use crate::error::BadRequest;
use crate::numbers::choice;
use crate::wire::{Reader, Result, Wire, align, layout, put_length};

layout! {
    /// Whose queues are asked for.
    struct QueueConfigRequest {
        /// This port's.
        port: PortNumber [4];
    }
}

layout! {
    /// The queues of a port.
    struct QueueConfig {
        /// Which.
        port: PortNumber [4];
        /// Its queues.
        queues: Vec<Queue>;
    }
}

layout! {
    /// A queue.
    measured at 8 struct Queue {
        /// Its number.
        queue: u32;
        /// Its port.
        port: PortNumber [8];
        /// How it is set.
        properties: Vec<QueueProperty>;
    }
}

choice! {
    /// How a queue is set, in tenths of a percent of its port's rate; more than 1000 is none.
    enum QueueProperty: u16, else BadRequest::BadType, {
        /// At least.
        MinRate(u16) = 1,
        /// At most.
        MaxRate(u16) = 2,
    }
}

impl Wire for QueueProperty {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        (self.number(), 0u16).put(out);
        0u32.put(out);
        self.put_content(out);
        align(out, start);
        put_length(out, start, 2);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut content = input.measured(2)?;
        let number = u16::get(&mut content)?;
        content.skip(6)?;
        let property = Self::get_content(number, &mut content)?;
        content.skip(6)?;
        content.end()?;
        Ok(property)
    }
}

layout! {
    /// Which queues are asked for.
    struct QueueFilter {
        /// Of this port, or of [`PortNumber::ANY`]…
        port: PortNumber;
        /// …this one, or [`ALL_QUEUES`].
        queue: u32;
    }
}

/// All queues of a port, in requests.
pub const ALL_QUEUES: u32 = 0xffff_ffff;

layout! {
    /// What a queue has done.
    struct QueueStats {
        /// Of which port.
        port: PortNumber;
        /// Which.
        queue: u32;
        /// Bytes sent.
        bytes: u64;
        /// Packets sent.
        packets: u64;
        /// Packets for which there was no room.
        errors: u64;
        /// It has been there for so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
    }
}
