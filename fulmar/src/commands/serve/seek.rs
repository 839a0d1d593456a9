//! A server looks for the others of its cluster: at the addresses in its settings, where they were when it last knew, and where
//! discovery finds servers. What is there may be of another cluster, and is passed over.

use super::beacon::Beacon;
use fulmar_cluster::{Cluster, ConnectError, Identity, NodeId, Server};
use fulmar_transport::{ClusterId, Handle, Notice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a cluster is asked for whose servers may only be about to start, once a second.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// Longer than a server takes to answer that answers at all.
const ANSWER: Duration = Duration::from_secs(6);
/// So long is waited for answers that could be done without.
const MOMENT: Duration = Duration::from_millis(500);
/// So long by who has been here before: after a power cut all others wait likewise, and what is newer is told later, too.
const AGAIN: Duration = Duration::from_millis(200);
/// So long, if there is one that is as good.
const BRIEFLY: Duration = Duration::from_millis(100);
/// A server is missed for so long before it is looked for the first time. Each time takes twice as long, up to [`PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(25);

type Met<A> = (String, Result<A, ConnectError>);

/// Asks all servers at once. What they say comes in, until there is nobody who could say more.
fn ask_all<A: Send + 'static>(
    servers: impl IntoIterator<Item = String>,
    ask: fn(&str) -> Result<A, ConnectError>,
) -> Receiver<Met<A>> {
    let (tell, told) = mpsc::channel();
    for server in servers.into_iter().collect::<BTreeSet<String>>() {
        let tell = tell.clone();
        // Who asked may have given up.
        thread::spawn(move || {
            let found = ask(&server);
            drop(tell.send((server, found)));
        });
    }
    told
}

/// What the servers know of their cluster that say so in this time; with one that will do, the others have only a `moment` more.
fn meet_all(
    servers: impl IntoIterator<Item = String>,
    (patience, moment): (Duration, Duration),
    will_do: impl Fn(&Cluster) -> bool,
) -> Vec<Met<Cluster>> {
    let mut until = Instant::now() + patience;
    let told = ask_all(servers, Cluster::meet);
    let mut met = Vec::new();
    while let Ok((server, found)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if found.as_ref().is_ok_and(&will_do) {
            until = until.min(Instant::now() + moment);
        }
        met.push((server, found));
    }
    met
}

/// The cluster that a new server is to be one of: that of the servers in its settings; if none of these answers, that of those
/// which discovery finds from there.
pub(super) fn find(join: &[String], beacon: &Beacon) -> Result<Cluster, String> {
    let mut said = String::new();
    for attempt in 1.. {
        let mut met = meet_all(join.iter().cloned(), (ANSWER, MOMENT), |_| true);
        if met.iter().all(|(_, found)| found.is_err()) {
            met.extend(meet_all(beacon.servers(), (ANSWER, MOMENT), |_| true));
        }
        let mut failure = None;
        let mut clusters = BTreeMap::new();
        for (server, found) in met {
            match found {
                Ok(cluster) => drop(clusters.insert(cluster.name, (server, cluster))),
                Err(why) => failure = failure.or_else(|| Some(why.to_string())),
            }
        }
        if let Some((one, (here, cluster))) = clusters.pop_first() {
            return match clusters.pop_first() {
                None => Ok(cluster),
                Some((other, (there, _))) => Err(format!(
                    "{here} is a server of cluster {one:032x}, and {there} of {other:032x}: name servers of the one to join"
                )),
            };
        }
        let why = failure.unwrap_or_else(|| format!("{} does not answer", join.join(",")));
        if attempt == TRIES {
            return Err(why);
        }
        if why != said {
            tracing::info!("waiting for {}, for {TRIES} seconds: {why}", join.join(","));
            said = why;
        }
        thread::sleep(PAUSE);
    }
    unreachable!("the last attempt returns")
}

