//! Flow monitors: a controller is told how flows change (Nicira's extension, under the number of the Open Networking Foundation that it
//! has in OpenFlow 1.3).

use crate::error::Nicira;
use crate::flow::FlowRemovedReason;
use crate::numbers::flags;
use crate::wire::{Reader, Result, Wire, layout, put_length};
use crate::{Instructions, PortNumber};
use fulmar_packet::Match;

flags! {
    /// What a monitor tells.
    struct MonitorFlags: u16, else Nicira::BadMonitorFlags, {
        /// The flows that are there.
        INITIAL = 1,
        /// Flows that are added.
        ADD = 2,
        /// Flows that are removed.
        DELETE = 4,
        /// Flows that change.
        MODIFY = 8,
        /// And what they do.
        ACTIONS = 16,
        /// The controller's own changes, too.
        OWN = 32,
    }
}

/// What a monitor tells, and of which flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    /// The number that the controller gives it.
    pub monitor: u32,
    /// What it tells.
    pub flags: MonitorFlags,
    /// Of flows that send to this port…
    pub out_port: PortNumber,
    /// …in this table, or in all…
    pub table: u8,
    /// …and whose matches are within this.
    pub asked: Match,
}

impl Wire for MonitorRequest {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        (self.monitor, self.flags).put(out);
        (0u16, self.out_port).put(out);
        (self.table, [0u8; 3]).put(out);
        self.asked.put(out);
        repeat_match_length(out, start + 16, start + 6);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (monitor, flags) = <(u32, MonitorFlags)>::get(input)?;
        input.skip(2)?;
        let (out_port, table) = <(PortNumber, u8)>::get(input)?;
        input.skip(3)?;
        let changes = MonitorFlags::ADD | MonitorFlags::DELETE | MonitorFlags::MODIFY;
        if flags.0 & changes.0 == 0 {
            return Err(Nicira::BadMonitorFlags.into());
        }
        Ok(Self { monitor, flags, out_port, table, asked: Match::get(input)? })
    }
}

/// Writes the length of a match that begins at `start` to where it is told once more.
fn repeat_match_length(out: &mut [u8], start: usize, at: usize) {
    let length = [out[start + 2], out[start + 3]];
    out[at..at + 2].copy_from_slice(&length);
}

/// Something happened to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorUpdate {
    /// It was added, or was there.
    Added(MonitoredFlow),
    /// It was removed.
    Deleted(FlowRemovedReason, MonitoredFlow),
    /// It has changed.
    Modified(MonitoredFlow),
    /// What the message of this number asked for was done: the controller's own change.
    Own(u32),
}

layout! {
    /// What a monitor tells of a flow.
    struct MonitoredFlow {
        /// Its priority.
        priority: u16;
        /// Its idle time-out.
        idle_timeout: u16;
        /// Its hard time-out.
        hard_timeout: u16 [2];
        /// In which table it is.
        table: u8 [1];
        /// Its cookie.
        cookie: u64;
        /// What it matches.
        asked: Match;
        /// What it does, if that is told.
        instructions: Instructions;
    }
}

const ADDED: u16 = 0;
const DELETED: u16 = 1;
const MODIFIED: u16 = 2;
const OWN: u16 = 3;

impl Wire for MonitorUpdate {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        0u16.put(out);
        let flow = match self {
            Self::Added(flow) => {
                (ADDED, 0u16).put(out);
                flow
            }
            Self::Deleted(reason, flow) => {
                (DELETED, 0u8).put(out);
                reason.put(out);
                flow
            }
            Self::Modified(flow) => {
                (MODIFIED, 0u16).put(out);
                flow
            }
            Self::Own(xid) => {
                (OWN, *xid).put(out);
                return put_length(out, start, 0);
            }
        };
        flow.put(out);
        put_length(out, start, 0);
        repeat_match_length(out, start + 24, start + 12);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut content = input.measured(0)?;
        let (_, event) = <(u16, u16)>::get(&mut content)?;
        if event == OWN {
            let xid = u32::get(&mut content)?;
            content.end()?;
            return Ok(Self::Own(xid));
        }
        content.skip(1)?;
        let mut reason = content.part(1, content.wrong_length())?;
        let flow = MonitoredFlow::get(&mut content)?;
        match event {
            ADDED => Ok(Self::Added(flow)),
            DELETED => Ok(Self::Deleted(FlowRemovedReason::get(&mut reason)?, flow)),
            MODIFIED => Ok(Self::Modified(flow)),
            _ => Err(Nicira::BadEvent.into()),
        }
    }
}
