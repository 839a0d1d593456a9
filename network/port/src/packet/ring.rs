//! The ring in which the kernel puts frames (`Documentation/networking/packet_mmap.rst`), version 2: one frame in each slot, which
//! is to be seen as soon as it is there. Version 3 packs them, and holds them back for a millisecond.

#![allow(unsafe_code, reason = "the slots are memory that is shared with the kernel")]

use crate::kernel::{Mapping, set_option};
use crate::offload::HEADER;
use fulmar_packet::{ethernet, fetch_to_write};
use libc::{
    TP_STATUS_COPY, TP_STATUS_KERNEL, TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID,
};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Where the kernel's own notes in a slot end: a `tpacket2_hdr` and a `sockaddr_ll`.
const NOTES: usize = 64;
const BLOCK: usize = 1 << 16;
/// So many slots ahead memory is fetched: another processor has written it.
const AHEAD: usize = 8;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// What all rings of this process take, bytes.
static ALL_BYTES: AtomicUsize = AtomicUsize::new(0);
/// When that is so much, further rings have as few slots as a ring can do with.
const MOST_BYTES: usize = 64 << 20;
const FEWEST_SLOTS: usize = 256;

/// A ring's share in what all take.
#[derive(Debug)]
struct Share(usize);

impl Share {
    /// Of so many slots of so many bytes, if there is room for them; else of the fewest.
    fn of(slot: usize, slots: usize) -> (Self, usize) {
        let all = slot * slots;
        let add = |taken: usize| taken.checked_add(all).filter(|taken| *taken <= MOST_BYTES);
        if ALL_BYTES.fetch_update(Relaxed, Relaxed, add).is_ok() {
            return (Self(all), slots);
        }
        let slots = slots.min(FEWEST_SLOTS);
        ALL_BYTES.fetch_add(slot * slots, Relaxed);
        (Self(slot * slots), slots)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        ALL_BYTES.fetch_sub(self.0, Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    memory: Mapping,
    _share: Share,
    /// Bytes of each; a power of two, and not more than a block.
    slot: usize,
    /// So many there are: a power of two.
    slots: usize,
    /// The one that is filled next.
    next: usize,
}

/// A frame that has come.
pub(super) struct Slot<'a> {
    /// Its bytes on the wire.
    pub(super) length: usize,
    /// It is longer than the slot, and whole in the socket's queue.
    pub(super) is_queued: bool,
    /// What the kernel has taken out of it: the type of a VLAN tag, and its content.
    pub(super) tag: Option<(u16, u16)>,
    /// Room, and from `start` on the frame, as much of it as there is.
    pub(super) buffer: &'a mut [u8],
    pub(super) start: usize,
}

impl Ring {
    /// A ring for a socket, with so many slots of so many bytes, or with fewer.
    pub(super) fn new(socket: BorrowedFd<'_>, slot: usize, slots: usize) -> io::Result<Self> {
        let (share, slots) = Share::of(slot, slots);
        debug_assert!(slot.is_power_of_two() && (2 * NOTES..=BLOCK).contains(&slot));
        debug_assert!(slots.is_power_of_two() && slot * slots >= BLOCK);
        let length = slot * slots;
        let number = |number: usize| u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
        let shape = libc::tpacket_req {
            tp_block_size: number(BLOCK)?,
            tp_block_nr: number(length / BLOCK)?,
            tp_frame_size: number(slot)?,
            tp_frame_nr: number(slots)?,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &shape)?;
        Ok(Self { memory: Mapping::new(socket, 0, length)?, _share: share, slot, slots, next: 0 })
    }

    /// Has the next frame read and gives its slot back; answers whether there was one.
    pub(super) fn take(&mut self, read: impl FnOnce(Slot<'_>)) -> bool {
        let at = self.slot_at(self.next);
        // SAFETY: a slot begins with its state, aligned to its size. The kernel changes it by whole words.
        let status = unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) };
        let state = status.load(Ordering::Acquire);
        if state & TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: until the state is changed the slot is ours, and the kernel has written this at its beginning.
        let notes = unsafe { at.cast::<libc::tpacket2_hdr>().read() };
        let start = usize::from(notes.tp_mac).clamp(NOTES, self.slot);
        let end = (start + notes.tp_snaplen as usize).min(self.slot);
        self.fetch_ahead(start);
        // SAFETY: as before; it ends inside the slot, `notes` is a copy, and the state is not part of it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(at.add(NOTES).as_ptr(), end - NOTES) };
        let has_tag = state & TP_STATUS_VLAN_VALID != 0;
        let has_type = state & TP_STATUS_VLAN_TPID_VALID != 0;
        let kind = if has_type { notes.tp_vlan_tpid } else { ethernet::VLAN };
        read(Slot {
            length: notes.tp_len as usize,
            is_queued: state & TP_STATUS_COPY != 0,
            tag: has_tag.then_some((kind, notes.tp_vlan_tci)),
            buffer,
            start: start - NOTES,
        });
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = self.following(1);
        true
    }

    /// Has the lines of a later slot come near in which its state and notes are, and the beginning of a frame that lies as this one does.
    fn fetch_ahead(&self, start: usize) {
        let slot = self.slot_at(self.following(AHEAD));
        let header = start - HEADER;
        for place in [0, header, (header + LINE).min(self.slot - 1)] {
            fetch_to_write(slot.as_ptr().wrapping_add(place));
        }
    }

    fn following(&self, by: usize) -> usize {
        (self.next + by) & (self.slots - 1)
    }

    fn slot_at(&self, number: usize) -> NonNull<u8> {
        debug_assert!(number < self.slots);
        // SAFETY: its number is below that of slots, so that it is inside the memory.
        unsafe { self.memory.at().add(number * self.slot) }
    }
}
