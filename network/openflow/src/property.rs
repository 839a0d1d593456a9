//! Contents with a type and a length, filled up to a multiple of 8: properties, whose length leaves out what fills them up, and actions
//! and instructions, whose length does not.

use crate::error::ErrorCode;
use crate::wire::{Reader, Result, Wire, align, put_length};

/// Appends an action or an instruction.
pub(crate) fn put_step(out: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    kind.put(out);
    0u16.put(out);
    content(out);
    align(out, start);
    put_length(out, start, 2);
}

/// The type of an action or an instruction, and the length of its content.
pub(crate) fn get_head(input: &mut Reader<'_>, wrong_length: impl Into<ErrorCode>) -> Result<(u16, usize)> {
    let (kind, length) = (u16::get(input)?, usize::from(u16::get(input)?));
    if length < 8 || !length.is_multiple_of(8) {
        return Err(wrong_length.into());
    }
    Ok((kind, length - 4))
}

/// What comes after that.
pub(crate) fn get_content<T>(
    input: &mut Reader<'_>,
    length: usize,
    content: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    wrong_length: impl Into<ErrorCode>,
) -> Result<T> {
    let wrong_length = wrong_length.into();
    let mut inside = input.part(length, wrong_length)?;
    let step = content(&mut inside)?;
    // What is left fills it up, and is less than a multiple of 8.
    if inside.left() >= 8 { Err(wrong_length) } else { Ok(step) }
}

pub(crate) fn put_property(out: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    kind.put(out);
    0u16.put(out);
    content(out);
    put_length(out, start, 2);
    align(out, start);
}

/// Its type, and its content without what fills it up.
pub(crate) fn get_property<'a>(input: &mut Reader<'a>) -> Result<(u16, Reader<'a>)> {
    let before = input.left();
    let (kind, length) = (u16::get(input)?, u16::get(input)?);
    let length = usize::from(length).checked_sub(4).ok_or_else(|| input.wrong_length())?;
    let content = input.part(length, input.wrong_length())?;
    // The last one of some messages is not filled up.
    if !input.is_empty() {
        input.align(before)?;
    }
    Ok((kind, content))
}
