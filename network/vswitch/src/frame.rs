//! A frame with room before it.

/// A frame in a buffer.
#[derive(Debug)]
pub struct Frame<'a> {
    buffer: &'a mut [u8],
    start: usize,
}

impl<'a> Frame<'a> {
    /// The frame that begins at `start` of a buffer and ends with it.
    pub fn new(buffer: &'a mut [u8], start: usize) -> Self {
        let start = start.min(buffer.len());
        Self { buffer, start }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Its bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }

    /// Makes it so many bytes longer, in front; nothing, if there is no room.
    pub fn grow_front(&mut self, by: usize) -> Option<()> {
        self.start = self.start.checked_sub(by)?;
        Some(())
    }

    /// Makes it so many bytes shorter, in front; nothing, if it is not as long.
    pub fn shrink_front(&mut self, by: usize) -> Option<()> {
        let start = self.start + by;
        (start <= self.buffer.len()).then(|| self.start = start)
    }
}
