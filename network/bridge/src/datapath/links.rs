//! The thread that looks at links, and sets them. To ask the kernel for one takes as long as whoever configures interfaces meanwhile, and packets do not wait for
//! that.

use super::Listener;
use fulmar_port::LinkWatch;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often links are looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// The links of a switch's ports. The thread ends when this is dropped.
pub(crate) struct Links {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

/// The interfaces behind those ports, for who sets them.
pub(crate) struct Interfaces(Arc<Watched>);

#[derive(Default)]
struct Watched {
    ports: Mutex<Ports>,
    news: Condvar,
}

#[derive(Default)]
struct Ports {
    /// By their numbers, each with that of its arrival: another port may have the number of one that has left.
    links: BTreeMap<u32, (u64, LinkWatch)>,
    arrivals: u64,
    /// Which shall be up, or down.
    wanted: BTreeMap<u32, bool>,
    /// One has arrived that was not looked at yet.
    has_new: bool,
    is_over: bool,
}

impl Links {
    /// Tells of ports that are [watched](Self::watch).
    pub(crate) fn start(name: &str, listener: Arc<impl Listener>) -> io::Result<Self> {
        let watched = Arc::new(Watched::default());
        let looked_at = Arc::clone(&watched);
        let look = move || {
            while let Some(ports) = looked_at.next() {
                for (number, arrival, link, wanted) in ports {
                    if let Some(is_up) = wanted {
                        // What the link is then says whether that went well.
                        let _ = link.set_up(is_up);
                    }
                    let found = link.link().ok();
                    let ports = looked_at.ports.lock();
                    if ports.links.get(&number).is_some_and(|(there, _)| *there == arrival) {
                        listener.link(number, found);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("{name} links")).spawn(look)?;
        Ok(Self { watched, thread: Some(thread) })
    }

    /// A port has this link, which is told now and when it changes.
    pub(crate) fn watch(&self, number: u32, link: LinkWatch) {
        let mut ports = self.watched.ports.lock();
        ports.arrivals += 1;
        let arrival = ports.arrivals;
        ports.links.insert(number, (arrival, link));
        ports.has_new = true;
        self.watched.news.notify_one();
    }

    /// The interfaces behind the ports.
    pub(crate) fn interfaces(&self) -> Interfaces {
        Interfaces(Arc::clone(&self.watched))
    }

    /// These ports have left: nothing more is told of them.
    pub(crate) fn forget(&self, numbers: &[u32]) {
        let mut ports = self.watched.ports.lock();
        ports.links.retain(|number, _| !numbers.contains(number));
        ports.wanted.retain(|number, _| !numbers.contains(number));
    }
}

impl Interfaces {
    /// The interface of a port shall be up, or down. It is set soon, by the thread that looks at links.
    pub(crate) fn set_up(&self, number: u32, is_up: bool) {
        let mut ports = self.0.ports.lock();
        ports.wanted.insert(number, is_up);
        self.0.news.notify_one();
    }
}

/// A port's number and that of its arrival, its link, and whether that shall be up from now on, or down.
type Next = (u32, u64, LinkWatch, Option<bool>);

impl Watched {
    /// What is to be looked at next, when it is time to; nothing, if it is over.
    fn next(&self) -> Option<Vec<Next>> {
        let mut ports = self.ports.lock();
        if !ports.has_new && ports.wanted.is_empty() && !ports.is_over {
            self.news.wait_for(&mut ports, PAUSE);
        }
        ports.has_new = false;
        let mut wanted = std::mem::take(&mut ports.wanted);
        let links = ports.links.iter();
        let links =
            links.map(|(number, (arrival, link))| (*number, *arrival, link.clone(), wanted.remove(number)));
        (!ports.is_over).then(|| links.collect())
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.watched.ports.lock().is_over = true;
        self.watched.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told already.
            let _ = thread.join();
        }
    }
}
