//! Names of hosts, looked up beside a server's thread: a name server may take many seconds to answer, and meanwhile nobody else is to wait.

use crate::Address;
use fulmar_locks::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// What was found is looked up again when it is needed after so long.
const FRESH: Duration = Duration::from_secs(2);

/// Finds out where names lead, on a thread of its own.
///
/// *Known as:* an asynchronous resolver with a cache.
#[derive(Debug)]
pub struct Resolver {
    known: Arc<Mutex<BTreeMap<String, Known>>>,
    wanted: Sender<String>,
}

/// What is known of a name.
#[derive(Debug, Default)]
struct Known {
    address: Option<Address>,
    /// Why it leads nowhere, if that is the last that was heard of it.
    failure: Option<String>,
    /// When that was found out.
    since: Option<Instant>,
    is_wanted: bool,
}

impl Resolver {
    /// With nothing known yet.
    ///
    /// # Errors
    /// What the system says if it gives no more threads.
    pub fn new() -> io::Result<Self> {
        Self::by(|name| {
            let mut found = name.to_socket_addrs()?;
            found.next().map(Address::from).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn by(mut find: impl FnMut(&str) -> io::Result<Address> + Send + 'static) -> io::Result<Self> {
        let known = Arc::new(Mutex::new(BTreeMap::<String, Known>::new()));
        let (wanted, names) = mpsc::channel::<String>();
        let found = Arc::clone(&known);
        // It ends with the resolver, or when what it looks for then was found.
        thread::Builder::new().name("resolver".into()).spawn(move || {
            for name in names {
                let address = find(&name);
                let mut found = found.lock();
                let known = found.entry(name).or_default();
                known.failure = address.as_ref().err().map(ToString::to_string);
                // Where a name server does not answer, all is where it was.
                known.address = address.ok().or_else(|| known.address.take());
                (known.since, known.is_wanted) = (Some(Instant::now()), false);
            }
        })?;
        Ok(Self { known, wanted })
    }

    /// Where `HOST:PORT` leads, the first place of several, as far as that is known: a name that was not asked for before is looked up
    /// meanwhile, and so is one that was found long ago.
    ///
    /// # Errors
    /// Why a name leads nowhere.
    pub fn find(&self, name: &str) -> Result<Option<Address>, String> {
        if let Ok(address) = name.parse::<Address>() {
            return Ok(Some(address));
        }
        let mut all = self.known.lock();
        let known = all.entry(name.into()).or_default();
        let is_fresh = known.since.is_some_and(|since| since.elapsed() < FRESH);
        if !is_fresh && !std::mem::replace(&mut known.is_wanted, true) {
            // The thread lives as long as this.
            let _ = self.wanted.send(name.into());
        }
        match (&known.address, &known.failure) {
            (None, Some(why)) => Err(why.clone()),
            (address, _) => Ok(address.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_name_server() {
        let (answer, answers) = mpsc::channel::<io::Result<Address>>();
        let (ask, asked) = mpsc::channel();
        let resolver = Resolver::by(move |name| {
            ask.send(name.to_owned()).expect("the test waits for it");
            answers.recv().expect("the test answers")
        });
        let resolver = resolver.expect("a thread");
        let own: Address = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(resolver.find("127.0.0.1:1"), Ok(Some(own.clone())));
        for _ in 0..3 {
            assert_eq!(resolver.find("gecko:1"), Ok(None), "it is being looked up");
        }
        assert_eq!(asked.recv().as_deref(), Ok("gecko:1"));
        answer.send(Ok(own.clone())).expect("it waits");
        // The second is asked for when the first is known.
        assert_eq!(resolver.find("heron:1"), Ok(None));
        assert_eq!(asked.recv().as_deref(), Ok("heron:1"));
        assert_eq!(resolver.find("gecko:1"), Ok(Some(own)));
        answer.send(Err(io::ErrorKind::NotFound.into())).expect("it waits");
        assert_eq!(resolver.find("ibis:1"), Ok(None));
        assert_eq!(asked.recv().as_deref(), Ok("ibis:1"));
        assert!(resolver.find("heron:1").is_err(), "it was asked for once");
        answer.send(Err(io::ErrorKind::NotFound.into())).expect("it waits");
    }
}
