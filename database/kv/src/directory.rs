//! The directory of a database: what format it has, and who has it open.

use crate::Error;
use crate::directory_lock;
use crate::frozen::Frozen;
use crate::ownership::{
    FORMAT_FILE, LOCK_FILE, follow_at_once, follow_directory, open, own_file, parent, refuse_links,
};
use rustix::fs::{CWD, OFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Stands beside files of the engine that are not a database yet. It becomes the format file, in one step.
const UNFINISHED_FILE: &str = "UNFINISHED";
/// What the engine must not have lost: its log drops what follows a damaged place without an error.
const SYNCED_FILE: &str = "SYNCED";
const ENGINE_DIRECTORY: &str = "engine";
/// The mode of a file for all whom the umask does not keep out.
const FOR_ALL: u32 = 0o666;
const FORMAT: &str = "fulmar database, format 1\n";

/// A directory that this process holds.
pub(crate) struct DatabaseDirectory {
    path: PathBuf,
    is_new: bool,
    /// Holds the sequence number of a synced commit, and its complement. It shows who may only read that somebody is here.
    synced: File,
    lock: File,
    /// Whether the lock outlives this value, in a copy of the file.
    passed: AtomicBool,
    /// Whether the engine may have made files.
    has_new_files: AtomicBool,
    /// Its id: a child that has inherited the file must not unlock it.
    process: u32,
}

impl Drop for DatabaseDirectory {
    /// Closing the file would not do, while a process that another thread is just starting still has it open too.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        if self.has_new_files.load(Relaxed) {
            // Whoever cannot open them then is told so by the system.
            let _ = follow_directory(&self.path);
        }
        directory_lock::hide(&self.synced);
        if !self.passed.load(Relaxed) {
            // It can only fail if it is not locked.
            let _ = self.lock.unlock();
        }
    }
}

impl DatabaseDirectory {
    /// Takes hold of the database directory `path`, making it first if `create` says so; by the lock that was
    /// [passed](DatabaseDirectory::pass_lock), if one was.
    pub(crate) fn enter(path: &Path, create: bool, passed: Option<&File>) -> Result<Self, Error> {
        let existing = Self::look(path)?;
        if existing == Existing::Nothing {
            if !create {
                return Err(Error::io(path, io::Error::from(io::ErrorKind::NotFound)));
            }
            let missing: Vec<_> = path.ancestors().take_while(|p| !p.exists()).collect();
            fs::create_dir_all(path).map_err(|e| Error::io(path, e))?;
            missing.into_iter().try_for_each(|made| sync_directory(parent(made)))?;
        }
        let lock = directory_lock::lock(path, passed)?;
        // Whoever held it until now may have finished making it.
        let is_new = Self::look(path)? != Existing::Database;
        if is_new {
            write_synced(&path.join(UNFINISHED_FILE), FORMAT)?;
            sync_directory(path)?;
            let engine = path.join(ENGINE_DIRECTORY);
            if engine.exists() {
                // Left by a creation that did not come to its end: nothing was ever committed to it.
                fs::remove_dir_all(&engine).map_err(|e| Error::io(&engine, e))?;
            }
        } else {
            refuse_links(path, ENGINE_DIRECTORY).map_err(|e| Error::io(&path.join(ENGINE_DIRECTORY), e))?;
        }
        let synced_path = path.join(SYNCED_FILE);
        let synced = own_file(&synced_path, FOR_ALL).map_err(|e| Error::io(&synced_path, e))?;
        directory_lock::show(&synced);
        // Only for whoever is refused, or only reads: a full disk need not keep a database from being read. And what another user
        // has made is his to mend.
        let _ = directory_lock::sign(path, &lock);
        if is_new {
            synced.set_len(0).map_err(|e| Error::io(&synced_path, e))?;
        }
        let (passed, has_new_files) = (AtomicBool::new(false), AtomicBool::new(true));
        let process = std::process::id();
        Ok(Self { path: path.into(), is_new, synced, lock, passed, has_new_files, process })
    }

