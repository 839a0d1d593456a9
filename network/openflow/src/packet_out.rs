//! Packets that controllers have a switch send (section 7.3.7).

use crate::action::{Action, get_actions};
use crate::error::BadRequest;
use crate::wire::{Reader, Result, Wire, put_zeros, said_length};
use crate::{NO_BUFFER, PortNumber};

/// A packet for the switch to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Which of those that it keeps; [`NO_BUFFER`] if the packet is in here.
    pub buffer: u32,
    /// Where it is taken to have come in.
    pub port: PortNumber,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Vec<u8>,
}

impl Wire for PacketOut {
    fn put(&self, out: &mut Vec<u8>) {
        self.buffer.put(out);
        self.port.put(out);
        let at = out.len();
        put_zeros(out, 8);
        self.actions.put(out);
        let length = said_length(out.len() - at - 8);
        out[at..at + 2].copy_from_slice(&length.to_be_bytes());
        self.data.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (buffer, port) = <(u32, PortNumber)>::get(input)?;
        let length = usize::from(u16::get(input)?);
        input.skip(6)?;
        let actions = get_actions(input, length)?;
        let data: Vec<u8> = Vec::get(input)?;
        // A packet that the switch keeps is not sent to it again.
        if buffer != NO_BUFFER && !data.is_empty() {
            return Err(BadRequest::BadLength.into());
        }
        Ok(Self { buffer, port, actions, data })
    }
}
