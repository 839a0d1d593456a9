//! A port that is itself a network interface: what a host sends to it comes in here (`Documentation/networking/tuntap.rst`).

use crate::interface::{Interface, field_of};
use crate::kernel::{ask_interface, tell, tell_number};
use crate::offload::{self, HEADER};
use crate::{Error, Frame, LONGEST_FRAME, Offload, Port, Traffic, port};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, writev};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const HEADROOM: usize = 128;

/// What comes in from the host.
#[derive(Debug)]
pub struct Receiver {
    device: Arc<OwnedFd>,
    interface: Arc<Interface>,
    buffer: Box<[u8]>,
    received: Traffic,
}

/// What goes out to the host.
#[derive(Debug)]
pub struct Sender {
    device: Arc<OwnedFd>,
    sent: Traffic,
}

/// Makes a TAP device of this name, in the network namespace of the calling thread. It is down; whoever brings it up gives it an
/// address too, or moves it to where it belongs. It is there as long as the port, or a half of that.
///
/// # Errors
///
/// If there is such an interface already, or the kernel refuses: for want of `CAP_NET_ADMIN`, say.
pub fn create(name: &str) -> Result<Port, Error> {
    let field = field_of(name)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = open("/dev/net/tun", flags, Mode::empty()).map_err(Error::refused(name, "/dev/net/tun"))?;
    // A device that is there and belongs to nobody would be taken over, and would not go with this one.
    let kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
    ask_interface(&device, libc::TUNSETIFF, field, kind.cast_unsigned())
        .map_err(Error::refused(name, "to make a TAP device"))?;
    let length = libc::c_int::try_from(HEADER).unwrap_or_else(|_| unreachable!("it is short"));
    tell(&device, libc::TUNSETVNETHDRSZ, length).map_err(Error::refused(name, "virtio headers"))?;
    let segments = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let datagrams = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let checksums = libc::TUN_F_CSUM;
    tell_number(&device, libc::TUNSETOFFLOAD, checksums | segments | datagrams)
        // Kernels before 6.2 cut UDP themselves.
        .or_else(|_| tell_number(&device, libc::TUNSETOFFLOAD, checksums | segments))
        .map_err(Error::refused(name, "offloads"))?;
    let interface = Arc::new(Interface::find(name)?);
    let buffer = vec![0; HEADROOM + HEADER + LONGEST_FRAME].into();
    let device = Arc::new(device);
    let sender = Sender { device: device.clone(), sent: Traffic::default() };
    let receiver = Receiver { device, interface, buffer, received: Traffic::default() };
    Ok(Port::new(port::Receiver::Tap(receiver), port::Sender::Tap(sender)))
}

/// Gives the interface of this name, in the network namespace of the calling thread, an Ethernet address.
///
/// # Errors
///
/// If there is no such interface, or the kernel refuses: for want of `CAP_NET_ADMIN`, say.
pub fn set_address(name: &str, [a, b, c, d, e, f]: [u8; 6]) -> Result<(), Error> {
    const WHAT: &str = "another address";
    let field = field_of(name)?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(Error::refused(name, WHAT))?;
    #[expect(clippy::host_endian_bytes, reason = "a structure's number is in the machine's order")]
    let [family, rest] = libc::ARPHRD_ETHER.to_ne_bytes();
    let told = [family, rest, a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0];
    ask_interface(&socket, libc::SIOCSIFHWADDR as libc::Ioctl, field, told)
        .map_err(Error::refused(name, WHAT))?;
    Ok(())
}

impl Receiver {
    pub(crate) fn receive(&mut self, limit: usize, mut each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        while count < limit {
            let length = match read(&self.device, &mut self.buffer[HEADROOM..]) {
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(Errno::BADFD | Errno::IO) => {
                    return Err(Error::Gone { name: self.interface.name().into() });
                }
                Err(why) => return Err(Error::refused(self.interface.name(), "to read")(why)),
            };
            count += 1;
            let (header, frame) = self.buffer[..HEADROOM + length].split_at(HEADROOM + HEADER);
            let offload = header.last_chunk().and_then(|header| offload::read(*header));
            let Some(offload) = offload else {
                self.received.errors += 1;
                continue;
            };
            self.received.count(frame.len());
            each(Frame::new(&mut self.buffer[..HEADROOM + length], HEADROOM + HEADER, offload));
        }
        Ok(count)
    }

    pub(crate) fn received(&self) -> Traffic {
        self.received
    }

    pub(crate) const fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Sender {
    pub(crate) fn send(&mut self, frame: &[u8], offload: Offload) {
        let header = offload::write(offload);
        match writev(&self.device, &[IoSlice::new(&header), IoSlice::new(frame)]) {
            Ok(_) => self.sent.count(frame.len()),
            Err(Errno::AGAIN | Errno::NOBUFS) => self.sent.dropped += 1,
            Err(_) => self.sent.errors += 1,
        }
    }

    pub(crate) fn sent(&self) -> Traffic {
        self.sent
    }
}