    /// Declares a new directory to be a database, now that the engine has made its files.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        if self.is_new {
            // Before there can be a commit: whoever made the directory may have been killed before it was synced.
            sync_directory(parent(&self.path))?;
            let unfinished = self.path.join(UNFINISHED_FILE);
            fs::rename(&unfinished, self.path.join(FORMAT_FILE)).map_err(|e| Error::io(&unfinished, e))?;
            sync_directory(&self.path)?;
        }
        // It fails for who may not do that, and need not.
        let _ = follow_at_once(&self.path);
        Ok(())
    }

    /// The engine has made no file, and will not: what is in the directory is as it was.
    pub(crate) fn leave_as_it_is(&self) {
        self.has_new_files.store(false, Relaxed);
    }

    /// Notes that the engine holds everything up to this commit. Not synced itself: what is read later is a lower bound.
    pub(crate) fn note_synced(&self, sequence: u64) -> Result<(), Error> {
        let mut note = [0; 16];
        note[..8].copy_from_slice(&sequence.to_be_bytes());
        note[8..].copy_from_slice(&(!sequence).to_be_bytes());
        self.synced.write_all_at(&note, 0).map_err(|e| Error::io(&self.path.join(SYNCED_FILE), e))
    }

    /// Requires that the engine holds at least what was synced, of what it is counted in: `unit`. Whether it holds no more.
    pub(crate) fn require_synced(&self, held: u64, unit: &str) -> Result<bool, Error> {
        require(&self.path, synced_in(&self.synced), held, unit)
    }

    /// Copies what a database in `path` is, for who may not write there; and the commit that it must hold.
    pub(crate) fn freeze(path: &Path) -> Result<(Frozen, u64), Error> {
        if Self::look(path)? != Existing::Database {
            return Err(Error::io(path, io::Error::from(io::ErrorKind::NotFound)));
        }
        let look = directory_lock::Look::at(path, &path.join(SYNCED_FILE))?;
        let synced = look.synced().map_or(0, synced_in);
        let frozen = Frozen::of(&path.join(ENGINE_DIRECTORY));
        look.nobody_came()?;
        Ok((frozen?, synced))
    }

    /// The file whose lock holds the directory.
    pub(crate) fn lock(&self) -> &File {
        &self.lock
    }

    /// A copy of that file, by which the directory stays locked when it is left, for whoever enters it next.
    pub(crate) fn pass_lock(&self) -> io::Result<File> {
        let copy = self.lock.try_clone()?;
        self.passed.store(true, Relaxed);
        Ok(copy)
    }

    /// Where the engine's files are.
    pub(crate) fn engine(&self) -> PathBuf {
        self.path.join(ENGINE_DIRECTORY)
    }

    /// What it takes on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        fulmar_files::bytes_in(&self.path)
    }

    /// See [`Database::exists`](crate::Database::exists).
    pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
        Ok(Self::look(path)? != Existing::Nothing)
    }

    fn look(path: &Path) -> Result<Existing, Error> {
        let kind = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
            Err(e) => return Err(Error::io(path, e)),
        };
        if !kind.is_dir() {
            let found = if begins_with(path, b"SQLite format 3\0")? {
                "an ordinary SQLite database file, not a Fulmar database (a directory)"
            } else {
                "a file, not a Fulmar database (a directory)"
            };
            return Err(Error::Format { path: path.into(), found: found.into() });
        }
        let format = path.join(FORMAT_FILE);
        match read_format(&format) {
            Ok(found) if found == FORMAT.as_bytes() => Ok(Existing::Database),
            Ok(found) => {
                let first_line = String::from_utf8_lossy(&found[..found.len().min(80)]);
                let first_line = first_line.lines().next().unwrap_or_default().to_owned();
                let found = format!("says {first_line:?}, this program reads {:?}", FORMAT.trim_end());
                Err(Error::Format { path: format, found })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Self::unfinished(path),
            Err(e) => Err(Error::io(&format, e)),
        }
    }

    /// A directory without a format file: empty, left by a creation that was cut short, or somebody else's.
    fn unfinished(path: &Path) -> Result<Existing, Error> {
        if path.join(UNFINISHED_FILE).exists() {
            return Ok(Existing::Unfinished);
        }
        for entry in fs::read_dir(path).map_err(|e| Error::io(path, e))? {
            let name = entry.map_err(|e| Error::io(path, e))?.file_name();
            if name != LOCK_FILE {
                let found = format!(
                    "a directory with {name:?} in it and no {FORMAT_FILE} file: not a Fulmar database"
                );
                return Err(Error::Format { path: path.into(), found });
            }
        }
        Ok(Existing::Unfinished)
    }
}

#[derive(PartialEq, Eq)]
enum Existing {
    Nothing,
    Unfinished,
    Database,
}

