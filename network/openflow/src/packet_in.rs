//! Packets that switches send to controllers (section 7.4.1), in OpenFlow's form and in Nicira's.

use crate::error::{BadAction, Onf};
use crate::numbers::numbers;
use crate::oxm::{Told, put_entries};
use crate::property::{get_property, put_property};
use crate::wire::{Reader, Result, Wire, align, layout, put_zeros};

numbers! {
    /// Why a controller gets a packet.
    enum PacketInReason: u8, else BadAction::BadArgument, {
        /// No flow matches.
        NoMatch = 0,
        /// A flow says so.
        Action = 1,
        /// Its time to live is over.
        InvalidTtl = 2,
        /// The set of actions says so (of later versions, as all that follow).
        ActionSet = 3,
        /// A bucket of a group says so.
        Group = 4,
        /// A packet-out says so.
        PacketOut = 5,
    }
}

layout! {
    /// A packet for a controller.
    struct PacketIn {
        /// What the switch calls it, if it keeps it.
        buffer: u32;
        /// How long it is.
        total_length: u16;
        /// Why the controller gets it.
        reason: PacketInReason;
        /// Which table it was looked up in.
        table: u8;
        /// The cookie of the flow.
        cookie: u64;
        /// What is known of it besides.
        known: Told [2];
        /// As much of it as is sent.
        data: Vec<u8>;
    }
}

/// The same, in Nicira's first form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiciraPacketIn(pub PacketIn);

impl Wire for NiciraPacketIn {
    fn put(&self, out: &mut Vec<u8>) {
        let PacketIn { buffer, total_length, reason, table, cookie, known, data } = &self.0;
        (*buffer, *total_length).put(out);
        (*reason, *table).put(out);
        cookie.put(out);
        let mut entries = Vec::new();
        put_entries(&known.0, &mut entries);
        u16::try_from(entries.len()).unwrap_or(u16::MAX).put(out);
        put_zeros(out, 6);
        let start = out.len();
        entries.put(out);
        align(out, start);
        put_zeros(out, 2);
        data.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (buffer, total_length) = <(u32, u16)>::get(input)?;
        let (reason, table) = <(PacketInReason, u8)>::get(input)?;
        let cookie = u64::get(input)?;
        let length = usize::from(u16::get(input)?);
        input.skip(6)?;
        let before = input.left();
        let known = Told::get_bare(&mut input.part(length, input.wrong_length())?)?;
        input.align(before)?;
        input.skip(2)?;
        let data = Vec::get(input)?;
        Ok(Self(PacketIn { buffer, total_length, reason, table, cookie, known, data }))
    }
}

/// The same, in Nicira's second form; and a packet that is to be resumed, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn2 {
    /// As much of it as is sent.
    pub data: Vec<u8>,
    /// How long it is, if that is more.
    pub total_length: Option<u32>,
    /// What the switch calls it, if it keeps it.
    pub buffer: Option<u32>,
    /// Which table it was looked up in.
    pub table: u8,
    /// The cookie of the flow, if there is one.
    pub cookie: Option<u64>,
    /// Why the controller gets it.
    pub reason: PacketInReason,
    /// What is known of it besides.
    pub known: Told,
    /// What the action has to say.
    pub user_data: Vec<u8>,
    /// What the switch needs to resume it, which is its own affair.
    pub continuation: Vec<u8>,
}

const PACKET: u16 = 0;
const TOTAL_LENGTH: u16 = 1;
const BUFFER: u16 = 2;
const TABLE: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const KNOWN: u16 = 6;
const USER_DATA: u16 = 7;
const CONTINUATION: u16 = 8;

impl PacketIn2 {
    /// A packet of which nothing else is known.
    pub fn new(data: Vec<u8>, reason: PacketInReason) -> Self {
        Self {
            data,
            total_length: None,
            buffer: None,
            table: 0,
            cookie: None,
            reason,
            known: Told::default(),
            user_data: Vec::new(),
            continuation: Vec::new(),
        }
    }
}

impl Wire for PacketIn2 {
    fn put(&self, out: &mut Vec<u8>) {
        put_property(out, PACKET, |out| self.data.put(out));
        if let Some(length) = self.total_length {
            put_property(out, TOTAL_LENGTH, |out| length.put(out));
        }
        if let Some(buffer) = self.buffer {
            put_property(out, BUFFER, |out| buffer.put(out));
        }
        put_property(out, TABLE, |out| (self.table, [0u8; 3]).put(out));
        if let Some(cookie) = self.cookie {
            put_property(out, COOKIE, |out| (0u32, cookie).put(out));
        }
        put_property(out, REASON, |out| (self.reason, [0u8; 3]).put(out));
        put_property(out, KNOWN, |out| put_entries(&self.known.0, out));
        if !self.user_data.is_empty() {
            put_property(out, USER_DATA, |out| self.user_data.put(out));
        }
        if !self.continuation.is_empty() {
            put_property(out, CONTINUATION, |out| self.continuation.put(out));
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut packet = Self::new(Vec::new(), PacketInReason::NoMatch);
        while !input.is_empty() {
            let (kind, mut content) = get_property(input)?;
            match kind {
                PACKET => packet.data = Vec::get(&mut content)?,
                TOTAL_LENGTH => packet.total_length = Some(u32::get(&mut content)?),
                BUFFER => packet.buffer = Some(u32::get(&mut content)?),
                TABLE => packet.table = u8::get(&mut content)?,
                COOKIE => packet.cookie = Some(<(u32, u64)>::get(&mut content)?.1),
                REASON => packet.reason = PacketInReason::get(&mut content)?,
                KNOWN => packet.known = Told::get_bare(&mut content)?,
                USER_DATA => packet.user_data = Vec::get(&mut content)?,
                CONTINUATION => packet.continuation = Vec::get(&mut content)?,
                _ => return Err(Onf::BadPropertyType.into()),
            }
        }
        Ok(packet)
    }
}
