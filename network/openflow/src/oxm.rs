//! Matches as lists of fields, each with a header, a value and perhaps a mask (section 7.2.3).

mod field;
mod nicira;
#[cfg(test)]
mod page;

pub use field::OxmField;
pub(crate) use nicira::NiciraMatch;

use crate::error::{BadAction, BadMatch};
use crate::wire::{Reader, Result, Wire, align, put_length};
use field::{Form, Header, Row};
use fulmar_packet::{Field, Match, ethernet};

/// The only type of matches that is not deprecated.
const OXM: u16 = 1;

/// A value of a field, and which bits of it are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) field: OxmField,
    pub(crate) value: u128,
    pub(crate) mask: u128,
}

/// A number in the last `bytes` bytes.
pub(crate) fn put_number(out: &mut Vec<u8>, value: u128, bytes: usize) {
    out.extend(&value.to_be_bytes()[16 - bytes..]);
}

/// A number in so many bytes.
pub(crate) fn get_number(input: &mut Reader<'_>, bytes: usize) -> Result<u128> {
    Ok(input.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

/// An entry of a field that is not known here.
struct Unknown;

impl Entry {
    fn put(self, out: &mut Vec<u8>) {
        self.put_under(self.field.row().headers[0], out);
    }

    /// Under one of its field's names.
    fn put_under(self, header: Header, out: &mut Vec<u8>) {
        let bytes = self.field.bytes();
        let has_mask = self.mask != self.field.ones();
        let length = u8::try_from(if has_mask { 2 * bytes } else { bytes });
        let length = length.unwrap_or_else(|_| unreachable!("32 at most"));
        header.put(out, has_mask, length);
        put_number(out, self.value, bytes);
        if has_mask {
            put_number(out, self.mask, bytes);
        }
    }

    /// Without regard to other entries.
    fn get(input: &mut Reader<'_>) -> Result<std::result::Result<Self, Unknown>> {
        let (header, has_mask, mut content) = Header::get(input)?;
        let Some(field) = OxmField::of(header) else { return Ok(Err(Unknown)) };
        let value = get_number(&mut content, field.bytes())?;
        let mask = if has_mask { get_number(&mut content, field.bytes())? } else { field.ones() };
        content.end()?;
        if has_mask && (!field.row().is_maskable || mask & !field.ones() != 0) {
            return Err(BadMatch::BadMask.into());
        }
        if value & !mask != 0 {
            let is_too_large = value & !field.ones() != 0;
            return Err(if is_too_large { BadMatch::BadValue } else { BadMatch::BadWildcards }.into());
        }
        Ok(Ok(Self { field, value, mask }))
    }

    /// The match that asks for this, too.
    fn added_to(self, asked: Match) -> Result<Match> {
        let Row { place, .. } = *self.field.row();
        let value = self.field.to_place(self.value).ok_or(BadMatch::BadValue)?;
        let mask = if self.mask == self.field.ones() { place.ones() } else { self.mask };
        Ok(asked.with_masked(place, value, mask))
    }
}

/// Adds an entry to those before it.
pub(crate) fn add(asked: Match, entry: Entry) -> Result<Match> {
    if !entry.field.is_in(&asked) {
        return Err(BadMatch::BadPrerequisite.into());
    }
    if asked.mask().get(entry.field.place()) != 0 {
        return Err(BadMatch::DuplicateField.into());
    }
    entry.added_to(asked)
}

/// What entries ask for together. Those of fields that are not known here are errors, unless they are to be passed over.
fn get_entries(input: &mut Reader<'_>, passes_over: bool) -> Result<Match> {
    let mut asked = Match::ANY;
    while !input.is_empty() {
        match Entry::get(input)? {
            Ok(entry) => asked = add(asked, entry)?,
            Err(Unknown) if passes_over => {}
            Err(Unknown) => return Err(BadMatch::BadField.into()),
        }
    }
    Ok(asked)
}

/// The entries that say what a match asks for, and whether that is all of it.
pub(crate) fn entries(asked: &Match) -> (Vec<Entry>, bool) {
    let (mut left, mut entries) = (asked.mask().clone(), Vec::new());
    for field in OxmField::all() {
        let row = field.row();
        let mask = left.get(row.place);
        if mask == 0 || row.form != Form::Plain || !field.is_in(asked) {
            continue;
        }
        let value = asked.key().get(row.place);
        let is_whole = mask == row.place.ones() || mask & field.ones() == field.ones();
        let mask = if is_whole { field.ones() } else { mask };
        let fits = mask <= field.ones() && value <= field.ones();
        let is_tci = row.place == Field::VLAN_TCI;
        if !fits || !is_whole && !row.is_maskable || is_tci && !needs_whole_tag(asked) {
            continue;
        }
        entries.push(Entry { field, value, mask });
        left.remove(row.place);
    }
    (entries, left.is_empty())
}

/// Whether what is asked of a VLAN tag cannot be said of its number and its priority one by one.
fn needs_whole_tag(asked: &Match) -> bool {
    let priority = asked.mask().get(Field::VLAN_PCP);
    let has_tag = asked.key().get(Field::VLAN_TCI) & u128::from(ethernet::TAGGED) != 0;
    priority != 0 && (priority != Field::VLAN_PCP.ones() || !has_tag)
}

/// Whether a list of fields can say all that a match asks for. Of one that asks for more (which no list has said: for bits of a field
/// that cannot be masked, or for ports of no protocol), a message carries what can be said.
pub fn is_expressible(asked: &Match) -> bool {
    entries(asked).1
}

pub(crate) fn put_entries(asked: &Match, out: &mut Vec<u8>) {
    entries(asked).0.into_iter().for_each(|entry| entry.put(out));
}

/// A match as it is in most messages: with a type, a length, and filled up to a multiple of 8 (section 7.2.3.1).
impl Wire for Match {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        OXM.put(out);
        0u16.put(out);
        put_entries(self, out);
        put_length(out, start, 2);
        align(out, start);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        get_match(input, false)
    }
}

fn get_match(input: &mut Reader<'_>, passes_over: bool) -> Result<Match> {
    let before = input.left();
    let (kind, length) = (u16::get(input)?, u16::get(input)?);
    if kind != OXM {
        return Err(BadMatch::BadType.into());
    }
    let length = usize::from(length).checked_sub(4).ok_or(BadMatch::BadLength)?;
    let asked = get_entries(&mut input.part(length, BadMatch::BadLength)?, passes_over)?;
    input.align(before)?;
    Ok(asked)
}

/// What is told of a packet, in the form of a match: the fields that the receiver does not know are no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told(pub Match);

impl Wire for Told {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        get_match(input, true).map(Self)
    }
}

impl Told {
    /// Without type and length, as Nicira's extensions have it.
    pub(crate) fn get_bare(input: &mut Reader<'_>) -> Result<Self> {
        get_entries(input, true).map(Self)
    }
}

/// A field, a value of it, and which bits of that are meant, in an action that sets it.
pub(crate) fn put_setting(field: OxmField, value: u128, mask: Option<u128>, out: &mut Vec<u8>) {
    let entry = Entry { field, value, mask: mask.unwrap_or_else(|| field.ones()) };
    entry.put(out);
}

pub(crate) fn get_setting(input: &mut Reader<'_>) -> Result<(OxmField, u128, u128)> {
    match Entry::get(input) {
        Ok(Ok(Entry { field, value, mask })) => Ok((field, value, mask)),
        Ok(Err(Unknown)) => Err(BadAction::BadSetType.into()),
        Err(error) if error == BadMatch::BadLength.into() => Err(BadAction::BadSetLength.into()),
        Err(_) => Err(BadAction::BadSetArgument.into()),
    }
}