/// The cluster of a server that has been one of it before: as another tells it that answers soon, or as it was.
pub(super) fn find_again(join: &[String], beacon: &Beacon, known: Cluster) -> Cluster {
    let servers = known.map.servers.values().chain(join).cloned().chain(beacon.servers());
    let met = meet_all(servers, (AGAIN, BRIEFLY), |cluster| cluster.name == known.name);
    let mut found: Option<Cluster> = None;
    for (server, cluster) in met {
        match cluster {
            Ok(cluster) if cluster.name == known.name => {
                let newer = found.take().filter(|found| found.map.version > cluster.map.version);
                found = Some(newer.unwrap_or(cluster));
            }
            Ok(cluster) => pass_over(&server, cluster.name, known.name),
            Err(_) => {}
        }
    }
    found.unwrap_or_else(|| {
        tracing::info!("no other server answers yet; going on with what was known of the cluster");
        known
    })
}

fn pass_over(server: &str, theirs: u128, ours: u128) {
    let (theirs, ours) = (ClusterId(theirs), ClusterId(ours));
    tracing::info!("{server}: a server of another cluster, {theirs}, and not of {ours}: passed over");
}

/// Tells a running server where others are that it cannot reach where it knows them.
pub(super) struct Seeker {
    cluster: u128,
    join: Vec<String>,
    /// Servers that have not answered since they were last tried.
    missed: Mutex<BTreeSet<NodeId>>,
    is_any_missed: Condvar,
}

impl Seeker {
    /// Begins to look whenever a server is missed.
    pub(super) fn start(
        cluster: u128,
        join: Vec<String>,
        beacon: Arc<Mutex<Beacon>>,
        handle: Handle<Server>,
    ) -> Arc<Self> {
        let seeker = Arc::new(Self::new(cluster, join));
        let own = Arc::clone(&seeker);
        thread::spawn(move || own.seek(&beacon, &handle));
        seeker
    }

    fn new(cluster: u128, join: Vec<String>) -> Self {
        Self { cluster, join, missed: Mutex::default(), is_any_missed: Condvar::new() }
    }

    /// Hears what happens to connections. An address that nobody has any more may be silent for seconds, so a server is missed
    /// from the first attempt on, and not only when that has failed.
    pub(super) fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Connecting { peer, .. } | Notice::Unreachable { peer, .. } => {
                locked(&self.missed).insert(*peer);
                self.is_any_missed.notify_one();
            }
            Notice::Connected { peer, .. } => drop(locked(&self.missed).remove(peer)),
            _ => {}
        }
    }

    fn is_missed(&self, server: NodeId) -> bool {
        locked(&self.missed).contains(&server)
    }

    /// Returns when a server is missed; whether none was before.
    fn await_missed(&self) -> bool {
        let missed = locked(&self.missed);
        let is_new = missed.is_empty();
        // Woken or not, whoever holds the lock sees who is missed.
        drop(self.is_any_missed.wait_while(missed, |missed| missed.is_empty()));
        is_new
    }

    fn seek(&self, beacon: &Mutex<Beacon>, handle: &Handle<Server>) {
        let mut strangers = BTreeSet::new();
        let mut pause = FIRST_PAUSE;
        loop {
            pause = if self.await_missed() { FIRST_PAUSE } else { PAUSE.min(pause * 2) };
            thread::sleep(pause);
            if locked(&self.missed).is_empty() {
                continue;
            }
            let servers = self.join.iter().cloned().chain(locked(beacon).servers());
            // Nobody waits for a name that the system does not find.
            let until = Instant::now() + 2 * PAUSE;
            let told = ask_all(servers, |place| Cluster::identify(place, PAUSE));
            while let Ok((place, found)) = told.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                match found {
                    Ok(Identity { cluster, server, address })
                        if cluster == self.cluster && self.is_missed(server) =>
                    {
                        if !(handle.run(move |process, _, _| process.met(server, &place))
                            && handle.address(server, address))
                        {
                            return;
                        }
                    }
                    Ok(Identity { cluster, .. }) if cluster != self.cluster => {
                        if strangers.insert((place.clone(), cluster)) {
                            pass_over(&place, cluster, self.cluster);
                        }
                    }
                    // It is tried again.
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_tried_is_missed_until_it_answers() {
        let seeker = Seeker::new(1, Vec::new());
        let peer = NodeId(1);
        let address = "127.0.0.1:7400".parse().expect("an address");
        seeker.notice(&Notice::Connecting { peer, address });
        assert!(seeker.is_missed(peer) && !seeker.await_missed(), "it need not have failed yet");
        seeker.notice(&Notice::Connected { peer, address: "127.0.0.1:7400".into() });
        assert!(!seeker.is_missed(peer));
    }
}
