//! A replica's directory: whose it is, and its records.

use crate::chance::by_chance;
use crate::journal::{Journal, JournalError};
use crate::{Application, Charter};
use fulmar_files::{FileLock, lock_file, open_file, write_whole};
use fulmar_node::NodeId;
use fulmar_replication::applications::{Locks, Timestamps};
use fulmar_replication::{Member, Record};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// What a replica founds its group with.
const FOUNDER: u64 = 0;
const NAME: &str = "REPLICA";
const JOURNAL: &str = "journal";
const LOCK: &str = "LOCK";

/// A directory in which a replica cannot live.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The system says so.
    #[error("{path}: {why}")]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What it says.
        why: io::Error,
    },
    /// Another process is there.
    #[error("{0}: in use by another process")]
    InUse(PathBuf),
    /// The directory is another replica's.
    #[error("{path}: belongs to {theirs}; expected {ours}")]
    Other {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        theirs: String,
        /// Whose it should be.
        ours: String,
    },
    /// What says whose it is cannot be read.
    #[error("{0}: not written by fulmar")]
    Malformed(PathBuf),
    /// It has lived before.
    #[error(
        "{0}: the replica was started before, and a group is founded once; start it without `--found`. If its group was never \
         founded, or is to be another one, start it with an empty directory"
    )]
    Founded(PathBuf),
    /// What is replicated has no such state.
    #[error(
        "{path}: has a state that is none of {application}; with an empty directory the replica comes back as another incarnation, to \
         which the others give the state"
    )]
    State {
        /// Which journal.
        path: PathBuf,
        /// What is replicated.
        application: Application,
    },
    /// Its records cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Where a replica lives, while no other process does.
#[derive(Debug)]
pub(crate) struct ReplicaDirectory {
    pub(crate) member: Member,
    pub(crate) journal: Journal,
    pub(crate) records: Vec<Record>,
    _lock: FileLock,
}

impl ReplicaDirectory {
    /// That of the replica `me`, made if need be. It is a founder if it says so before it has ever lived; else its incarnation
    /// is a number that never was.
    pub(crate) fn open(
        path: &Path,
        charter: &Charter,
        me: NodeId,
        founds: bool,
    ) -> Result<Self, DirectoryError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |why| DirectoryError::Io { path, why }
        };
        make(path).map_err(failed(path))?;
        let lock_path = path.join(LOCK);
        // Whoever may read it may hold it, and keep the replica from starting.
        let lock = lock_file(&lock_path, 0o660).map_err(failed(&lock_path))?;
        let lock = lock.ok_or_else(|| DirectoryError::InUse(path.into()))?;
        let (name, journal) = (path.join(NAME), path.join(JOURNAL));
        let ours = format!("replica {} of {charter}", charter.members.address(me).unwrap_or_default());
        let known = open_file(&name, OpenOptions::new().read(true)).and_then(io::read_to_string);
        let incarnation = match known {
            Ok(_) if founds => return Err(DirectoryError::Founded(path.into())),
            Ok(text) => read(&text, &ours, &name)?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let incarnation = if founds { FOUNDER } else { by_chance().map_err(failed(path))? };
                Journal::create(&journal)?;
                // Last: with its name a replica has lived, and is to have a journal.
                let text = format!("{ours}\nincarnation {incarnation}\n");
                write_whole(&name, text.as_bytes(), 0o666).map_err(failed(&name))?;
                incarnation
            }
            Err(why) => return Err(failed(&name)(why)),
        };
        let (application, path) = (charter.application, journal);
        let (journal, records) = Journal::open(&path)?;
        if !records.iter().all(|record| has_state_of(application, record)) {
            return Err(DirectoryError::State { path, application });
        }
        Ok(Self { member: Member { node: me, incarnation }, journal, records, _lock: lock })
    }

    /// Whether it has nothing, and others have to let it in.
    pub(crate) fn is_strange(&self) -> bool {
        self.records.is_empty() && self.member.incarnation != FOUNDER
    }
}

/// Whether the state in a record, if there is one, is such as this application's.
fn has_state_of(application: Application, record: &Record) -> bool {
    let (Record::Checkpoint(state) | Record::Adopt(state)) = record else { return true };
    match application {
        Application::Timestamps => state.is_of::<Timestamps>(),
        Application::Locks => state.is_of::<Locks>(),
    }
}

/// Makes a directory that is still there after a crash.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or_else(|| Path::new("."));
    make(parent)?;
    match fs::create_dir(path) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(why),
        _ => File::open(parent)?.sync_all(),
    }
}

