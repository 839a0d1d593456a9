//! Packets for controllers.

use crate::WHOLE_PACKET;
use crate::error::BadAction;
use crate::packet_in::PacketInReason;
use crate::property::{get_property, put_property};
use crate::wire::{Reader, Result, Wire, layout, put_zeros};

layout! {
    /// Send the packet to one controller of several.
    struct ControllerAction {
        /// So many bytes of it at most.
        max_length: u16;
        /// The number that the controller has given itself.
        controller: u16;
        /// The reason that it is told.
        reason: PacketInReason [1];
    }
}

/// Send the packet to a controller, with more to tell, and perhaps to be resumed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausableController {
    /// So many bytes of it at most.
    pub max_length: u16,
    /// The number that the controller has given itself.
    pub controller: u16,
    /// The reason that it is told.
    pub reason: PacketInReason,
    /// What it is told besides.
    pub user_data: Vec<u8>,
    /// Whether the packet waits here until it resumes it.
    pub pauses: bool,
    /// The meter that bounds how many packets it gets.
    pub meter: Option<u32>,
}

impl Default for PausableController {
    fn default() -> Self {
        Self {
            max_length: WHOLE_PACKET,
            controller: 0,
            reason: PacketInReason::Action,
            user_data: Vec::new(),
            pauses: false,
            meter: None,
        }
    }
}

const MAX_LENGTH: u16 = 0;
const CONTROLLER: u16 = 1;
const REASON: u16 = 2;
const USER_DATA: u16 = 3;
const PAUSE: u16 = 4;
const METER: u16 = 5;

impl Wire for PausableController {
    fn put(&self, out: &mut Vec<u8>) {
        let default = Self::default();
        put_zeros(out, 6);
        if self.max_length != default.max_length {
            put_property(out, MAX_LENGTH, |out| (self.max_length, 0u16).put(out));
        }
        if self.controller != default.controller {
            put_property(out, CONTROLLER, |out| (self.controller, 0u16).put(out));
        }
        if self.reason != default.reason {
            put_property(out, REASON, |out| (self.reason, [0u8; 3]).put(out));
        }
        if !self.user_data.is_empty() {
            put_property(out, USER_DATA, |out| self.user_data.put(out));
        }
        if self.pauses {
            put_property(out, PAUSE, |_| {});
        }
        if let Some(meter) = self.meter {
            put_property(out, METER, |out| meter.put(out));
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut action = Self::default();
        input.skip(6)?;
        while !input.is_empty() {
            let (kind, mut content) = get_property(input)?;
            match kind {
                MAX_LENGTH => action.max_length = u16::get(&mut content)?,
                CONTROLLER => action.controller = u16::get(&mut content)?,
                REASON => action.reason = PacketInReason::get(&mut content)?,
                USER_DATA => action.user_data = Vec::get(&mut content)?,
                PAUSE => action.pauses = true,
                METER => action.meter = Some(u32::get(&mut content)?),
                _ => return Err(BadAction::BadArgument.into()),
            }
        }
        Ok(action)
    }
}
