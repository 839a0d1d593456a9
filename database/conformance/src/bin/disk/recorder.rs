//! What is watched, what was done there, and which call fails.

use crate::interpose;
use fulmar_conformance::disk::failures::{Fault, Nature};
use fulmar_conformance::disk::trace::{FileId, Operation};
use fulmar_locks::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A call that changes something, but for opening and writing.
#[derive(Clone, Copy)]
pub(crate) enum Call<'a> {
    Sync,
    SyncData,
    Resize(u64),
    Rename(&'a Path),
    Remove,
    RemoveDirectory,
    MakeDirectory,
}

/// What becomes of a call that writes.
pub(crate) enum Verdict {
    /// It writes no more than so many bytes.
    Takes(usize),
    /// It answers this error.
    Fails(i32),
}

struct Recorder {
    /// Absolute.
    root: PathBuf,
    trace: File,
    open: HashMap<RawFd, Open>,
    names: HashMap<PathBuf, FileId>,
    next_file: FileId,
    fault: Option<Fault>,
    /// Calls that could have failed.
    calls: u64,
    /// Calls that failed or were cut short.
    struck: u64,
}

#[derive(Clone)]
enum Open {
    Directory(PathBuf),
    File(FileId),
}

/// Spares all other writing a lock. Set once, before there are threads.
static WATCHING: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Watches `root`, a directory of absolute path: appends to `trace` how to make what is there already, and from now on
/// what is done there; lets the calls fail that `fault` says.
pub(crate) fn watch(root: &Path, trace: File, fault: Option<Fault>) -> io::Result<()> {
    let mut recorder = Recorder {
        root: root.into(),
        trace,
        open: HashMap::new(),
        names: HashMap::new(),
        next_file: 0,
        fault,
        calls: 0,
        struck: 0,
    };
    recorder.describe(Path::new(""))?;
    *RECORDER.lock() = Some(recorder);
    WATCHING.store(true, Relaxed);
    Ok(())
}

/// Notes that a thread's transaction is acknowledged.
pub(crate) fn acknowledge(thread: i64, n: i64) {
    if let Some(recorder) = &mut *RECORDER.lock() {
        recorder.note(&Operation::Acknowledged(thread, n));
    }
}

/// From now on nothing fails. Answers how many calls failed or were cut short until now.
pub(crate) fn heal() -> u64 {
    RECORDER.lock().as_mut().map_or(0, |recorder| {
        recorder.fault = None;
        recorder.struck
    })
}

fn watching() -> Option<MutexGuard<'static, Option<Recorder>>> {
    WATCHING.load(Relaxed).then(|| RECORDER.lock())
}

/// Whether `file` is below the watched directory.
pub(crate) fn watches(file: RawFd) -> bool {
    watching().is_some_and(|recorder| recorder.as_ref().is_some_and(|r| r.open.contains_key(&file)))
}

pub(crate) fn open(path: &Path, flags: i32, fail: fn(i32) -> i32, call: impl FnOnce() -> RawFd) -> RawFd {
    let mut lock = watching();
    let Some((recorder, path)) = lock.as_mut().and_then(|lock| lock.as_mut()?.inside(path)) else {
        return call();
    };
    let changes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != libc::O_RDONLY;
    if changes && let Some(errno) = recorder.fails(true) {
        return fail(errno);
    }
    let file = call();
    if file < 0 {
        return file;
    }
    let known = recorder.names.get(&path).copied();
    let opened = if let Some(id) = known {
        if flags & libc::O_TRUNC != 0 {
            recorder.note(&Operation::Resize(id, 0));
        }
        Open::File(id)
    } else if flags & libc::O_CREAT != 0 {
        let id = recorder.name(path.clone());
        recorder.note(&Operation::Create(path, id));
        Open::File(id)
    } else {
        Open::Directory(path)
    };
    recorder.open.insert(file, opened);
    file
}

pub(crate) fn close(file: RawFd, call: impl FnOnce() -> i32) -> i32 {
    let mut lock = watching();
    if let Some(Some(recorder)) = lock.as_deref_mut() {
        recorder.open.remove(&file);
    }
    call()
}

/// `call` answers what the system call does, and the bytes that it wrote.
pub(crate) fn write<'a>(
    file: RawFd,
    offset: Option<i64>,
    count: usize,
    call: impl FnOnce(Verdict) -> (isize, &'a [u8]),
) -> isize {
    let mut lock = watching();
    let recorder = lock.as_mut().and_then(|lock| lock.as_mut());
    let opened = recorder.and_then(|r| r.open.get(&file).cloned().map(|opened| (r, opened)));
    let Some((recorder, Open::File(id))) = opened else {
        return call(Verdict::Takes(count)).0;
    };
    let verdict = match recorder.short(count) {
        Some(fewer) => Verdict::Takes(fewer),
        None => recorder.fails(true).map_or(Verdict::Takes(count), Verdict::Fails),
    };
    let (result, bytes) = call(verdict);
    if !bytes.is_empty() {
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.unwrap_or_else(|| interpose::position(file) - bytes.len() as u64);
        recorder.note(&Operation::Write(id, offset, bytes.into()));
    }
    result
}

