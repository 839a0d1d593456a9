//! Messages that take effect together or not at all: extension 230 of the Open Networking Foundation.

use crate::error::{BadRequest, Onf};
use crate::message::{Body, Message};
use crate::numbers::{flags, numbers};
use crate::wire::{Reader, Result, Wire, layout};

numbers! {
    /// What happens to a bundle.
    enum BundleCommand: u16, else Onf::BundleBadType, {
        /// It is to be begun.
        Open = 0,
        /// It is begun.
        Opened = 1,
        /// It is to be complete.
        Close = 2,
        /// It is complete.
        Closed = 3,
        /// It is to take effect.
        Commit = 4,
        /// It has taken effect.
        Committed = 5,
        /// It is to be forgotten.
        Discard = 6,
        /// It is forgotten.
        Discarded = 7,
    }
}

flags! {
    /// How a bundle takes effect.
    struct BundleFlags: u16, else Onf::BundleBadFlags, {
        /// As a whole or not at all.
        ATOMIC = 1,
        /// In its order.
        ORDERED = 2,
    }
}

layout! {
    /// Something happens to a bundle.
    struct BundleControl {
        /// Which.
        bundle: u32;
        /// What.
        command: BundleCommand;
        /// How it takes effect.
        flags: BundleFlags;
    }
}

/// Another message for a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Which bundle.
    pub bundle: u32,
    /// How it takes effect.
    pub flags: BundleFlags,
    /// The message, whose number is that of the one that brings it.
    pub message: Box<Message>,
}

impl BundleAdd {
    /// Whether a message can be in a bundle: if it changes the switch, and needs no answer.
    pub fn takes(body: &Body) -> bool {
        matches!(body, Body::FlowMod(_) | Body::GroupMod(_) | Body::PortMod(_) | Body::PacketOut(_))
    }
}

impl Wire for BundleAdd {
    fn put(&self, out: &mut Vec<u8>) {
        (self.bundle, 0u16).put(out);
        self.flags.put(out);
        self.message.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (bundle, _) = <(u32, u16)>::get(input)?;
        let flags = BundleFlags::get(input)?;
        let mut content = input.part(input.left(), Onf::BundleBadLength)?;
        // None of them holds another message, so that this goes no deeper.
        if content.clone().all().get(1).is_some_and(|kind| *kind == Body::EXPERIMENTER) {
            return Err(Onf::BundleUnsupported.into());
        }
        let mut inner = content.measured(2)?;
        let message = Message::get_whole(inner.all()).map_err(|error| match error {
            error if error == BadRequest::BadLength.into() => Onf::BundleBadLength.into(),
            error => error,
        })?;
        if !Self::takes(&message.body) {
            return Err(Onf::BundleUnsupported.into());
        }
        if !content.is_empty() {
            return Err(Onf::BadPropertyType.into());
        }
        Ok(Self { bundle, flags, message: Box::new(message) })
    }
}
