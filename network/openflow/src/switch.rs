//! What a switch is and how it is set (sections 7.3.1, 7.3.2 and 7.3.5.1).

use crate::error::SwitchConfigFailed;
use crate::numbers::{flags, numbers};
use crate::ports::Port;
use crate::text_bytes::Text;
use crate::wire::{Reader, Result, Wire, layout, put_zeros};

flags! {
    /// What a switch can do.
    struct Capabilities: u32, {
        /// Count for flows.
        FLOW_STATS = 1,
        /// Count for tables.
        TABLE_STATS = 2,
        /// Count for ports.
        PORT_STATS = 4,
        /// Count for groups.
        GROUP_STATS = 8,
        /// Put fragments together.
        REASSEMBLY = 32,
        /// Count for queues.
        QUEUE_STATS = 64,
        /// Keep ports out of use that would close a circle.
        PORT_BLOCKED = 256,
    }
}

/// What a switch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Its number, of which the last 48 bits are an Ethernet address.
    pub datapath: u64,
    /// How many packets it can keep.
    pub buffers: u32,
    /// How many tables it has.
    pub tables: u8,
    /// Which connection this is: 0 for the main one.
    pub auxiliary: u8,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its ports, which are told in OpenFlow 1.0; OpenFlow 1.3 has a question for them.
    pub ports: Vec<Port>,
}

impl Wire for Features {
    fn put(&self, out: &mut Vec<u8>) {
        self.datapath.put(out);
        self.buffers.put(out);
        (self.tables, self.auxiliary).put(out);
        put_zeros(out, 2);
        self.capabilities.put(out);
        put_zeros(out, 4);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (datapath, buffers) = <(u64, u32)>::get(input)?;
        let (tables, auxiliary) = <(u8, u8)>::get(input)?;
        input.skip(2)?;
        let capabilities = Capabilities::get(input)?;
        input.skip(4)?;
        Ok(Self { datapath, buffers, tables, auxiliary, capabilities, ports: Vec::new() })
    }
}

numbers! {
    /// What happens to fragments.
    enum Fragments: u16, else SwitchConfigFailed::BadFlags, {
        /// Nothing; they have no ports.
        Normal = 0,
        /// They are dropped.
        Drop = 1,
        /// They are put together.
        Reassemble = 2,
    }
}

layout! {
    /// How a switch is set.
    struct SwitchConfig {
        /// What happens to fragments.
        fragments: Fragments;
        /// So many bytes of a packet that no flow matches go to a controller.
        miss_length: u16;
    }
}

layout! {
    /// What people call a switch.
    struct Description {
        /// Who has made it.
        manufacturer: Text<256>;
        /// What it runs on.
        hardware: Text<256>;
        /// What runs.
        software: Text<256>;
        /// Its number.
        serial: Text<32>;
        /// Its name.
        datapath: Text<256>;
    }
}
