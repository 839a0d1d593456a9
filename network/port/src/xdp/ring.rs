//! One of the four rings between a program and an XDP socket (`Documentation/networking/af_xdp.rst`).

#![allow(unsafe_code, reason = "the rings are memory that is shared with the kernel")]

use crate::kernel::{Mapping, Plain, set_option};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring of entries that one side puts in and the other takes out.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    length: u32,
    /// How many entries this side has put in, or taken out.
    position: u32,
    entries: PhantomData<T>,
}

impl<T: Plain> Ring<T> {
    /// The ring that an option of the socket makes and that is to be found there, with so many entries: a power of two.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        option: libc::c_int,
        place: u64,
        offsets: libc::xdp_ring_offset,
        length: u32,
    ) -> io::Result<Self> {
        debug_assert!(length.is_power_of_two());
        set_option(socket, libc::SOL_XDP, option, &length)?;
        let end = usize::try_from(offsets.desc).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = Mapping::new(socket, place, end + length as usize * size_of::<T>())?;
        Ok(Self { memory, offsets, length, position: 0, entries: PhantomData })
    }

    /// As producer: the number of entries that there is room for.
    pub(super) fn room(&self) -> u32 {
        self.length - self.position.wrapping_sub(self.counter(self.offsets.consumer).load(Ordering::Acquire))
    }

    /// As producer: puts an entry where there must be room. The other side sees it when it is published.
    pub(super) fn put(&mut self, entry: T) {
        debug_assert!(self.room() > 0);
        // SAFETY: the place is in the ring, and this side's until it is published.
        unsafe { self.entry(self.position).write(entry) };
        self.position = self.position.wrapping_add(1);
    }

    /// As producer: shows all that was put.
    pub(super) fn publish(&self) {
        self.publish_some(self.length);
    }

    /// As producer: shows what was put, as far as there are then no more than so many entries that the other side has not taken.
    pub(super) fn publish_some(&self, limit: u32) {
        let behind = self.left().saturating_sub(limit);
        self.counter(self.offsets.producer).store(self.position.wrapping_sub(behind), Ordering::Release);
    }

    /// As producer: how many entries the other side has not taken.
    pub(super) fn left(&self) -> u32 {
        self.length - self.room()
    }

    /// As producer: answers all entries that the other side has not taken. Of those that it was shown, this other one is in their places then.
    /// It must not be looking at them.
    pub(super) fn take_back(&mut self, other: T) -> Vec<T> {
        let places = (1..=self.left()).rev().map(|back| self.entry(self.position.wrapping_sub(back)));
        // SAFETY: these places in the ring were written, and nobody else looks at them.
        let taken = places.map(|place| unsafe { place.replace(other) }).collect();
        self.position = self.counter(self.offsets.producer).load(Ordering::Relaxed);
        taken
    }

    /// As consumer: takes the next entry, if there is one.
    pub(super) fn take(&mut self) -> Option<T> {
        if self.counter(self.offsets.producer).load(Ordering::Acquire) == self.position {
            return None;
        }
        // SAFETY: the place is in the ring, and this side's until it is released. Any bytes are an entry.
        let entry = unsafe { self.entry(self.position).read() };
        self.position = self.position.wrapping_add(1);
        Some(entry)
    }

    /// As consumer: gives the places of all that was taken back.
    pub(super) fn release(&self) {
        self.counter(self.offsets.consumer).store(self.position, Ordering::Release);
    }

    fn entry(&self, position: u32) -> NonNull<T> {
        let entries = self.at(self.offsets.desc).cast::<T>();
        // SAFETY: the memory was made as long as all entries need.
        unsafe { entries.add((position & (self.length - 1)) as usize) }
    }

    fn counter(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says that there is one, before the entries, and it changes it by whole words.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast().as_ptr()) }
    }

    fn at(&self, offset: u64) -> NonNull<u8> {
        let offset = usize::try_from(offset).unwrap_or_else(|_| unreachable!("it is inside the memory"));
        assert!(offset < self.memory.length(), "the kernel's offsets are those of this ring");
        // SAFETY: it is inside.
        unsafe { self.memory.at().add(offset) }
    }
}