/// `call` is told whether the file is watched.
pub(crate) fn on_file(
    file: RawFd,
    what: Call<'_>,
    fail: fn(i32) -> i32,
    call: impl FnOnce(bool) -> i32,
) -> i32 {
    let mut lock = watching();
    let recorder = lock.as_mut().and_then(|lock| lock.as_mut());
    let Some((recorder, opened)) = recorder.and_then(|r| r.open.get(&file).cloned().map(|o| (r, o))) else {
        return call(false);
    };
    if let Some(errno) = recorder.fails(matches!(what, Call::Resize(_))) {
        return fail(errno);
    }
    let result = call(true);
    if result == 0 {
        match (what, opened) {
            (Call::Sync, Open::File(id)) => recorder.note(&Operation::Sync(id)),
            (Call::SyncData, Open::File(id)) => recorder.note(&Operation::SyncData(id)),
            (Call::Resize(length), Open::File(id)) => recorder.note(&Operation::Resize(id, length)),
            (_, Open::Directory(path)) => recorder.note(&Operation::SyncDirectory(path)),
            _ => {}
        }
    }
    result
}

pub(crate) fn on_name(name: &Path, what: Call<'_>, fail: fn(i32) -> i32, call: impl FnOnce() -> i32) -> i32 {
    let mut lock = watching();
    let Some((recorder, path)) = lock.as_mut().and_then(|lock| lock.as_mut()?.inside(name)) else {
        return call();
    };
    if let Some(errno) = recorder.fails(matches!(what, Call::Rename(_) | Call::MakeDirectory)) {
        return fail(errno);
    }
    let result = call();
    if result == 0 {
        match what {
            Call::MakeDirectory => recorder.note(&Operation::MakeDirectory(path)),
            Call::RemoveDirectory => recorder.note(&Operation::RemoveDirectory(path)),
            Call::Remove => {
                recorder.names.remove(&path);
                recorder.note(&Operation::Remove(path));
            }
            Call::Rename(to) => {
                let to = to.strip_prefix(&recorder.root).unwrap_or(to).to_path_buf();
                if let Some(id) = recorder.names.remove(&path) {
                    recorder.names.insert(to.clone(), id);
                }
                recorder.note(&Operation::Rename(path, to));
            }
            Call::Sync | Call::SyncData | Call::Resize(_) => {}
        }
    }
    result
}

impl Recorder {
    /// This and the path in the watched directory, if it is there.
    fn inside(&mut self, path: &Path) -> Option<(&mut Self, PathBuf)> {
        let inside = path.strip_prefix(&self.root).ok()?.to_path_buf();
        Some((self, inside))
    }

    fn name(&mut self, path: PathBuf) -> FileId {
        let id = self.next_file;
        self.next_file += 1;
        self.names.insert(path, id);
        id
    }

    /// The error that this call shall answer, if it is its turn.
    fn fails(&mut self, takes_space: bool) -> Option<i32> {
        let call = self.calls;
        self.calls += 1;
        let fault = self.fault.filter(|fault| (fault.first..fault.first + fault.calls).contains(&call))?;
        let errno = match fault.nature {
            Nature::Error => libc::EIO,
            Nature::Full if takes_space => libc::ENOSPC,
            Nature::Full | Nature::Short => return None,
        };
        self.struck += 1;
        Some(errno)
    }

    /// How much of a write shall be done, if it is its turn to be cut short. A full disk does so before it refuses.
    fn short(&mut self, count: usize) -> Option<usize> {
        let fault = self.fault.filter(|_| count > 1)?;
        let place = self.calls.checked_sub(fault.first)?;
        let short = match fault.nature {
            Nature::Error => false,
            Nature::Full => place == 0,
            Nature::Short => place < fault.calls,
        };
        short.then(|| {
            self.calls += 1;
            self.struck += 1;
            count / 2
        })
    }

    fn note(&mut self, operation: &Operation) {
        let mut bytes = Vec::new();
        operation.encode(&mut bytes);
        interpose::append(&self.trace, &bytes);
    }

    /// Notes how to make what is in `directory`, durably.
    fn describe(&mut self, directory: &Path) -> io::Result<()> {
        let mut entries = std::fs::read_dir(self.root.join(directory))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.note(&Operation::MakeDirectory(path.clone()));
                self.describe(&path)?;
                continue;
            }
            let id = self.name(path.clone());
            self.note(&Operation::Create(path, id));
            let file = File::open(entry.path())?;
            let length = file.metadata()?.len();
            self.note(&Operation::Resize(id, length));
            let mut page = vec![0; 4096];
            for offset in (0..length).step_by(page.len()) {
                let size = usize::try_from(length - offset).map_or(page.len(), |left| left.min(4096));
                file.read_exact_at(&mut page[..size], offset)?;
                if page[..size].iter().any(|byte| *byte != 0) {
                    self.note(&Operation::Write(id, offset, page[..size].into()));
                }
            }
            self.note(&Operation::Sync(id));
        }
        self.note(&Operation::SyncDirectory(directory.into()));
        Ok(())
    }
}
