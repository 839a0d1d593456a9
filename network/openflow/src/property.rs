//! Properties: contents with a type and a length, filled up to a multiple of 8.

use crate::wire::{Reader, Result, Wire, align, put_length};

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
