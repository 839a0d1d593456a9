//! Connection tracking, and translation of addresses in it.

use crate::OxmField;
use crate::action::{Action, Extension, Subfield};
use crate::error::BadAction;
use crate::numbers::flags;
use crate::wire::{Reader, Result, Wire};
use fulmar_packet::Field;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

flags! {
    /// How a connection is tracked.
    struct CtFlags: u16, else BadAction::BadArgument, {
        /// It is kept beyond this packet.
        COMMIT = 1,
        /// If it was begun from the other side, it is forgotten and begun anew.
        FORCE = 2,
    }
}

/// A set of connections that do not know those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// This one.
    Number(u16),
    /// The one whose number these 16 bits are.
    Bits(Subfield),
}

/// Have the packet's connection tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// How.
    pub flags: CtFlags,
    /// In which zone.
    pub zone: Zone,
    /// A copy of the packet goes on in this table, and its connection is known there.
    pub table: Option<u8>,
    /// The well-known port of a protocol that says in its packets which connections come, so that a gateway must read them; or 0.
    pub gateway: u16,
    /// What is done with the packet once its connection is known: translation, and what changes the connection's mark and label.
    pub actions: Vec<Action>,
}

/// In the place of a table's number: none.
const NO_TABLE: u8 = 0xff;
/// File transfer, and trivial file transfer.
const GATEWAYS: [u16; 3] = [0, 21, 69];

impl Track {
    pub(crate) fn check(&self) -> Result<()> {
        let nats: Vec<&Nat> = self.actions.iter().filter_map(as_nat).collect();
        let changes = self.actions.iter().filter(|action| changes_connection(action)).count();
        // What is not kept can only be translated as it was before.
        let is_as_before = changes == 0 && nats.iter().all(|nat| nat.flags == NatFlags::NONE);
        let is_kept = self.flags.contains(CtFlags::COMMIT);
        let is_sound = (is_kept || is_as_before && self.flags == CtFlags::NONE)
            && nats.len() <= 1
            && nats.len() + changes == self.actions.len()
            && GATEWAYS.contains(&self.gateway);
        if is_sound { Ok(()) } else { Err(BadAction::BadArgument.into()) }
    }
}

fn as_nat(action: &Action) -> Option<&Nat> {
    match action {
        Action::Extension(Extension::Nat(nat)) => Some(nat),
        _ => None,
    }
}

/// Whether an action changes what is kept of a connection, and nothing else.
fn changes_connection(action: &Action) -> bool {
    let changed = match action {
        Action::SetField(set) => set.field,
        Action::Extension(Extension::SetMasked(set)) => set.field,
        Action::Extension(Extension::LoadBits(load)) => load.destination.field(),
        Action::Extension(Extension::CopyBits(copy)) => copy.destination.field(),
        _ => return false,
    };
    matches!(changed.place(), Field::CT_MARK | Field::CT_LABEL)
}

impl Wire for Track {
    fn put(&self, out: &mut Vec<u8>) {
        self.flags.put(out);
        match self.zone {
            Zone::Number(number) => {
                0u32.put(out);
                number.put(out);
            }
            Zone::Bits(bits) => {
                bits.field().put(out);
                bits.put_place(out);
            }
        }
        self.table.unwrap_or(NO_TABLE).put(out);
        [0u8; 3].put(out);
        self.gateway.put(out);
        self.actions.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let flags = CtFlags::get(input)?;
        let mut source = input.part(4, BadAction::BadLength)?;
        let place = u16::get(input)?;
        let zone = match source.clone().all() {
            [0, 0, 0, 0] => Zone::Number(place),
            _ => Zone::Bits(Subfield::of_place(OxmField::get(&mut source)?, place)?),
        };
        if matches!(zone, Zone::Bits(bits) if bits.bits() != 16) {
            return Err(BadAction::BadSetLength.into());
        }
        let table = Some(u8::get(input)?).filter(|table| *table != NO_TABLE);
        input.skip(3)?;
        let gateway = u16::get(input)?;
        let actions = get_nested(input)?;
        let track = Self { flags, zone, table, gateway, actions };
        track.check()?;
        Ok(track)
    }
}

/// All that is left, as actions that are inside of another.
pub(super) fn get_nested(input: &mut Reader<'_>) -> Result<Vec<Action>> {
    let content = input.part(input.left(), BadAction::BadLength)?;
    Vec::get(&mut content.deeper().ok_or(BadAction::TooMany)?)
}

flags! {
    /// How addresses are translated.
    struct NatFlags: u16, else BadAction::BadArgument, {
        /// Of the source.
        SOURCE = 1,
        /// Of the destination.
        DESTINATION = 2,
        /// The same for a host after a restart.
        PERSISTENT = 4,
        /// Ports are chosen by a hash…
        HASH = 8,
        /// …or at random.
        RANDOM = 16,
    }
}

