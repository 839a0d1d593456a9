//! Matches in Nicira's form: neither type nor length before them, Nicira's names for fields, and what is asked of cookies among them.

use super::field::Header;
use super::{Entry, add, entries};
use crate::OxmField;
use crate::error::BadMatch;
use crate::wire::{Reader, Result, Wire};
use fulmar_packet::{Field, Match};

/// What is asked of a flow's match, and of its cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NiciraMatch {
    pub(crate) asked: Match,
    /// The cookie, as far as the bits of the mask are concerned.
    pub(crate) cookie: u64,
    pub(crate) cookie_mask: u64,
}

/// The classes of Nicira's names.
const CLASSES: std::ops::RangeInclusive<u16> = 0..=1;
/// A cookie, which no packet has.
const COOKIE: Header = Header { class: 1, number: 30, experimenter: None };
const COOKIE_BYTES: u8 = 8;

fn named(name: &str) -> OxmField {
    OxmField::named(name).unwrap_or_else(|| unreachable!("there is a field {name}"))
}

/// An entry under the name that Nicira has for its field, or the only one that there is.
fn put(entry: Entry, out: &mut Vec<u8>) {
    let renamed = match entry.field.name() {
        "in_port_oxm" if entry.value < 0xff00 => Entry { field: named("in_port"), mask: 0xffff, ..entry },
        "in_port_oxm" if entry.value >= 0xffff_ff00 => {
            Entry { field: named("in_port"), value: entry.value & 0xffff, mask: 0xffff }
        }
        "ip_dscp" => Entry { field: named("nw_tos"), value: entry.value << 2, mask: 0xff },
        _ => entry,
    };
    let headers = renamed.field.row().headers;
    let header = headers.iter().find(|header| CLASSES.contains(&header.class)).unwrap_or(&headers[0]);
    renamed.put_under(*header, out);
}

impl NiciraMatch {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (tag, mask) = (self.asked.key().get(Field::VLAN_TCI), self.asked.mask().get(Field::VLAN_TCI));
        for entry in entries(&self.asked).0 {
            // A tag has one name for all that is in it.
            if !matches!(entry.field.place(), Field::VLAN_TCI | Field::VLAN_VID | Field::VLAN_PCP) {
                put(entry, out);
            }
        }
        if mask != 0 {
            put(Entry { field: named("vlan_tci"), value: tag, mask }, out);
        }
        if self.cookie_mask != 0 {
            let has_mask = self.cookie_mask != u64::MAX;
            COOKIE.put(out, has_mask, if has_mask { 2 * COOKIE_BYTES } else { COOKIE_BYTES });
            self.cookie.put(out);
            if has_mask {
                self.cookie_mask.put(out);
            }
        }
    }

    pub(crate) fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut found = Self::default();
        while !input.is_empty() {
            let mut ahead = input.clone();
            let (header, has_mask, mut content) = Header::get(&mut ahead)?;
            // The time to live of MPLS has the same number.
            if header != COOKIE || content.left() < COOKIE_BYTES.into() {
                found.asked = add(found.asked, Entry::get(input)?.map_err(|_| BadMatch::BadField)?)?;
                continue;
            }
            *input = ahead;
            if found.cookie_mask != 0 {
                return Err(BadMatch::DuplicateField.into());
            }
            found.cookie = u64::get(&mut content)?;
            found.cookie_mask = if has_mask { u64::get(&mut content)? } else { u64::MAX };
            content.end()?;
            if found.cookie & !found.cookie_mask != 0 {
                return Err(BadMatch::BadWildcards.into());
            }
        }
        Ok(found)
    }
}
