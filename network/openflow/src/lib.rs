//! OpenFlow 1.3 and 1.0, and those Nicira extensions that Open vSwitch's tools use: messages as values, as bytes and as text.
//!
//! *Known as:* an OpenFlow library: OXM and NXM, the wire format, the flow syntax of `ovs-ofctl`.
//!
//! # The problem
//!
//! A controller programs a switch with messages that have grown over fifteen years. Lists stand in structures that stand in lists,
//! lengths are told at every level, what may follow depends on what came before, and each mistake has a number of its own by which it
//! is to be told. Both sides must understand each other to the bit, and a switch must withstand whatever comes.
//!
//! # The idea
//!
//! A layout is written down once, field after field as the specification has it (`layout!`), and so is each list of numbers (`numbers!`,
//! `flags!`, `choice!`). Writing, reading and the values that tests make up follow from that. Only what is no row of fields is code.
//! What is read is sound: what can be found wrong without knowing the switch is found here, and is an [`ErrorCode`] that can be sent.
//!
//! A match is a [`fulmar_packet::Match`]: which of a packet's bits are to be what. The fields that say so on the wire are one table
//! ([`OxmField`]): a name, a place in the key, what must be asked before. So classes, masks and prerequisites do not reach the tables of
//! a switch, and all that means the same is equal.
//!
//! The values are those of OpenFlow 1.3. OpenFlow 1.0 is another way to write them: a [`Dialect`].
//!
//! # The structure
//!
//! - [`Decoder`]: bytes as they come, to [`Frame`]s. [`Message`], with a [`Body`] for each type; what is wrong is a [`Rejection`].
//! - [`flow`], [`group`], [`meter`], [`ports`], [`queue`], [`table`], [`switch`], [`role`], [`packet_in`], [`packet_out`]: a family each.
//!   [`multipart`]: questions about them. [`experimenter`], [`bundle`], [`monitor`]: what is not OpenFlow's own.
//! - [`instruction`], [`action`]: what is done with packets, and [`action::check`], whether that can be done.
//! - [`MatchText`], and `Display` of actions and flows: as `ovs-ofctl dump-flows` shows them. [`parse_match`], [`parse_actions`], and
//!   [`FlowMod`](flow::FlowMod) from text: the way back, but for what spreads or samples packets.
//!
//! # Example
//!
//! ```
//! use fulmar_openflow::{Body, Decoder, Instructions, Message, PortNumber, action, flow::FlowMod};
//! use fulmar_packet::{Field, Match, ethernet};
//!
//! let asked = Match::ANY
//!     .with(Field::ETH_TYPE, ethernet::IPV4.into())
//!     .with_prefix(Field::IPV4_DESTINATION, 0x0a00_0000, 8);
//! let output = action::Output { port: PortNumber(2), max_length: 0 };
//! let flow = FlowMod::add(asked, Instructions::apply(vec![action::Action::Output(output)]));
//! let message = Message { xid: 7, body: Body::FlowMod(flow) };
//! let mut bytes = Vec::new();
//! message.encode(&mut bytes)?;
//!
//! let mut decoder = Decoder::default();
//! decoder.push(&bytes);
//! let frame = decoder.next_frame()?.expect("all of it has come");
//! let Body::FlowMod(flow) = frame.decode()?.body else { panic!("it is one") };
//! assert_eq!(flow.to_string(), "table=0, ip,nw_dst=10.0.0.0/8 actions=output:2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! No bytes make it panic, nor recurse or allocate beyond what they are long. A message that was read is written as bytes that are read
//! as the same; they need not be the same bytes, as fields are written in one order and under one name each. A wrong message spoils
//! none that come after it, unless its length cannot be.
//!
//! Not guaranteed: that a switch can do what a message asks. Whether there is such a port, table, group or buffer is for the switch to
//! say, which has [`Frame::reject`] for that. The deprecated matches of OpenFlow 1.1, provider backbone bridges, `in_phy_port` and the
//! extension headers of IPv6 are refused as unknown.

pub mod action;
pub mod bundle;
pub mod error;
pub mod experimenter;
pub mod flow;
pub mod group;
mod hello;
pub mod instruction;
mod message;
pub mod meter;
pub mod monitor;
pub mod multipart;
mod numbers;
mod oxm;
pub mod packet_in;
pub mod packet_out;
mod port;
pub mod ports;
mod property;
pub mod queue;
pub mod role;
mod stream;
pub mod switch;
pub mod table;
mod text;
mod text_bytes;
mod v10;
mod version;
mod wire;

pub use action::Action;
pub use error::ErrorCode;
pub use hello::{Hello, negotiate};
pub use instruction::{Instruction, Instructions};
pub use message::{Body, HEADER, Message, Rejection, TooLong, VERSION};
pub use oxm::{OxmField, Told, is_expressible};
pub use port::{ALL_TABLES, GroupNumber, NO_BUFFER, NoShortPort, PortNumber, ShortPort, WHOLE_PACKET};
pub use stream::{Broken, Decoder, Frame};
pub use text::{MatchText, TextError, parse_actions, parse_match};
pub use text_bytes::Text;
pub use version::{Dialect, Habits, Unwritable, Version};

/// The number of Nicira, whose extensions Open vSwitch's tools use.
pub const NICIRA: u32 = 0x0000_2320;
/// The number of the Open Networking Foundation.
pub const ONF: u32 = 0x4f4e_4600;

/// Reads bytes as a message and writes that again, in each dialect: for fuzzers, which find out whether there are bytes for which this
/// panics.
///
/// # Panics
/// If the message that is written is read as another, but for what OpenFlow 1.0 has no words for, or if it then is not always the same.
pub fn read_and_write(bytes: &[u8]) {
    let written = |dialect: Dialect, message: &Message| {
        let mut bytes = Vec::new();
        dialect.encode(message, &mut bytes).ok().map(|()| bytes)
    };
    if let Ok(message) = Message::decode(bytes)
        && let Some(again) = written(Dialect::V13, &message)
    {
        assert_eq!(Message::decode(&again), Ok(message));
    }
    for (names_tables, tells_all) in [(false, false), (false, true), (true, false), (true, true)] {
        let dialect = Dialect::V10(Habits { names_tables, tells_all });
        let Ok(message) = dialect.decode(bytes) else { continue };
        let Some(again) = written(dialect, &message) else { continue };
        let said = dialect.decode(&again);
        let Ok(said) = &said else { panic!("{said:?}: what was written is read") };
        assert_eq!(written(dialect, said).as_ref(), Some(&again));
    }
}

#[cfg(test)]
mod tests;