/// Addresses to choose from, all of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first…
    pub first: IpAddr,
    /// …and the last of them.
    pub last: IpAddr,
}

/// Translate addresses: to some of these, or as was done with the connection before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    /// How.
    pub flags: NatFlags,
    /// The addresses to choose from, if they change.
    pub addresses: Option<Addresses>,
    /// The first and the last of the ports to choose from, if that is said.
    pub ports: Option<(u16, u16)>,
}

/// Which parts of a range are there, in this order.
const FIRST_V4: u16 = 1;
const LAST_V4: u16 = 2;
const FIRST_V6: u16 = 4;
const LAST_V6: u16 = 8;
const FIRST_PORT: u16 = 16;
const LAST_PORT: u16 = 32;

impl Nat {
    pub(crate) fn check(&self) -> Result<()> {
        let has = |flag| self.flags.contains(flag);
        let has_side = has(NatFlags::SOURCE) != has(NatFlags::DESTINATION);
        let is_plain = self.flags == NatFlags::NONE && self.addresses.is_none() && self.ports.is_none();
        let is_range =
            |range: Addresses| range.first.is_ipv4() == range.last.is_ipv4() && range.first <= range.last;
        let is_in_order =
            self.addresses.is_none_or(is_range) && self.ports.is_none_or(|(first, last)| first <= last);
        let is_sound = is_plain || has_side && is_in_order && !has(NatFlags::HASH | NatFlags::RANDOM);
        if is_sound { Ok(()) } else { Err(BadAction::BadArgument.into()) }
    }
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => address.octets().put(out),
        IpAddr::V6(address) => address.octets().put(out),
    }
}

impl Wire for Nat {
    fn put(&self, out: &mut Vec<u8>) {
        let several = self.addresses.filter(|range| range.first != range.last);
        let several_ports = self.ports.filter(|(first, last)| first != last);
        let addresses = match (self.addresses, several) {
            (None, _) => 0,
            (Some(Addresses { first: IpAddr::V4(_), .. }), None) => FIRST_V4,
            (Some(Addresses { first: IpAddr::V4(_), .. }), Some(_)) => FIRST_V4 | LAST_V4,
            (Some(_), None) => FIRST_V6,
            (Some(_), Some(_)) => FIRST_V6 | LAST_V6,
        };
        let ports = match (self.ports, several_ports) {
            (None, _) => 0,
            (Some(_), None) => FIRST_PORT,
            (Some(_), Some(_)) => FIRST_PORT | LAST_PORT,
        };
        0u16.put(out);
        self.flags.put(out);
        (addresses | ports).put(out);
        if let Some(range) = self.addresses {
            put_address(range.first, out);
        }
        if let Some(range) = several {
            put_address(range.last, out);
        }
        if let Some((first, _)) = self.ports {
            first.put(out);
        }
        if let Some((_, last)) = several_ports {
            last.put(out);
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.skip(2)?;
        let (flags, present) = (NatFlags::get(input)?, u16::get(input)?);
        let mut v4 = |bit| -> Result<Option<IpAddr>> {
            let is_there = present & bit != 0;
            is_there.then(|| Ok(Ipv4Addr::from(input.array::<4>()?).into())).transpose()
        };
        let (first_v4, last_v4) = (v4(FIRST_V4)?, v4(LAST_V4)?);
        let mut v6 = |bit| -> Result<Option<IpAddr>> {
            let is_there = present & bit != 0;
            is_there.then(|| Ok(Ipv6Addr::from(input.array::<16>()?).into())).transpose()
        };
        let (first_v6, last_v6) = (v6(FIRST_V6)?, v6(LAST_V6)?);
        let mut port = |bit| -> Result<Option<u16>> {
            let is_there = present & bit != 0;
            is_there.then(|| u16::get(input)).transpose()
        };
        let (first_port, last_port) = (port(FIRST_PORT)?, port(LAST_PORT)?);
        let addresses = match (range(first_v4, last_v4)?, range(first_v6, last_v6)?) {
            (Some(_), Some(_)) => return Err(BadAction::BadArgument.into()),
            (v4, v6) => v4.or(v6).map(|(first, last)| Addresses { first, last }),
        };
        let nat = Self { flags, addresses, ports: range(first_port, last_port)? };
        nat.check()?;
        Ok(nat)
    }
}

/// A range that has a first, and may have another last.
fn range<T: Copy>(first: Option<T>, last: Option<T>) -> Result<Option<(T, T)>> {
    match (first, last) {
        (None, Some(_)) => Err(BadAction::BadArgument.into()),
        (first, last) => Ok(first.map(|first| (first, last.unwrap_or(first)))),
    }
}
