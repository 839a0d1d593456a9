//! Messages that are not OpenFlow's own (section 7.5.4): Nicira's, and those of the Open Networking Foundation's extensions.

use crate::bundle::{BundleAdd, BundleControl};
use crate::error::{BadRequest, RoleRequestFailed};
use crate::numbers::{choice, numbers};
use crate::packet_in::{NiciraPacketIn, PacketIn2};
use crate::role::Asynchronous;
use crate::wire::{Reader, Result, Wire, layout};
use crate::{NICIRA, ONF};

/// An experimenter and its number of a message, as one.
const fn of(experimenter: u32, number: u32) -> u64 {
    (experimenter as u64) << 32 | number as u64
}

const fn nx(number: u32) -> u64 {
    of(NICIRA, number)
}

const fn onf(number: u32) -> u64 {
    of(ONF, number)
}

choice! {
    /// A message that is not OpenFlow's own.
    enum Experimenter: u64, else BadRequest::BadExperimenterType, {
        /// The controller wants a role, without an election.
        RoleRequest(NiciraRole) = nx(10),
        /// It has this one.
        RoleReply(NiciraRole) = nx(11),
        /// In which form flows are told. In OpenFlow 1.3 there is one.
        SetFlowFormat(FlowFormat) = nx(12),
        /// Whether changes of flows say in their command which table they are for. In OpenFlow 1.3 all say it elsewhere.
        FlowModTable(FlowModTable) = nx(15),
        /// In which form the controller gets packets.
        SetPacketInFormat(PacketInFormat) = nx(16),
        /// A packet for the controller.
        PacketIn(NiciraPacketIn) = nx(17),
        /// What the controller is told.
        SetAsynchronous(Asynchronous) = nx(19),
        /// The number that the controller gives itself.
        SetController(ControllerNumber) = nx(20),
        /// A packet goes on where it was paused.
        Resume(PacketIn2) = nx(28),
        /// A packet for the controller, in the form that can hold most.
        PacketIn2(PacketIn2) = nx(30),
        /// A flow monitor is no longer needed.
        CancelMonitor(u32) = onf(1870),
        /// Flow monitors tell nothing for now, as there is too much.
        MonitorsPaused = onf(1871),
        /// They tell again.
        MonitorsResumed = onf(1872),
        /// Something happens to a bundle.
        BundleControl(BundleControl) = onf(2300),
        /// Another message for a bundle.
        BundleAdd(BundleAdd) = onf(2301),
    }
}

impl Wire for Experimenter {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
        self.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (experimenter, number) = <(u32, u32)>::get(input)?;
        if experimenter != NICIRA && experimenter != ONF {
            return Err(BadRequest::BadExperimenter.into());
        }
        Self::get_content(of(experimenter, number), input)
    }
}

layout! {
    /// Whether changes of flows say in their command which table they are for.
    struct FlowModTable {
        /// 1 if they do.
        set: u8 [7];
    }
}

layout! {
    /// The number that the controller gives itself.
    struct ControllerNumber {
        [6];
        /// Which.
        controller: u16;
    }
}

numbers! {
    /// A controller's role, in words that came before those of OpenFlow.
    enum NiciraRole: u32, else RoleRequestFailed::BadRole, {
        /// It may change the switch, as others may.
        Other = 0,
        /// It may, and the slaves may not.
        Master = 1,
        /// It may not.
        Slave = 2,
    }
}

numbers! {
    /// A form of flows.
    enum FlowFormat: u32, else BadRequest::NotPermitted, {
        /// That of OpenFlow 1.0.
        OpenFlow = 0,
        /// Nicira's.
        Nicira = 2,
    }
}

numbers! {
    /// A form of packets for controllers.
    enum PacketInFormat: u32, else BadRequest::NotPermitted, {
        /// OpenFlow's.
        OpenFlow = 0,
        /// Nicira's first.
        Nicira = 1,
        /// Nicira's second.
        Nicira2 = 2,
    }
}
