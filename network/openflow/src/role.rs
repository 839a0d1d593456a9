//! Controllers of one switch: who may change it, and who is told what (sections 6.3.4, 7.3.9 and 7.3.10).

use crate::error::RoleRequestFailed;
use crate::numbers::numbers;
use crate::wire::layout;

numbers! {
    /// A controller's role.
    enum Role: u32, else RoleRequestFailed::BadRole, {
        /// The one that it has.
        NoChange = 0,
        /// It may change the switch, as others may.
        Equal = 1,
        /// It may, and the slaves may not.
        Master = 2,
        /// It may not.
        Slave = 3,
    }
}

layout! {
    /// A controller's role, as asked for or given.
    struct RoleMessage {
        /// Which.
        role: Role [4];
        /// Which election this is from: a switch does not go back behind one.
        generation: u64;
    }
}

layout! {
    /// What a controller is told: for each message, the reasons as bits; first as master or equal, then as slave.
    struct Asynchronous {
        /// Of packets that come in.
        packet_in: [u32; 2];
        /// Of ports.
        port_status: [u32; 2];
        /// Of flows that are gone.
        flow_removed: [u32; 2];
    }
}
