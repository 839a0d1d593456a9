//! Flows: how they are changed, what is known of them, and that they are gone (sections 7.3.4.1, 7.3.5.2 and 7.4.2).

use crate::action::check_instructions;
use crate::error::{BadInstruction, BadRequest, FlowModFailed};
use crate::numbers::{flags, numbers};
use crate::wire::{Result, layout};
use crate::{ALL_TABLES, GroupNumber, Instruction, Instructions, NO_BUFFER, PortNumber};
use fulmar_packet::Match;

numbers! {
    /// What happens to flows.
    enum FlowCommand: u8, else FlowModFailed::BadCommand, {
        /// One is added.
        Add = 0,
        /// All that match get other instructions.
        Modify = 1,
        /// The one of this match and priority gets other instructions.
        ModifyStrict = 2,
        /// All that match are removed.
        Delete = 3,
        /// The one of this match and priority is removed.
        DeleteStrict = 4,
        /// All that match get other instructions and this cookie; if there are none, one is added. OpenFlow 1.0 calls this a change:
        /// messages of OpenFlow 1.3 cannot have this number, nor the next.
        ModifyOrAdd = 0x81,
        /// The same with the one of this match and priority.
        ModifyOrAddStrict = 0x82,
    }
}

flags! {
    /// How a flow is kept.
    struct FlowFlags: u16, else FlowModFailed::BadFlags, {
        /// The controllers are told when it is removed.
        SEND_REMOVED = 1,
        /// It is not added if it overlaps with another of its priority.
        CHECK_OVERLAP = 2,
        /// Its counts begin anew.
        RESET_COUNTS = 4,
        /// Its packets are not counted.
        NO_PACKET_COUNTS = 8,
        /// Its bytes are not counted.
        NO_BYTE_COUNTS = 16,
    }
}

layout! {
    /// Change flows.
    struct FlowMod, checked by check {
        /// The cookie of a new flow, and of those that change…
        cookie: u64;
        /// …as far as these bits are concerned.
        cookie_mask: u64;
        /// In which table; [`ALL_TABLES`] for deletions.
        table: u8;
        /// What happens.
        command: FlowCommand;
        /// It is removed so many seconds after its last packet, if not 0…
        idle_timeout: u16;
        /// …or so many after it was added.
        hard_timeout: u16;
        /// Its priority.
        priority: u16;
        /// The packet that it is for, if that is kept.
        buffer: u32;
        /// Only those are removed that send to this port…
        out_port: PortNumber;
        /// …and to this group.
        out_group: GroupNumber;
        /// How it is kept.
        flags: FlowFlags [2];
        /// What it matches.
        asked: Match;
        /// What it does.
        instructions: Instructions;
    }
}

impl FlowMod {
    /// The priority of flows for which none is said.
    pub const DEFAULT_PRIORITY: u16 = 0x8000;

    /// A new flow in the first table, of the default priority, that stays.
    pub fn add(asked: Match, instructions: Instructions) -> Self {
        Self {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command: FlowCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: Self::DEFAULT_PRIORITY,
            buffer: NO_BUFFER,
            out_port: PortNumber::ANY,
            out_group: GroupNumber::ANY,
            flags: FlowFlags::NONE,
            asked,
            instructions,
        }
    }

    /// What can be wrong with it in any switch: a deletion's instructions do not count.
    pub(crate) fn check(&self) -> Result<()> {
        match self.command {
            FlowCommand::Delete | FlowCommand::DeleteStrict => return Ok(()),
            FlowCommand::ModifyOrAdd | FlowCommand::ModifyOrAddStrict => {
                return Err(FlowModFailed::BadCommand.into());
            }
            _ if self.table == ALL_TABLES => return Err(FlowModFailed::BadTable.into()),
            _ => {}
        }
        for instruction in &self.instructions.0 {
            if let Instruction::GotoTable(goto) = instruction
                && (goto.table <= self.table || goto.table == ALL_TABLES)
            {
                return Err(BadInstruction::BadTable.into());
            }
        }
        check_instructions(&self.instructions.0, &self.asked)
    }
}

numbers! {
    /// Why a flow is gone.
    enum FlowRemovedReason: u8, else BadRequest::BadType, {
        /// No packet has come for too long.
        IdleTimeout = 0,
        /// Its time is over.
        HardTimeout = 1,
        /// It was deleted.
        Delete = 2,
        /// A group that it sends to was deleted.
        GroupDelete = 3,
    }
}

layout! {
    /// A flow is gone.
    struct FlowRemoved {
        /// Its cookie.
        cookie: u64;
        /// Its priority.
        priority: u16;
        /// Why.
        reason: FlowRemovedReason;
        /// In which table it was.
        table: u8;
        /// For so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
        /// Its idle time-out.
        idle_timeout: u16;
        /// Its hard time-out.
        hard_timeout: u16;
        /// So many packets have matched…
        packets: u64;
        /// …with so many bytes.
        bytes: u64;
        /// What it matched.
        asked: Match;
    }
}

layout! {
    /// Which flows are asked for.
    struct FlowFilter {
        /// Those of this table, or of [`ALL_TABLES`]…
        table: u8 [3];
        /// …that send to this port…
        out_port: PortNumber;
        /// …and this group…
        out_group: GroupNumber [4];
        /// …and have this cookie…
        cookie: u64;
        /// …as far as these bits are concerned…
        cookie_mask: u64;
        /// …and whose matches are within this.
        asked: Match;
    }
}

layout! {
    /// A flow, and what it has done.
    measured at 0 struct FlowStats {
        [2];
        /// In which table it is.
        table: u8 [1];
        /// For so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
        /// Its priority.
        priority: u16;
        /// Its idle time-out.
        idle_timeout: u16;
        /// Its hard time-out.
        hard_timeout: u16;
        /// How it is kept.
        flags: FlowFlags [4];
        /// Its cookie.
        cookie: u64;
        /// So many packets have matched…
        packets: u64;
        /// …with so many bytes.
        bytes: u64;
        /// What it matches.
        asked: Match;
        /// What it does.
        instructions: Instructions;
    }
}

layout! {
    /// What some flows have done together.
    struct AggregateStats {
        /// So many packets have matched…
        packets: u64;
        /// …with so many bytes…
        bytes: u64;
        /// …so many flows.
        flows: u32 [4];
    }
}
