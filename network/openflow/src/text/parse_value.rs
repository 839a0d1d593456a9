//! Values of fields, read.

use super::value::{FRAGMENTS, Look, look};
use crate::{OxmField, PortNumber, ShortPort};
use fulmar_packet::prefix;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A number in decimal or, after `0x`, hexadecimal digits.
pub(super) fn number(text: &str) -> Option<u128> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn hardware(text: &str) -> Option<u128> {
    let mut bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    let address = bytes.by_ref().take(6).try_fold(0, |all, byte| Some(all << 8 | u128::from(byte?)))?;
    (text.split(':').count() == 6 && bytes.next().is_none()).then_some(address)
}

fn v4(text: &str) -> Option<u128> {
    text.parse().ok().map(|address: Ipv4Addr| address.to_bits().into())
}

fn v6(text: &str) -> Option<u128> {
    text.parse().ok().map(|address: Ipv6Addr| address.to_bits())
}

/// Bits by their names: `a|b` are all that are set, `+a-b` are those that are asked for.
fn flags(text: &str, names: &[&str], whole: u128) -> Option<(u128, u128)> {
    let bit = |name: &str| names.iter().position(|other| *other == name).map(|bit| 1 << bit);
    if !text.starts_with(['+', '-']) {
        let value = text.split('|').try_fold(0, |bits, name| Some(bits | bit(name)?))?;
        return Some((value, whole));
    }
    let (mut value, mut mask) = (0, 0);
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let end = rest[1..].find(['+', '-']).map_or(rest.len(), |at| at + 1);
        let bit: u128 = bit(&rest[1..end])?;
        mask |= bit;
        value |= if sign == '+' { bit } else { 0 };
        rest = &rest[end..];
    }
    Some((value, mask))
}

/// The value of a field, and which bits of it are meant.
pub(super) fn value(field: OxmField, text: &str) -> Option<(u128, u128)> {
    let text = text.trim();
    let read: fn(&str) -> Option<u128> = match look(field) {
        Look::Hardware => hardware,
        Look::V4 => v4,
        Look::V6 => v6,
        Look::Port => {
            let port: PortNumber = text.parse().ok()?;
            let is_short = field.bits() == 16;
            let number = if is_short { ShortPort::try_from(port).ok()?.0.into() } else { port.0 };
            return Some((number.into(), field.ones()));
        }
        Look::Fragment => {
            if let Some((_, value, mask)) = FRAGMENTS.iter().find(|(name, ..)| *name == text) {
                return Some((*value, *mask));
            }
            number
        }
        Look::Flags(names, whole) => {
            if let Some(flags) = flags(text, names, whole) {
                return Some(flags);
            }
            number
        }
        Look::Decimal | Look::Hexadecimal => number,
    };
    let (value, mask) = match text.split_once('/') {
        None => (read(text)?, field.ones()),
        Some((value, mask)) => {
            let bits = mask.parse().ok().filter(|bits: &u8| *bits <= field.bits());
            let is_address = matches!(look(field), Look::V4 | Look::V6);
            let by_prefix = bits.filter(|_| is_address).map(|bits| prefix(field.place(), bits));
            (read(value)?, by_prefix.or_else(|| read(mask))?)
        }
    };
    let is_possible = mask == field.ones() || mask <= field.ones() && field.is_maskable();
    (is_possible && value <= field.ones()).then_some((value & mask, mask))
}
