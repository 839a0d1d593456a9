//! Some bits of a field, and what moves them.

use crate::OxmField;
use crate::error::BadAction;
use crate::wire::{Reader, Result, Wire, layout, put_zeros};

/// Some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subfield {
    field: OxmField,
    start: u8,
    bits: u8,
}

impl Subfield {
    /// So many bits, of which the least significant is bit `start` of the field; nothing, if there are none, or fewer.
    pub fn new(field: OxmField, start: u16, bits: u16) -> Option<Self> {
        let is_inside = bits > 0 && u32::from(start) + u32::from(bits) <= u32::from(field.bits());
        let (start, bits) = (u8::try_from(start).ok()?, u8::try_from(bits).ok()?);
        is_inside.then_some(Self { field, start, bits })
    }

    /// All bits of a field.
    pub fn all(field: OxmField) -> Self {
        Self { field, start: 0, bits: field.bits() }
    }

    /// Of which field.
    pub const fn field(self) -> OxmField {
        self.field
    }

    /// The number of the least significant one.
    pub const fn start(self) -> u8 {
        self.start
    }

    /// How many.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether a value has no more bits.
    pub(crate) const fn holds(self, value: u128) -> bool {
        value <= u128::MAX >> (128 - self.bits)
    }

    fn checked(field: OxmField, start: u16, bits: u16) -> Result<Self> {
        Self::new(field, start, bits).ok_or_else(|| BadAction::BadSetLength.into())
    }

    /// Where and how many in one number, of which there can be 64.
    pub(super) fn put_place(self, out: &mut Vec<u8>) {
        debug_assert!(self.bits <= 64, "{self:?} is moved by an action that moves 64 bits at most");
        (u16::from(self.start) << 6 | (u16::from(self.bits) - 1) & 0x3f).put(out);
    }

    pub(super) fn of_place(field: OxmField, place: u16) -> Result<Self> {
        Self::checked(field, place >> 6, (place & 0x3f) + 1)
    }

    /// A field and where in it, of so many bits.
    pub(super) fn put_after_bits(self, out: &mut Vec<u8>) {
        self.field.put(out);
        u16::from(self.start).put(out);
    }

    pub(super) fn get_after_bits(input: &mut Reader<'_>, bits: u16) -> Result<Self> {
        let field = OxmField::get(input)?;
        Self::checked(field, u16::get(input)?, bits)
    }
}

/// Where, and then of which field.
impl Wire for Subfield {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_place(out);
        self.field.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let place = u16::get(input)?;
        Self::of_place(OxmField::get(input)?, place)
    }
}

/// Copy bits of a field to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBits {
    /// From here…
    pub source: Subfield,
    /// …to as many there.
    pub destination: Subfield,
}

impl CopyBits {
    fn put_with_gap(&self, out: &mut Vec<u8>, gap: usize) {
        u16::from(self.destination.bits).put(out);
        u16::from(self.source.start).put(out);
        u16::from(self.destination.start).put(out);
        put_zeros(out, gap);
        self.source.field.put(out);
        self.destination.field.put(out);
    }

    fn get_with_gap(input: &mut Reader<'_>, gap: usize) -> Result<Self> {
        let (bits, from, to) = (u16::get(input)?, u16::get(input)?, u16::get(input)?);
        input.skip(gap)?;
        let source = Subfield::checked(OxmField::get(input)?, from, bits)?;
        let destination = Subfield::checked(OxmField::get(input)?, to, bits)?;
        Ok(Self { source, destination })
    }
}

impl Wire for CopyBits {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_with_gap(out, 0);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        Self::get_with_gap(input, 0)
    }
}

/// The same, in the form of the Open Networking Foundation's extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyField(pub CopyBits);

impl Wire for CopyField {
    fn put(&self, out: &mut Vec<u8>) {
        put_zeros(out, 2);
        self.0.put_with_gap(out, 2);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.skip(2)?;
        CopyBits::get_with_gap(input, 2).map(Self)
    }
}

/// Replace bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBits {
    /// Which: 64 at most.
    pub destination: Subfield,
    /// By what.
    pub value: u64,
}

impl Wire for LoadBits {
    fn put(&self, out: &mut Vec<u8>) {
        self.destination.put(out);
        self.value.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (destination, value) = (Subfield::get(input)?, u64::get(input)?);
        if !destination.holds(value.into()) {
            return Err(BadAction::BadSetArgument.into());
        }
        Ok(Self { destination, value })
    }
}

layout! {
    /// Send the packet to the port whose number these bits are.
    struct OutputBits {
        /// Which: 64 at most.
        port: Subfield;
        /// To a controller, so many bytes of it at most.
        max_length: u16 [6];
    }
}

/// The same, with room for longer names of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputBitsLong {
    /// Which: 64 at most.
    pub port: Subfield,
    /// To a controller, so many bytes of it at most.
    pub max_length: u16,
}

impl Wire for OutputBitsLong {
    fn put(&self, out: &mut Vec<u8>) {
        self.port.put_place(out);
        self.max_length.put(out);
        self.port.field.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (place, max_length) = (u16::get(input)?, u16::get(input)?);
        Ok(Self { port: Subfield::of_place(OxmField::get(input)?, place)?, max_length })
    }
}

/// Bits that are pushed on a stack, or replaced by what is popped from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBits(pub Subfield);

impl Wire for StackBits {
    fn put(&self, out: &mut Vec<u8>) {
        u16::from(self.0.start).put(out);
        self.0.field.put(out);
        u16::from(self.0.bits).put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (start, field) = (u16::get(input)?, OxmField::get(input)?);
        Subfield::checked(field, start, u16::get(input)?).map(Self)
    }
}
