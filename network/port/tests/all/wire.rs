//! A wire made of two ports, in a thread: the smallest switch.

use fulmar_port::{Frame, Port};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::Scope;

/// A wire, which ends with this value.
pub(crate) struct Wire(OwnedFd);

impl Wire {
    /// Forwards between two ports that are made where the thread is; what is done to each frame on its way, and from which it comes.
    pub(crate) fn between<'scope>(
        scope: &'scope Scope<'scope, '_>,
        open: impl FnOnce() -> [Port; 2] + Send + 'scope,
        mut does: impl FnMut(usize, &mut Frame<'_>) + Send + 'scope,
    ) -> Self {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("a signal");
        let stopped = stop.try_clone().expect("another file");
        let (ready, is_ready) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut ports = open();
            ready.send(()).expect("somebody waits");
            loop {
                let [first, second] = &mut ports;
                let mut count = forward(first, second, |frame| does(0, frame));
                count += forward(second, first, |frame| does(1, frame));
                if count == 0 {
                    let mut all = [stopped.as_fd(), ports[0].as_fd(), ports[1].as_fd()]
                        .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
                    poll(&mut all, None).expect("it polls");
                    if !all[0].revents().is_empty() {
                        return;
                    }
                }
            }
        });
        is_ready.recv().expect("the ports are open");
        Self(stop)
    }
}

fn forward(from: &mut Port, to: &mut Port, mut does: impl FnMut(&mut Frame<'_>)) -> usize {
    let count = from
        .receive(64, |mut frame| {
            does(&mut frame);
            to.send(frame.bytes(), frame.offload);
        })
        .expect("the interface is up");
    to.flush();
    count
}

impl Drop for Wire {
    fn drop(&mut self) {
        rustix::io::write(&self.0, &[0, 0, 0, 0, 0, 0, 0, 1]).expect("it is far from full");
    }
}
