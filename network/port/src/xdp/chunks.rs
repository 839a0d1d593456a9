//! The memory in which an XDP socket's frames are: chunks of one size, each of which is the kernel's or the program's.

#![allow(unsafe_code, reason = "the chunks are memory that is shared with the kernel")]

use crate::kernel::{Mapping, set_option};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Large enough for a frame of 1,514 bytes and the room before it. (The kernel allows 4,096, too.)
pub(super) const CHUNK: usize = 2048;

/// All of them, or one of the halves. Clones are the same chunks: each chunk is one's alone that has it from the kernel, or from a [`Stock`](super::stock::Stock).
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    memory: Arc<Mapping>,
    addresses: Range<usize>,
}

impl Chunks {
    /// So many chunks, registered with a socket that keeps so much room before the frames it receives.
    pub(super) fn new(socket: BorrowedFd<'_>, count: usize, headroom: u32) -> io::Result<Self> {
        let memory = Mapping::anonymous(count * CHUNK)?;
        let chunk_size = u32::try_from(CHUNK).map_err(|_| io::ErrorKind::InvalidInput)?;
        let region = libc::xdp_umem_reg {
            addr: memory.at().as_ptr().expose_provenance() as u64,
            len: memory.length() as u64,
            chunk_size,
            headroom,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)?;
        Ok(Self { addresses: 0..memory.length(), memory: Arc::new(memory) })
    }

    /// Two halves, of an even number of chunks.
    pub(super) fn halves(self) -> [Self; 2] {
        let Range { start, end } = self.addresses;
        let middle = start.midpoint(end);
        [start..middle, middle..end].map(|addresses| Self { memory: self.memory.clone(), addresses })
    }

    /// The addresses of all chunks.
    pub(super) fn each(&self) -> impl Iterator<Item = u64> {
        self.addresses.clone().step_by(CHUNK).map(|address| address as u64)
    }

    /// Which of the chunks begins at this address, if one does.
    pub(super) fn place(&self, address: u64) -> Option<usize> {
        let address = usize::try_from(address).ok().filter(|address| self.addresses.contains(address))?;
        let from_start = address - self.addresses.start;
        from_start.is_multiple_of(CHUNK).then_some(from_start / CHUNK)
    }

    /// The chunk in which this address is, and the place of the address in it. The caller has it from the kernel or a stock, and has not given it
    /// back since, so that nobody else changes it; nor is there another slice, as this one borrows the caller's chunks, and a chunk is one's alone.
    ///
    /// # Panics
    ///
    /// If the address is outside.
    pub(super) fn around(&mut self, address: u64) -> (&mut [u8], usize) {
        let address = usize::try_from(address).unwrap_or(usize::MAX);
        assert!(self.addresses.contains(&address), "an address of these chunks");
        let start = address - address % CHUNK;
        // SAFETY: the chunk is inside the memory; of what else there may be to it see above.
        let chunk = unsafe { std::slice::from_raw_parts_mut(self.memory.at().add(start).as_ptr(), CHUNK) };
        (chunk, address - start)
    }
}
