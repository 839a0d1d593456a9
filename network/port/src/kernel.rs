//! System calls that `rustix` does not have, with types.

#![allow(unsafe_code, reason = "these calls take structures by address")]

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr::{self, NonNull};

/// Numbers without padding, of which all values are good.
///
/// # Safety
///
/// Any bytes must be a value of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for i16 {}
// SAFETY: a number.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl<const LENGTH: usize> Plain for [u8; LENGTH] {}
// SAFETY: it consists of two numbers.
unsafe impl Plain for libc::tpacket_stats {}

// SAFETY: numbers, without padding.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: numbers, without padding.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: numbers, without padding.
unsafe impl Plain for libc::xdp_desc {}
// SAFETY: a number.
unsafe impl Plain for u64 {}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_else(|_| unreachable!("it is small"))
}

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `setsockopt`.
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads that many bytes from the value, which outlives the call.
    done(unsafe { libc::setsockopt(socket, level, name, ptr::from_ref(value).cast(), length_of::<T>()) })
}

/// `getsockopt`. What the kernel does not write is 0.
pub(crate) fn option<T: Plain>(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let (mut value, mut length) = (MaybeUninit::<T>::zeroed(), length_of::<T>());
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which are there.
    done(unsafe { libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length) })?;
    // SAFETY: all bytes were set to 0 at least, and any are a value.
    Ok(unsafe { value.assume_init() })
}

/// `bind` of a packet socket: this protocol, on this interface. With protocol 0 it only sends.
pub(crate) fn bind_to_interface(socket: impl AsFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: 17,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    bind(socket, &address)
}

/// `bind` of an XDP socket: one queue of this interface, whose frames are copied and which is to be told of those to be sent.
pub(crate) fn bind_to_queue(socket: impl AsFd, index: u32, queue: u32) -> io::Result<()> {
    bind(socket, &address_of(index, queue, libc::XDP_COPY))
}

/// `bind` of an XDP socket at the queue at which another is, whose memory and rings of that it uses, too.
pub(crate) fn bind_beside(
    socket: impl AsFd,
    index: u32,
    queue: u32,
    other: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut address = address_of(index, queue, libc::XDP_SHARED_UMEM);
    address.sxdp_shared_umem_fd = other.as_raw_fd().cast_unsigned();
    bind(socket, &address)
}

fn address_of(index: u32, queue: u32, flags: u16) -> libc::sockaddr_xdp {
    libc::sockaddr_xdp {
        sxdp_family: 44,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    }
}

fn bind<T>(socket: impl AsFd, address: &T) -> io::Result<()> {
    // SAFETY: the kernel reads that many bytes from the address, which outlives the call.
    done(unsafe { libc::bind(socket.as_fd().as_raw_fd(), ptr::from_ref(address).cast(), length_of::<T>()) })
}

/// A `struct ifreq`: the name of an interface and what is asked or told.
#[repr(C)]
struct Request<T> {
    name: [u8; libc::IFNAMSIZ],
    content: T,
    /// The kernel reads and writes 40 bytes, whatever the content.
    rest: [u8; 24],
}

/// One of the `ioctl`s that take a `struct ifreq`; answers its content. The name ends with a 0.
pub(crate) fn ask_interface<T: Plain>(
    file: impl AsFd,
    request: libc::Ioctl,
    name: [u8; libc::IFNAMSIZ],
    content: T,
) -> io::Result<T> {
    let mut asked = Request { name, content, rest: [0; 24] };
    let file = file.as_fd().as_raw_fd();
    // SAFETY: such a call reads and writes at most as many bytes as `Request` has.
    done(unsafe { libc::ioctl(file, request, &raw mut asked) })?;
    Ok(asked.content)
}

/// Speed of an interface in units of 1,000,000 bits per second (`ETHTOOL_GSET`).
pub(crate) fn ask_speed(socket: impl AsFd, name: [u8; libc::IFNAMSIZ]) -> io::Result<u32> {
    // `struct ethtool_cmd`: bytes 12 and 13, 28 and 29 are the halves of the speed.
    let [_, _, _, low, _, _, _, high, ..] = ask_driver(socket, name, 1)?;
    Ok((low & 0xffff) | (high & 0xffff) << 16)
}

/// How many queues an interface sends by (`ETHTOOL_GCHANNELS`).
pub(crate) fn ask_queues(socket: impl AsFd, name: [u8; libc::IFNAMSIZ]) -> io::Result<u32> {
    // `struct ethtool_channels`: after the command what is possible, and then how many there are to receive, to send, for other things, for both.
    let [_, _, _, _, _, _, to_send, _, for_both, ..] = ask_driver(socket, name, 0x3c)?;
    Ok(to_send.saturating_add(for_both))
}

/// What an interface's driver answers to one of the two commands above, in as many numbers as the longer structure has.
fn ask_driver(socket: impl AsFd, name: [u8; libc::IFNAMSIZ], number: u32) -> io::Result<[u32; 11]> {
    let mut command = [0; 11];
    command[0] = number;
    let mut asked = Request { name, content: command.as_mut_ptr(), rest: [0; 24] };
    // SAFETY: besides the request it writes at most the command's structure, which outlives the call.
    done(unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut asked)
    })?;
    Ok(command)
}

/// An `ioctl` that takes a number as its argument.
pub(crate) fn tell_number(file: impl AsFd, request: libc::Ioctl, number: libc::c_uint) -> io::Result<()> {
    // SAFETY: the argument is no address.
    done(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request, libc::c_ulong::from(number)) })
}

/// An `ioctl` that reads a number.
pub(crate) fn tell(file: impl AsFd, request: libc::Ioctl, number: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads a number, which outlives the call.
    done(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request, &raw const number) })
}

/// Memory shared with the kernel.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is this value's alone, but for the kernel, which does not care for threads.
unsafe impl Send for Mapping {}
// SAFETY: shared it only says where the memory is; whoever goes there has an argument of their own.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// What a file offers there.
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: at an address of the kernel's choice nothing else is.
        let at = unsafe { mmap(ptr::null_mut(), length, protection, flags, file, offset) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    /// So many bytes, 0 at first.
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: at an address of the kernel's choice nothing else is.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, flags) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    /// Where it begins: at a page.
    pub(crate) fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Its bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nothing refers to it any more. There is nobody to tell of an error.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.length) };
    }
}
