//! A network interface, asked about itself.

use crate::{Error, Link, kernel};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const ETHERNET: u16 = 1;
/// `IFF_UP`, as wide as flags are here.
const UP: i16 = 1;

/// An interface by its number, which stays when it is given another name.
#[derive(Debug)]
pub(crate) struct Interface {
    asked: OwnedFd,
    index: u32,
    name: String,
    /// As it was when the link was asked for last; 0 before.
    mtu: AtomicU32,
}

impl Interface {
    /// The one of this name in the network namespace of the calling thread.
    pub(crate) fn find(name: &str) -> Result<Self, Error> {
        field_of(name)?;
        let family = AddressFamily::INET;
        let asked = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(Error::refused(name, "a socket"))?;
        let index =
            netdevice::name_to_index(&asked, name).map_err(|_| Error::NoInterface { name: name.into() })?;
        Ok(Self { asked, index, name: name.into(), mtu: AtomicU32::new(0) })
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Its name when it was found.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that a frame may carry after its Ethernet header, as it was when [`link`](Self::link) was called last; 0 before.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu.load(Relaxed) as usize
    }

    /// Fails if frames on it have no Ethernet header.
    pub(crate) fn must_be_ethernet(&self) -> Result<(), Error> {
        let (kind, _) = self.hardware(field_of(&self.name)?).map_err(|_| self.gone())?;
        match kind {
            ETHERNET => Ok(()),
            kind => Err(Error::NotEthernet { name: self.name.clone(), kind }),
        }
    }

    /// How it is now.
    pub(crate) fn link(&self) -> Result<Link, Error> {
        let name = netdevice::index_to_name(&self.asked, self.index).map_err(|_| self.gone())?;
        let link = self.ask(field_of(&name)?).map_err(|_| self.gone())?;
        self.mtu.store(link.mtu, Relaxed);
        Ok(link)
    }

    /// Has it go up, or down.
    pub(crate) fn set_up(&self, is_up: bool) -> Result<(), Error> {
        let name = netdevice::index_to_name(&self.asked, self.index).map_err(|_| self.gone())?;
        let field = field_of(&name)?;
        let refused = |why: io::Error| Error::refused(&name, "to be set up or down")(why);
        let flags = kernel::ask_interface(&self.asked, libc::SIOCGIFFLAGS as libc::Ioctl, field, 0i16);
        let flags = flags.map_err(refused)?;
        let wanted = if is_up { flags | UP } else { flags & !UP };
        kernel::ask_interface(&self.asked, libc::SIOCSIFFLAGS as libc::Ioctl, field, wanted)
            .map_err(refused)?;
        Ok(())
    }

    /// Whether frames leave it by one queue; no, if that cannot be told.
    pub(crate) fn has_one_queue(&self) -> bool {
        field_of(&self.name)
            .is_ok_and(|name| kernel::ask_queues(&self.asked, name).is_ok_and(|queues| queues == 1))
    }

    fn ask(&self, name: [u8; libc::IFNAMSIZ]) -> io::Result<Link> {
        let flags = kernel::ask_interface(&self.asked, libc::SIOCGIFFLAGS as libc::Ioctl, name, 0i16)?;
        let mtu = kernel::ask_interface(&self.asked, libc::SIOCGIFMTU as libc::Ioctl, name, 0u32)?;
        let (_, address) = self.hardware(name)?;
        let flags = libc::c_int::from(flags);
        // Devices that do not know say so, say 0, or say -1.
        let speed = kernel::ask_speed(&self.asked, name).ok();
        let known = speed.filter(|megabits| !matches!(*megabits, 0 | 0xffff | u32::MAX));
        Ok(Link {
            is_up: flags & libc::IFF_UP != 0,
            is_running: flags & libc::IFF_RUNNING != 0,
            address,
            mtu,
            bits_per_second: known.map(|megabits| u64::from(megabits) * 1_000_000),
            index: Some(self.index),
        })
    }

    #[expect(clippy::host_endian_bytes, reason = "the hardware type is in the machine's order")]
    fn hardware(&self, name: [u8; libc::IFNAMSIZ]) -> io::Result<(u16, [u8; 6])> {
        let request = libc::SIOCGIFHWADDR as libc::Ioctl;
        let [k0, k1, a, b, c, d, e, f] = kernel::ask_interface(&self.asked, request, name, [0u8; 8])?;
        Ok((u16::from_ne_bytes([k0, k1]), [a, b, c, d, e, f]))
    }

    /// Why nothing comes in, if there is a reason.
    pub(crate) fn must_be_up(&self) -> Result<(), Error> {
        match self.link()?.is_up {
            true => Ok(()),
            false => Err(Error::Down { name: self.name.clone() }),
        }
    }

    fn gone(&self) -> Error {
        Error::Gone { name: self.name.clone() }
    }
}

/// The name as a field that ends with a 0.
pub(crate) fn field_of(name: &str) -> Result<[u8; libc::IFNAMSIZ], Error> {
    let is_good = !name.is_empty() && !name.bytes().any(|byte| matches!(byte, 0 | b'/' | b' '));
    let mut field = [0; libc::IFNAMSIZ];
    match field.get_mut(..name.len()).filter(|_| is_good && name.len() < libc::IFNAMSIZ) {
        Some(bytes) => bytes.copy_from_slice(name.as_bytes()),
        None => return Err(Error::BadName { name: name.into() }),
    }
    Ok(field)
}
