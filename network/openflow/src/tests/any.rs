//! Values of all kinds, made up. What [`layout`](crate::wire::layout) and its like write down is made up of these.

use crate::action::{
    Action, Addresses, Bundle, BundleLoad, CloneActions, CopyBits, CopyField, CtFlags, Decrement, Extension,
    Learn, LearnFlags, LearnResult, LearnSource, LearnSpec, LearnedFlow, LimitedLearn, LoadBits, Nat,
    NatFlags, Note, OutputBitsLong, PausableController, SetField, SetMasked, StackBits, Subfield, Track,
    Zone,
};
use crate::bundle::{BundleAdd, BundleFlags};
use crate::error::{ALL, Space};
use crate::flow::FlowRemovedReason;
use crate::meter::Band;
use crate::monitor::{MonitorFlags, MonitorRequest, MonitorUpdate, MonitoredFlow};
use crate::multipart::{MultipartReply, MultipartRequest};
use crate::packet_in::{NiciraPacketIn, PacketIn2};
use crate::packet_out::PacketOut;
use crate::switch::Features;
use crate::table::{Fields, Identifiers, TableProperty};
use crate::{
    Body, ErrorCode, GroupNumber, Hello, Instruction, Instructions, Message, NO_BUFFER, OxmField, PortNumber,
    ShortPort, Text, Told,
};
use fulmar_node::Random;
use fulmar_packet::{Field, Match, ethernet, ip};

/// What can be made up.
pub(crate) trait Any: Sized {
    fn any(random: &mut Random) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Any for $type {
            fn any(random: &mut Random) -> Self {
                let bytes = random.next().to_be_bytes();
                Self::from_be_bytes(*bytes.first_chunk().expect("no more than 8"))
            }
        }
    )*};
}
integers!(u8 u16 u32 u64);

/// Of structures that are not all written down as layouts.
macro_rules! made_of {
    ($($name:ident { $($field:tt),* })*) => {$(
        impl Any for $name {
            fn any(random: &mut Random) -> Self {
                Self { $($field: Any::any(random)),* }
            }
        }
    )*};
}
made_of! {
    ShortPort { 0 }
    Told { 0 }
    CopyField { 0 }
    OutputBitsLong { port, max_length }
    Decrement { controllers }
    CloneActions { 0 }
    Bundle { algorithm, fields, basis, members }
    BundleLoad { bundle, destination }
    PausableController { max_length, controller, reason, user_data, pauses, meter }
    Band { rate, burst, kind }
    TableProperty { 0 }
    Identifiers { 0 }
    Fields { 0 }
    NiciraPacketIn { 0 }
    PacketIn2 { data, total_length, buffer, table, cookie, reason, known, user_data, continuation }
    MultipartRequest { has_more, body }
    MultipartReply { has_more, body }
    Hello { version, bitmap }
}

impl Any for bool {
    fn any(random: &mut Random) -> Self {
        random.one_in(2)
    }
}

impl Any for u128 {
    fn any(random: &mut Random) -> Self {
        Self::from(random.next()) << 64 | Self::from(random.next())
    }
}

