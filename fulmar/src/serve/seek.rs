//! A server looks for the others of its cluster: at the addresses in its settings, where they were when it last knew, and where
//! discovery finds servers. What is there may be of another cluster, and is passed over.

use super::beacon::Beacon;
use fulmar_dbt::remote::{Cluster, ConnectError, NodeId, Server};
use fulmar_transport::{ClusterId, Handle, Notice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a cluster is asked for whose servers may only be about to start, once a second.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// Longer than a server takes to answer that answers at all.
const ANSWER: Duration = Duration::from_secs(6);
/// So long is waited for answers that could be done without.
const MOMENT: Duration = Duration::from_millis(500);

type Met = (String, Result<Cluster, ConnectError>);

/// Asks all servers at once, and returns what they have said in this time; with one that will do, the others have only a
/// `moment` more.
fn meet_all(
    servers: impl IntoIterator<Item = String>,
    (patience, moment): (Duration, Duration),
    will_do: impl Fn(&Cluster) -> bool,
) -> Vec<Met> {
    let mut until = Instant::now() + patience;
    let (tell, told) = mpsc::channel();
    for server in servers.into_iter().collect::<BTreeSet<String>>() {
        let tell = tell.clone();
        // Who asked may have given up.
        thread::spawn(move || drop(tell.send((Cluster::meet(&server), server))));
    }
    drop(tell);
    let mut met = Vec::new();
    // Until there is nobody who could say more, or no time.
    while let Ok((found, server)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
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
            eprintln!("waiting for {}, for {TRIES} seconds: {why}", join.join(","));
            said = why;
        }
        thread::sleep(PAUSE);
    }
    unreachable!("the last attempt returns")
}

/// The cluster of a server that has been one of it before: as another tells it that answers soon, or as it was.
pub(super) fn find_again(join: &[String], beacon: &Beacon, known: Cluster) -> Cluster {
    let servers = known.map.servers.values().chain(join).cloned().chain(beacon.servers());
    let met = meet_all(servers, (MOMENT, MOMENT), |_| false);
    let mut found = None;
    for (server, cluster) in met {
        match cluster {
            Ok(cluster) if cluster.name == known.name => found = Some(cluster),
            Ok(cluster) => pass_over(&server, cluster.name, known.name),
            Err(_) => {}
        }
    }
    found.unwrap_or_else(|| {
        eprintln!("no other server answers yet; going on with what was known of the cluster");
        known
    })
}

fn pass_over(server: &str, theirs: u128, ours: u128) {
    let (theirs, ours) = (ClusterId(theirs), ClusterId(ours));
    eprintln!("{server}: a server of another cluster, {theirs}, and not of {ours}: passed over");
}

/// Tells a running server where others are that it cannot reach where it knows them.
pub(super) struct Seeker {
    cluster: u128,
    join: Vec<String>,
    /// Servers that could not be reached when last tried.
    missed: Mutex<BTreeSet<NodeId>>,
}

impl Seeker {
    /// Begins to look whenever a server is missed.
    pub(super) fn start(
        cluster: u128,
        join: Vec<String>,
        beacon: Arc<Mutex<Beacon>>,
        handle: Handle<Server>,
    ) -> Arc<Self> {
        let seeker = Arc::new(Self { cluster, join, missed: Mutex::default() });
        let own = Arc::clone(&seeker);
        thread::spawn(move || own.seek(&beacon, &handle));
        seeker
    }

    /// Hears what happens to connections.
    pub(super) fn notice(&self, notice: &Notice) {
        let mut missed = locked(&self.missed);
        match notice {
            Notice::Unreachable { peer, .. } => drop(missed.insert(*peer)),
            Notice::Connected { peer, .. } => drop(missed.remove(peer)),
            _ => {}
        }
    }

    fn is_missed(&self, server: NodeId) -> bool {
        locked(&self.missed).contains(&server)
    }

    fn seek(&self, beacon: &Mutex<Beacon>, handle: &Handle<Server>) {
        let mut strangers = BTreeSet::new();
        loop {
            thread::sleep(PAUSE);
            if locked(&self.missed).is_empty() {
                continue;
            }
            for address in self.join.iter().cloned().chain(locked(beacon).servers()).collect::<BTreeSet<_>>()
            {
                match Cluster::identify(&address) {
                    Ok((cluster, server)) if cluster == self.cluster && self.is_missed(server) => {
                        if !handle.run(move |process, _, _| process.met(server, &address)) {
                            return;
                        }
                    }
                    Ok((cluster, _)) if cluster != self.cluster => {
                        if strangers.insert((address.clone(), cluster)) {
                            pass_over(&address, cluster, self.cluster);
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
