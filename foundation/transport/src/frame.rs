//! A stream of bytes as a sequence of frames: four bytes of length, little-endian, and so many bytes of body.

use std::ops::Range;

const PREFIX: usize = 4;
/// A frame of no message, in place of a length.
pub(crate) const KEEP_ALIVE: [u8; PREFIX] = [0xff; PREFIX];

/// What a connection keeps to read into when nothing is under way, so that thousands of idle ones cost little.
const SMALL: usize = 4 << 10;
/// How much one system call reads at most, unless a longer frame is under way.
const LARGE: usize = 64 << 10;

/// A frame is longer than its reader or its writer allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes is over the limit of {limit}")]
pub struct FrameTooLong {
    /// Bytes of the frame's body.
    pub length: usize,
    /// Bytes that are allowed.
    pub limit: usize,
}

/// Appends a frame whose body is what `body` appends; appends nothing if that is too long.
pub(crate) fn append_frame(
    output: &mut Vec<u8>,
    limit: usize,
    body: impl FnOnce(&mut Vec<u8>),
) -> Result<(), FrameTooLong> {
    let start = output.len();
    output.extend_from_slice(&[0; PREFIX]);
    body(output);
    let length = output.len() - start - PREFIX;
    match u32::try_from(length) {
        Ok(prefix) if length <= limit && prefix.to_le_bytes() != KEEP_ALIVE => {
            output[start..start + PREFIX].copy_from_slice(&prefix.to_le_bytes());
            Ok(())
        }
        _ => {
            output.truncate(start);
            Err(FrameTooLong { length, limit: limit.min(u32::MAX as usize) })
        }
    }
}

/// Where the frame ends in which this place of whole frames is; at the place itself, if that is between two.
pub(crate) fn end_of_frame(frames: &[u8], place: usize) -> usize {
    let mut end = 0;
    while end < place
        && let Some(prefix) = frames[end..].first_chunk::<PREFIX>()
    {
        end += PREFIX + u32::from_le_bytes(*prefix) as usize;
    }
    end
}

/// Bytes received, cut into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    bytes: Vec<u8>,
    /// Bytes before this place belong to frames that were taken. Never beyond the end of `bytes`.
    taken: usize,
    /// The other end has said that it is there.
    is_alive: bool,
    /// The last read has filled all of the room.
    is_filled: bool,
}

impl FrameReader {
    pub(crate) const fn empty() -> Self {
        Self { bytes: Vec::new(), taken: 0, is_alive: false, is_filled: false }
    }

    /// Whether the other end has said that it is there since this was last asked.
    pub(crate) const fn take_keep_alive(&mut self) -> bool {
        std::mem::replace(&mut self.is_alive, false)
    }

    /// Room to append received bytes to. Grows only when bytes have filled what was there, whatever length a frame
    /// announces: memory is lent against bytes, not against promises.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > LARGE {
            self.bytes = Vec::new();
        }
        if self.bytes.capacity() == self.bytes.len() {
            let wanted = self.bytes.capacity().saturating_mul(2).max(SMALL);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        &mut self.bytes
    }

    /// Called after each read.
    pub(crate) fn note_read(&mut self) {
        self.is_filled = self.bytes.len() == self.bytes.capacity();
        // The next may find more at once.
        if self.is_filled && self.bytes.capacity() < LARGE {
            self.bytes.reserve_exact(self.bytes.capacity() * 2 - self.bytes.len());
        }
    }

    /// Takes the next frame, if all of it is here. The place is good until [`Self::room`] is called.
    pub(crate) fn next(&mut self, limit: usize) -> Result<Option<Range<usize>>, FrameTooLong> {
        while self.bytes[self.taken..].starts_with(&KEEP_ALIVE) {
            self.taken += PREFIX;
            self.is_alive = true;
        }
        let Some((prefix, rest)) = self.bytes[self.taken..].split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > limit {
            return Err(FrameTooLong { length, limit });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + PREFIX;
        self.taken = start + length;
        Ok(Some(start..start + length))
    }

    /// Whether there is a part of a frame, or the last read may have left something.
    pub(crate) const fn has_more(&self) -> bool {
        self.is_filled || self.pending() > 0
    }

    /// Bytes that were not taken: of a frame that is not whole, once [`Self::next`] has found no other.
    pub(crate) const fn pending(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// The bytes of a frame that [`Self::next`] has taken.
    pub(crate) fn body(&self, frame: Range<usize>) -> &[u8] {
        &self.bytes[frame]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    fn frames(reader: &mut FrameReader, limit: usize) -> Result<Vec<Vec<u8>>, FrameTooLong> {
        let mut found = Vec::new();
        while let Some(frame) = reader.next(limit)? {
            found.push(reader.body(frame).to_vec());
        }
        Ok(found)
    }

    #[test]
    fn frames_survive_any_cut_of_the_stream() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let bodies: Vec<Vec<u8>> = (0..random.below(20))
                .map(|_| {
                    let size = if random.one_in(8) { 100_000 } else { 300 };
                    vec![random.next().to_le_bytes()[0]; random.index(size)]
                })
                .collect();
            let mut stream = Vec::new();
            for body in &bodies {
                append_frame(&mut stream, 100_000, |bytes| bytes.extend_from_slice(body))
                    .expect("a short body");
            }
            let mut reader = FrameReader::empty();
            let mut found = Vec::new();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let room = reader.room();
                let spare = room.capacity() - room.len();
                assert!(spare > 0);
                let cut = (1 + random.index(spare)).min(rest.len());
                room.extend_from_slice(&rest[..cut]);
                rest = &rest[cut..];
                reader.note_read();
                found.extend(frames(&mut reader, 100_000).expect("short frames"));
                assert!(reader.has_more() || (cut < spare && reader.pending() == 0));
            }
            assert_eq!(found, bodies);
        }
    }

    #[test]
    fn random_bytes_are_frames_or_too_long() {
        let mut random = Random::new(2);
        for _ in 0..20_000 {
            let mut reader = FrameReader::empty();
            for _ in 0..random.below(4) {
                let bytes: Vec<u8> = (0..random.below(64))
                    .map(|_| if random.one_in(2) { 0 } else { random.next().to_le_bytes()[0] })
                    .collect();
                reader.room().extend_from_slice(&bytes);
                if frames(&mut reader, 48).is_err() {
                    break;
                }
            }
            assert!(reader.room().capacity() <= SMALL, "a length that was only announced took memory");
        }
    }

    #[test]
    fn a_frame_over_the_limit_leaves_no_trace() {
        let mut output = vec![7];
        let error = append_frame(&mut output, 9, |bytes| bytes.extend_from_slice(&[0; 10]));
        assert_eq!(error, Err(FrameTooLong { length: 10, limit: 9 }));
        assert_eq!(output, [7]);
    }
}