/// The incarnation of a replica, if this is what its name says.
fn read(text: &str, ours: &str, path: &Path) -> Result<u64, DirectoryError> {
    let malformed = || DirectoryError::Malformed(path.into());
    let (theirs, incarnation) = text.split_once("\nincarnation ").ok_or_else(malformed)?;
    if theirs != ours {
        let (theirs, ours) = (theirs.into(), ours.into());
        return Err(DirectoryError::Other { path: path.into(), theirs, ours });
    }
    incarnation.strip_suffix('\n').and_then(|number| number.parse().ok()).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Members;
    use fulmar_node::{Lsn, Outbox, Process, Time};
    use fulmar_replication::{ClientId, Group, Message, Options, Protocol, Replica, SequenceNumber};
    use fulmar_transport::Log as _;

    fn charter(application: Application) -> Charter {
        let members = Members::new(["a:1", "b:1", "c:1"]).expect("three");
        Charter { application, members, protocol: Protocol::Viewstamped }
    }

    #[test]
    fn a_replica_is_a_founder_only_in_its_first_life() {
        let directory = tempfile::tempdir().expect("a directory");
        let charter = charter(Application::Locks);
        let open = |name: &str, founds| {
            let opened = ReplicaDirectory::open(
                &directory.path().join("made").join(name),
                &charter,
                NodeId(1),
                founds,
            );
            opened.map(|opened| (opened.member.incarnation, opened.is_strange()))
        };
        assert_eq!(open("a", true).expect("new"), (0, false));
        assert_eq!(open("a", false).expect("the same"), (0, false));
        assert!(matches!(open("a", true), Err(DirectoryError::Founded(_))));
        let (first, is_strange) = open("b", false).expect("new");
        assert!(first > 0 && is_strange);
        assert_eq!(open("b", false).expect("the same"), (first, true));
        assert_ne!(open("c", false).expect("new").0, first);
        // Who has lost its records alone is not who it was either.
        fs::remove_file(directory.path().join("made/a").join(JOURNAL)).expect("it was there");
        assert!(matches!(open("a", false), Err(DirectoryError::Journal(JournalError::Io { .. }))));
    }

    /// The records of a replica, alone in its group, after it has given a timestamp.
    fn records_with_a_state() -> Vec<Record> {
        let group = Group::new([NodeId(0)], Protocol::Viewstamped).expect("one");
        let (me, options) = (group.members()[0], Options { checkpoint: 1, ..Options::default() });
        let mut replica = Replica::new(me, group, options, Timestamps::default(), &[]);
        let (mut out, mut records) = (Outbox::default(), Vec::new());
        replica.start(Time::ZERO, &mut out);
        let request = Message::Request {
            client: ClientId(1),
            epoch: 0,
            session: SequenceNumber(0),
            number: 1,
            operation: Timestamps::take(1).into(),
            is_query: false,
        };
        let mut request = Some(request);
        for _ in 0..2 {
            records.append(&mut out.records.clone());
            out.clear();
            replica.durable(Time::ZERO, Lsn(records.len() as u64), &mut out);
            request.take().into_iter().for_each(|request| {
                replica.receive(Time::ZERO, NodeId(9), request, &mut out);
            });
        }
        records.append(&mut out.records.clone());
        records
    }

    #[test]
    fn a_state_of_something_else_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |application: Application| directory.path().join(application.to_string());
        let open = |application| {
            ReplicaDirectory::open(&path(application), &charter(application), NodeId(1), true).map(drop)
        };
        let (from, to) = (Application::Timestamps, Application::Locks);
        open(from).and_then(|()| open(to)).expect("new");
        let (mut journal, _) = Journal::open(&path(from).join(JOURNAL)).expect("it is there");
        let records = records_with_a_state();
        assert!(records.iter().any(|record| matches!(record, Record::Checkpoint(_))));
        journal.append(&records).and_then(|()| journal.sync()).expect("there is room");
        let again = |application| {
            ReplicaDirectory::open(&path(application), &charter(application), NodeId(1), false).map(drop)
        };
        again(from).expect("its own");
        fs::copy(path(from).join(JOURNAL), path(to).join(JOURNAL)).expect("there is room");
        let complaint = again(to).expect_err("another's").to_string();
        assert!(complaint.ends_with("to which the others give the state"), "{complaint}");
        assert!(complaint.contains("journal: has a state that is none of locks"), "{complaint}");
    }

    #[test]
    fn a_directory_is_one_replicas() {
        let directory = tempfile::tempdir().expect("a directory");
        let locks = charter(Application::Locks);
        let open =
            |charter: &Charter, node| ReplicaDirectory::open(directory.path(), charter, NodeId(node), false);
        let held = open(&locks, 1).expect("new");
        assert!(matches!(open(&locks, 1), Err(DirectoryError::InUse(_))));
        drop(held);
        for (charter, node) in [(charter(Application::Timestamps), 1), (locks.clone(), 2)] {
            let complaint = open(&charter, node).expect_err("another's").to_string();
            assert!(complaint.contains("belongs to replica a:1 of locks on a:1, b:1, c:1"), "{complaint}");
        }
        fs::write(directory.path().join(NAME), "birds").expect("it is there");
        assert!(matches!(open(&locks, 1), Err(DirectoryError::Malformed(_))));
    }
}