impl<T: Any, const N: usize> Any for [T; N] {
    fn any(random: &mut Random) -> Self {
        std::array::from_fn(|_| T::any(random))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(random: &mut Random) -> Self {
        let count = if random.one_in(8) { random.below(9) } else { random.below(3) };
        (0..count).map(|_| T::any(random)).collect()
    }
}

impl<T: Any> Any for Option<T> {
    fn any(random: &mut Random) -> Self {
        random.one_in(2).then(|| T::any(random))
    }
}

impl<T: Any> Any for Box<T> {
    fn any(random: &mut Random) -> Self {
        Self::new(T::any(random))
    }
}

impl<const N: usize> Any for Text<N> {
    fn any(random: &mut Random) -> Self {
        let length = random.index(N);
        "switch-1 of ".chars().cycle().take(length).collect::<String>().as_str().into()
    }
}

impl Any for PortNumber {
    fn any(random: &mut Random) -> Self {
        let reserved = [Self::IN_PORT, Self::CONTROLLER, Self::ANY];
        if random.one_in(2) { *random.choose(&reserved).expect("some") } else { Self(u32::any(random)) }
    }
}

impl Any for GroupNumber {
    fn any(random: &mut Random) -> Self {
        Self(u32::any(random) >> 1)
    }
}

impl Any for ErrorCode {
    fn any(random: &mut Random) -> Self {
        if random.one_in(9) {
            return Self::Other { space: Space::Experimenter(7), code: u16::any(random) };
        }
        *random.choose(ALL).expect("some")
    }
}

impl Any for OxmField {
    fn any(random: &mut Random) -> Self {
        let fields: Vec<Self> = Self::all().collect();
        *random.choose(&fields).expect("some")
    }
}

/// A match that a list of fields can say: each field that fits to those before, perhaps, and perhaps with a mask.
impl Any for Match {
    fn any(random: &mut Random) -> Self {
        let mut asked = Self::ANY;
        if random.one_in(2) {
            let kinds = [ethernet::IPV4, ethernet::IPV6, ethernet::ARP, ethernet::MPLS, 0x9000];
            asked = asked.with(Field::ETH_TYPE, (*random.choose(&kinds).expect("some")).into());
        }
        let is_ip =
            [ethernet::IPV4, ethernet::IPV6].map(u128::from).contains(&asked.key().get(Field::ETH_TYPE));
        if is_ip && random.one_in(2) {
            let protocols = [ip::TCP, ip::UDP, ip::SCTP, ip::ICMP, ip::ICMPV6, 99];
            asked = asked.with(Field::IP_PROTOCOL, (*random.choose(&protocols).expect("some")).into());
        }
        let is_icmp6 = asked.key().get(Field::IP_PROTOCOL) == ip::ICMPV6.into();
        if is_icmp6 && asked.key().get(Field::ETH_TYPE) == ethernet::IPV6.into() && random.one_in(2) {
            asked = asked.with(Field::L4_SOURCE, 135 + u128::from(random.below(2)));
        }
        let often = 1 + random.below(20);
        for field in OxmField::all() {
            let is_free = asked.mask().get(field.place()) == 0;
            if !is_free || !field.is_in(&asked) || !random.one_in(often) {
                continue;
            }
            // Of ports, those whose numbers text can tell.
            let possible = if field.place() == Field::IN_PORT { 0x7fff } else { field.ones() };
            let ones = field.place().ones() & possible;
            let value = u128::any(random) & ones;
            let mask =
                if field.is_maskable() && random.one_in(2) { u128::any(random) & ones } else { u128::MAX };
            asked = asked.with_masked(field.place(), value, mask);
        }
        asked
    }
}

impl Any for Subfield {
    fn any(random: &mut Random) -> Self {
        narrow(random, 64)
    }
}

/// So many bits at most of some field.
fn narrow(random: &mut Random, most: u64) -> Subfield {
    loop {
        let (start, bits) = (random.below(32), 1 + random.below(most));
        let (start, bits) = (u16::try_from(start).expect("few"), u16::try_from(bits).expect("few"));
        if let Some(subfield) = Subfield::new(OxmField::any(random), start, bits) {
            return subfield;
        }
    }
}

/// As many bits of another.
fn as_many(random: &mut Random, bits: u8) -> Subfield {
    loop {
        if let Some(subfield) = Subfield::new(OxmField::any(random), 0, bits.into()) {
            return subfield;
        }
    }
}

/// A value of so many bits.
fn value(random: &mut Random, bits: u8) -> u128 {
    u128::any(random) & (u128::MAX >> (128 - bits))
}

impl Any for SetField {
    fn any(random: &mut Random) -> Self {
        loop {
            let field = OxmField::any(random);
            let value = u128::any(random) & field.ones();
            if Self::is_possible(field, value) {
                return Self { field, value };
            }
        }
    }
}

impl Any for SetMasked {
    fn any(random: &mut Random) -> Self {
        loop {
            let SetField { field, value } = SetField::any(random);
            let mask = u128::any(random) & field.ones();
            if field.is_maskable() && mask != field.ones() {
                return Self { field, value: value & mask, mask };
            }
        }
    }
}

impl Any for CopyBits {
    fn any(random: &mut Random) -> Self {
        let source = narrow(random, 128);
        Self { source, destination: as_many(random, source.bits()) }
    }
}

impl Any for LoadBits {
    fn any(random: &mut Random) -> Self {
        let destination = Subfield::any(random);
        let value = value(random, destination.bits());
        Self { destination, value: u64::try_from(value).expect("64 at most") }
    }
}

impl Any for StackBits {
    fn any(random: &mut Random) -> Self {
        Self(narrow(random, 128))
    }
}

impl Any for Note {
    fn any(random: &mut Random) -> Self {
        let length = 6 + 8 * random.index(3);
        Self((0..length).map(|_| u8::any(random)).collect())
    }
}

impl Any for Nat {
    fn any(random: &mut Random) -> Self {
        if random.one_in(4) {
            return Self { flags: NatFlags::NONE, addresses: None, ports: None };
        }
        let sides = [NatFlags::SOURCE, NatFlags::DESTINATION];
        let ways = [NatFlags::NONE, NatFlags::PERSISTENT, NatFlags::HASH, NatFlags::RANDOM];
        let flags = *random.choose(&sides).expect("some") | *random.choose(&ways).expect("some");
        let addresses = random.one_in(2).then(|| {
            let (a, b) = (u128::any(random), u128::any(random));
            let (first, last) = (a.min(b), a.max(b));
            if random.one_in(2) {
                return Addresses {
                    first: std::net::Ipv6Addr::from(first).into(),
                    last: std::net::Ipv6Addr::from(last).into(),
                };
            }
            let short =
                |address: u128| std::net::Ipv4Addr::from_bits(u32::try_from(address >> 96).expect("32 bits"));
            Addresses { first: short(first).into(), last: short(last).into() }
        });
        let ports = random.one_in(2).then(|| {
            let (a, b) = (u16::any(random), u16::any(random));
            (a.min(b), if random.one_in(2) { a.min(b) } else { a.max(b) })
        });
        Self { flags, addresses, ports }
    }
}

impl Any for Track {
    fn any(random: &mut Random) -> Self {
        let field = |name| OxmField::named(name).expect("there is one");
        let zone = match random.below(2) {
            0 => Zone::Number(u16::any(random)),
            _ => Zone::Bits(Subfield::new(field("reg3"), 16, 16).expect("32 bits")),
        };
        let flags = CtFlags::any(random);
        let flags = if flags == CtFlags::FORCE { CtFlags::NONE } else { flags };
        let mut actions = Vec::new();
        if random.one_in(2) {
            let plain = Nat { flags: NatFlags::NONE, addresses: None, ports: None };
            let nat = if flags.contains(CtFlags::COMMIT) { Nat::any(random) } else { plain };
            actions.push(Action::Extension(Extension::Nat(nat)));
        }
        if flags.contains(CtFlags::COMMIT) && random.one_in(2) {
            actions.push(Action::SetField(SetField { field: field("ct_mark"), value: 7 }));
        }
        let table = Some(u8::any(random)).filter(|table| *table != 255);
        Self { flags, zone, table, gateway: *random.choose(&[0, 21, 69]).expect("some"), actions }
    }
}

impl Any for LearnSpec {
    fn any(random: &mut Random) -> Self {
        let destination = narrow(random, 128);
        let source = match random.below(2) {
            0 => LearnSource::Value(value(random, destination.bits())),
            _ => LearnSource::Bits(as_many(random, destination.bits())),
        };
        match random.below(3) {
            0 => Self::Match(source, destination),
            1 => Self::Load(source, destination),
            _ => Self::Output(destination),
        }
    }
}

impl Any for Learn {
    fn any(random: &mut Random) -> Self {
        let flow = LearnedFlow::any(random);
        let flags = LearnFlags(flow.flags.0 & !LearnFlags::WRITE_RESULT.0);
        Self { flow: LearnedFlow { flags, ..flow }, specs: Any::any(random) }
    }
}

impl Any for LimitedLearn {
    fn any(random: &mut Random) -> Self {
        let flow = LearnedFlow::any(random);
        let writes = flow.flags.contains(LearnFlags::WRITE_RESULT);
        let result = writes.then(|| LearnResult(narrow(random, 1)));
        Self { flow, limit: u32::any(random), result, specs: Any::any(random) }
    }
}

impl Any for Instructions {
    fn any(random: &mut Random) -> Self {
        let mut instructions: Vec<Instruction> = Any::any(random);
        let mut seen = Vec::new();
        instructions.retain(|instruction| {
            let is_new = !seen.contains(&instruction.number());
            seen.push(instruction.number());
            is_new
        });
        Self(instructions)
    }
}

impl Any for PacketOut {
    fn any(random: &mut Random) -> Self {
        let data: Vec<u8> = Any::any(random);
        let buffer = if data.is_empty() { u32::any(random) } else { NO_BUFFER };
        Self { buffer, port: PortNumber::any(random), actions: Any::any(random), data }
    }
}

impl Any for Features {
    fn any(random: &mut Random) -> Self {
        Self {
            datapath: u64::any(random),
            buffers: u32::any(random),
            tables: u8::any(random),
            auxiliary: u8::any(random),
            capabilities: Any::any(random),
            ports: Vec::new(),
        }
    }
}

impl Any for MonitorRequest {
    fn any(random: &mut Random) -> Self {
        Self {
            monitor: u32::any(random),
            flags: MonitorFlags::any(random) | MonitorFlags::ADD,
            out_port: PortNumber::any(random),
            table: u8::any(random),
            asked: Match::any(random),
        }
    }
}

impl Any for MonitorUpdate {
    fn any(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Added(MonitoredFlow::any(random)),
            1 => Self::Deleted(FlowRemovedReason::any(random), MonitoredFlow::any(random)),
            2 => Self::Modified(MonitoredFlow::any(random)),
            _ => Self::Own(u32::any(random)),
        }
    }
}

impl Any for BundleAdd {
    fn any(random: &mut Random) -> Self {
        loop {
            let message = Message::any(random);
            if Self::takes(&message.body) {
                return Self {
                    bundle: u32::any(random),
                    flags: BundleFlags::any(random),
                    message: Box::new(message),
                };
            }
        }
    }
}

/// One that passes the checks of those that are checked.
impl Any for Message {
    fn any(random: &mut Random) -> Self {
        loop {
            let (mut xid, body) = (u32::any(random), Body::any(random));
            if let Body::Experimenter(crate::experimenter::Experimenter::BundleAdd(add)) = &body {
                xid = add.message.xid;
            }
            let is_sound = match &body {
                Body::FlowMod(flow) => flow.check().is_ok(),
                Body::GroupMod(group) => group.check().is_ok(),
                Body::MeterMod(meter) => meter.check().is_ok(),
                _ => true,
            };
            if is_sound {
                return Self { xid, body };
            }
        }
    }
}
