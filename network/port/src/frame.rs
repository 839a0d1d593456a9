//! A frame where it lies, with room before it.

use crate::{Offload, Trail};

/// A frame in a buffer. Headers are put before it and taken away without its being moved.
#[derive(Debug)]
pub struct Frame<'a> {
    buffer: &'a mut [u8],
    start: usize,
    /// What is left to be done to it before it is as it should be on a wire.
    pub offload: Offload,
    /// How it has come from switch to switch inside this process; nothing, if it has not.
    pub trail: Option<Trail>,
}

impl<'a> Frame<'a> {
    /// The frame that begins there in the buffer and ends with it.
    ///
    /// # Panics
    ///
    /// If it would begin after the buffer's end.
    pub fn new(buffer: &'a mut [u8], start: usize, offload: Offload) -> Self {
        assert!(start <= buffer.len(), "a frame at {start} in a buffer of {}", buffer.len());
        Self { buffer, start, offload, trail: None }
    }

    /// From its Ethernet header on.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// From its Ethernet header on, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }

    /// How many bytes there is room for before it.
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Begins it so many bytes earlier, with whatever was there. Nothing happens if there is no room.
    #[must_use]
    pub fn grow_front(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let start = self.start.checked_sub(bytes)?;
        self.offload = self.offload.deeper(bytes)?;
        self.start = start;
        Some(self.bytes_mut())
    }

    /// Begins it so many bytes later. Nothing happens if it is shorter than that, or if what is to be checksummed begins before.
    #[must_use]
    pub fn shrink_front(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if bytes > self.bytes().len() {
            return None;
        }
        self.offload = self.offload.shallower(bytes)?;
        self.start += bytes;
        Some(self.bytes_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Checksum;

    #[test]
    fn a_tag_is_pushed_and_popped() {
        let offload = Offload { checksum: Some(Checksum { start: 34, offset: 16 }), segmentation: None };
        let mut buffer = [0; 64];
        buffer[4..].fill(7);
        let mut frame = Frame::new(&mut buffer, 4, offload);
        assert!(frame.grow_front(5).is_none());
        assert_eq!(frame.grow_front(4).expect("there is room").len(), 64);
        assert_eq!(frame.offload.checksum.map(|checksum| checksum.start), Some(38));
        assert!(frame.grow_front(1).is_none());
        assert!(frame.shrink_front(39).is_none(), "what is checksummed would begin before the frame");
        assert!(frame.shrink_front(65).is_none());
        assert_eq!(frame.shrink_front(4).expect("it is longer"), [7; 60]);
        assert_eq!((frame.offload, frame.headroom()), (offload, 4));
    }
}
