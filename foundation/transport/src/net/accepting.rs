//! Connections that come in, and the sockets that listen for them.

use super::{FIRST_DOOR, Net, Stage};
use crate::address::Listener;
use crate::link::{Link, LinkError};
use crate::notice::Notice;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::os::fd::OwnedFd;

#[derive(Debug)]
pub(super) struct Door {
    socket: OwnedFd,
    /// Watched by epoll: there is room, and the system gives connections.
    pub(super) open: bool,
}

impl Net {
    pub(crate) fn listen(&mut self, Listener(socket): Listener) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let name = FIRST_DOOR + self.doors.len() as u64;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(name), epoll::EventFlags::IN)?;
        self.doors.push(Door { socket, open: true });
        Ok(())
    }

    pub(super) fn accept(&mut self, at: usize) {
        let most = self.limits.connections + self.waiting_room;
        let mut first = 0;
        while self.connections.len() < most || self.clear_waiting(&mut first) {
            let accepted = match accept_with(&self.doors[at].socket, SocketFlags::CLOEXEC) {
                Ok(socket) => Link::accepted(socket, self.limits.dead),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    self.notices.push(Notice::CannotAccept(error.into()));
                    break;
                }
            };
            // An error here is a connection that has ended already.
            let added =
                accepted.map_err(LinkError::from).and_then(|link| self.add(link, Stage::Hello, false));
            if let Err(why) = added {
                self.notices.push(Notice::Unknown { address: "an unknown address".into(), why });
            }
        }
        self.set_door(at, false);
    }

    pub(super) fn set_door(&mut self, at: usize, open: bool) {
        let door = &mut self.doors[at];
        if door.open != open {
            let name = epoll::EventData::new_u64(FIRST_DOOR + at as u64);
            let interest = if open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
            if epoll::modify(&self.epoll, &door.socket, name, interest).is_ok() {
                door.open = open;
            }
        }
        self.plan_sweep();
    }
}