/// What the format file says, or more than that, if it says more. Whoever may write in the directory could have put anything in its place.
fn read_format(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(CWD, path, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    let mut found = Vec::new();
    file.take(2 * FORMAT.len() as u64).read_to_end(&mut found)?;
    Ok(found)
}

/// The engine must hold at least this commit, or it has lost some.
fn synced_in(file: &File) -> u64 {
    let mut note = [0; 16];
    // Short or torn: the note was never made, or its sector was being written when the power failed.
    let whole = file.read_exact_at(&mut note, 0).is_ok();
    let (number, complement) = note.split_at(8);
    let number = number.try_into().map_or(0, u64::from_be_bytes);
    let complement = complement.try_into().map_or(0, u64::from_be_bytes);
    if whole && number == !complement { number } else { 0 }
}

/// Requires that the engine in `path` holds at least what was synced, of what it is counted in: `unit`. Whether it holds no
/// more.
pub(crate) fn require(path: &Path, synced: u64, held: u64, unit: &str) -> Result<bool, Error> {
    if synced <= held {
        return Ok(synced == held);
    }
    let what = format!(
        "the engine's log is damaged: it ends at {unit} {held}, but {unit} {synced} was on the disk before"
    );
    Err(Error::Corrupt { path: path.into(), what })
}

fn begins_with(path: &Path, magic: &[u8]) -> Result<bool, Error> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    file.take(magic.len() as u64).read_to_end(&mut start).map_err(|e| Error::io(path, e))?;
    Ok(start == magic)
}

fn write_synced(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        let mut file = own_file(path, FOR_ALL)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, e))
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| Error::io(path, e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use rustix::fs::{FileType, Mode};

    #[test]
    fn a_directory_that_was_left_can_be_entered_while_a_copy_of_the_lock_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let entered = DatabaseDirectory::enter(directory.path(), true, None).unwrap();
        let _inherited = entered.lock.try_clone().unwrap();
        assert!(matches!(DatabaseDirectory::enter(directory.path(), true, None), Err(Error::Held { .. })));
        drop(entered);
        DatabaseDirectory::enter(directory.path(), true, None).unwrap();
    }

    #[test]
    fn a_directory_whose_lock_is_passed_on_is_never_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let enter = |passed| DatabaseDirectory::enter(directory.path(), true, passed);
        let entered = enter(None).unwrap();
        let passed = entered.pass_lock().unwrap();
        drop(entered);
        assert!(matches!(enter(None), Err(Error::Held { .. })));
        let next = enter(Some(&passed)).unwrap();
        assert!(matches!(enter(None), Err(Error::Held { .. })));
        drop(next);
        enter(None).unwrap();
    }

    /// Who may write in the directory had whoever opened it, as root, write into any file.
    #[test]
    fn what_a_link_leads_to_is_not_written() {
        for name in [LOCK_FILE, SYNCED_FILE, UNFINISHED_FILE] {
            let directory = tempfile::tempdir().unwrap();
            let (victim, path) = (directory.path().join("victim"), directory.path().join("database"));
            fs::write(&victim, "kept").unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join(UNFINISHED_FILE), "").unwrap();
            // Only one of them is there before the link is.
            let _ = fs::remove_file(path.join(name));
            std::os::unix::fs::symlink(&victim, path.join(name)).unwrap();
            assert!(DatabaseDirectory::enter(&path, true, None).is_err(), "{name}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "{name}");
        }
    }

    /// What has no end was read to its end, and who never writes was waited for.
    #[test]
    fn a_format_file_that_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let format = directory.path().join(FORMAT_FILE);
        std::os::unix::fs::symlink("/dev/zero", &format).unwrap();
        assert!(DatabaseDirectory::enter(directory.path(), false, None).is_err());
        fs::remove_file(&format).unwrap();
        rustix::fs::mknodat(CWD, &format, FileType::Fifo, Mode::from(0o666), 0).unwrap();
        assert!(DatabaseDirectory::enter(directory.path(), false, None).is_err());
    }

    /// The format file was written in place: a power cut left it empty, and the directory was another format's for ever.
    #[test]
    fn a_creation_that_was_cut_short_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        drop(DatabaseDirectory::enter(path, true, None).unwrap());
        assert!(!path.join(FORMAT_FILE).exists());
        fs::write(path.join(UNFINISHED_FILE), "").unwrap();
        DatabaseDirectory::enter(path, false, None).unwrap().finish().unwrap();
        assert_eq!(fs::read_to_string(path.join(FORMAT_FILE)).unwrap(), FORMAT);
        assert!(!path.join(UNFINISHED_FILE).exists());
    }
}
