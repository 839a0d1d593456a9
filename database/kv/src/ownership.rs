//! Who owns what lies in the directory of a database, and who may use it.
//!
//! What is changed is a file that is open, never a name: whoever may write in the directory could have a name lead elsewhere after
//! it was looked at, and root would make him the owner of somebody else's file.

use fulmar_files::open_file;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, openat, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::CStr;
use std::fmt;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The file that says what the directory is, and since it is there that it is a database.
pub(crate) const FORMAT_FILE: &str = "FORMAT";
/// The file by whose lock somebody has the directory.
pub(crate) const LOCK_FILE: &str = "LOCK";
const ROOT: u32 = 0;

/// Gives what lies in the directory of a database its owner and mode, as SQLite's journals follow the database: or else what
/// root has made there locks the owner out, one user of a group the others, and a reader is kept from some files (the
/// engine makes a few for its user alone). Who was kept out by the umask under which the database was made, stays out.
pub(crate) fn follow_directory(path: &Path) -> io::Result<()> {
    let directory = open(CWD, path, OFlags::DIRECTORY)?;
    let following = Following::of(&directory)?;
    walk(directory, |name, file, found| {
        let for_files =
            if name.to_bytes() == LOCK_FILE.as_bytes() { following.for_lock } else { following.for_files };
        following.follow(file, found, for_files)
    })
}

/// Refuses a folder in the directory of a database that is a link, or in which a name leads to what may lie elsewhere, if anybody but this
/// process's user may have put it there.
pub(crate) fn refuse_links(directory: &Path, folder: &str) -> io::Result<()> {
    let user = user()?;
    let is_own = |found: &Metadata| found.uid() == user && found.mode() & 0o022 == 0;
    let directory = open(CWD, directory, OFlags::DIRECTORY)?;
    let is_own_directory = is_own(&directory.metadata()?);
    let found = match statat(&directory, folder, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => FileType::from_raw_mode(found?.st_mode),
    };
    match found {
        FileType::Symlink if !is_own_directory => return Err(refused(&folder)),
        FileType::Directory | FileType::Symlink => {}
        // It is for the engine to complain.
        _ => return Ok(()),
    }
    let follow = if is_own_directory { OFlags::empty() } else { OFlags::NOFOLLOW };
    let folder = open(&directory, folder, OFlags::DIRECTORY | follow)?;
    if is_own_directory && is_own(&folder.metadata()?) {
        return Ok(());
    }
    walk(folder, |name, _, found| {
        let is_refused = !found.is_dir() && (!found.is_file() || found.nlink() > 1);
        if is_refused { Err(refused(&name)) } else { Ok(()) }
    })
}

fn refused(name: &impl fmt::Debug) -> io::Error {
    let what = format!("{name:?} in it is a link, or another thing that is no file of this database alone");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Visits what lies in a directory and in those below it.
fn walk(directory: File, mut visit: impl FnMut(&CStr, &File, &Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut folders = vec![directory];
    while let Some(folder) = folders.pop() {
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let file = match open(&folder, name, OFlags::PATH | OFlags::NOFOLLOW) {
                // The engine has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            let found = file.metadata()?;
            visit(name, &file, &found)?;
            if found.is_dir() {
                folders.push(open(&file, c".", OFlags::DIRECTORY)?);
            }
        }
    }
    Ok(())
}

/// Gives `file`, which is for the database in `directory` and no part of it, the directory's owner and mode, if this is root.
pub fn follow_with_file(directory: &Path, file: &Path) -> io::Result<()> {
    let file = open(CWD, file, OFlags::PATH | OFlags::NOFOLLOW)?;
    let following = Following::of(&open(CWD, directory, OFlags::DIRECTORY)?)?;
    following.follow(&file, &file.metadata()?, following.for_files)
}

/// As [`follow_directory`], where somebody else may want the database before it is closed.
pub(crate) fn follow_at_once(path: &Path) -> io::Result<()> {
    let directory = fs::metadata(path)?;
    if is_another_users(user()?, &directory) || group_writes(&directory) {
        follow_directory(path)
    } else {
        Ok(())
    }
}

/// Opens it to be read, if nothing else is said.
pub(crate) fn open(folder: impl AsFd, name: impl Arg, flags: OFlags) -> io::Result<File> {
    Ok(openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// A file of the database's own, made if it is not there, to be read and written. Whoever may write in the directory of a database could
/// have the name lead to a file of somebody else who opens it. A new one has this mode, but for what the umask takes.
pub(crate) fn own_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false).mode(mode);
    let file = open_file(path, options)?;
    let found = file.metadata()?;
    if found.nlink() > 1 && found.uid() != fs::metadata(parent(path))?.uid() {
        let what = "not a file of this database alone, but one of several names of another's";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(file)
}

/// The directory in which `path` is.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// What the files in a directory shall be.
struct Following {
    user: u32,
    /// A user and a group, if not those of this process.
    owner: Option<(u32, u32)>,
    for_files: u32,
    for_lock: u32,
}

impl Following {
    fn of(directory: &File) -> io::Result<Self> {
        let format = statat(directory, FORMAT_FILE, AtFlags::SYMLINK_NOFOLLOW)?;
        let (directory, user) = (directory.metadata()?, user()?);
        let owner = is_another_users(user, &directory).then(|| (directory.uid(), directory.gid()));
        let group = if group_writes(&directory) { 0o060 } else { 0 };
        let for_files = directory.mode() & (format.st_mode | group) & 0o666;
        Ok(Self { user, owner, for_files, for_lock: for_writers(&directory) })
    }

    fn follow(&self, file: &File, found: &Metadata, for_files: u32) -> io::Result<()> {
        // A link leads to, and one of several names is of, what may be somebody else's.
        if found.is_symlink() || !found.is_dir() && found.nlink() > 1 {
            return Ok(());
        }
        if let Some((uid, gid)) = self.owner
            && (found.uid(), found.gid()) != (uid, gid)
        {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            chownat(file, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        // Who may read a folder may look into it.
        let mode = if found.is_file() { for_files } else { for_files | (for_files & 0o444) >> 2 };
        let may_change = self.user == ROOT || self.user == found.uid();
        if may_change && found.mode() & 0o777 != mode {
            let opened = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
            fs::set_permissions(opened, Permissions::from_mode(found.mode() & 0o7000 | mode))?;
        }
        Ok(())
    }
}

/// Whose rights this process has.
fn user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Whether what this process makes in the directory would not be its owner's, and can be.
fn is_another_users(user: u32, directory: &Metadata) -> bool {
    user == ROOT && directory.uid() != ROOT
}

/// The mode of a file for those who may write in its directory.
pub(crate) fn for_writers(directory: &Metadata) -> u32 {
    let write = directory.mode() & 0o222;
    write | write << 1
}

fn group_writes(directory: &Metadata) -> bool {
    directory.mode() & 0o020 != 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;

    /// What a user has put into the directory of his database, for root to open it.
    #[test]
    fn what_lies_elsewhere_keeps_its_owner_and_mode() {
        assert_eq!(user().unwrap(), ROOT, "this needs root");
        let directory = tempfile::tempdir().unwrap();
        let (database, elsewhere) = (directory.path().join("database"), directory.path().join("elsewhere"));
        for folder in [&database, &database.join("engine"), &elsewhere] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        fs::write(database.join(FORMAT_FILE), "").unwrap();
        fs::write(database.join(LOCK_FILE), "").unwrap();
        fs::set_permissions(elsewhere.join("file"), Permissions::from_mode(0o600)).unwrap();
        symlink(&elsewhere, database.join("folder")).unwrap();
        symlink(elsewhere.join("file"), database.join("engine/link")).unwrap();
        fs::hard_link(elsewhere.join("file"), database.join("engine/name")).unwrap();
        chown(&database, Some(7), Some(8)).unwrap();
        follow_directory(&database).unwrap();
        let owner = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            (found.uid(), found.gid())
        };
        for followed in ["file", "engine", "engine/file"] {
            assert_eq!(owner(&database.join(followed)), (7, 8), "{followed}");
        }
        for kept in ["elsewhere", "elsewhere/file", "database/folder", "database/engine/link"] {
            assert_eq!(owner(&directory.path().join(kept)), (0, 0), "{kept}");
        }
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(elsewhere.join("file")), 0o600);
        assert_eq!(mode(database.join("file")), 0o644);
        assert_eq!(mode(database.join(LOCK_FILE)), 0o600, "who may only read could hold it");
        let refused = refuse_links(&database, "engine").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn what_nobody_else_can_have_put_there_is_not_looked_for() {
        let database = tempfile::tempdir().unwrap();
        let (database, folder) = (database.path(), database.path().join("engine"));
        fs::create_dir(&folder).unwrap();
        symlink("/", folder.join("link")).unwrap();
        refuse_links(database, "engine").unwrap();
        for (owner, mode) in [(0, 0o770), (7, 0o700)] {
            for shared in [database, &folder] {
                chown(shared, Some(owner), Some(8)).unwrap();
                fs::set_permissions(shared, Permissions::from_mode(mode)).unwrap();
                refuse_links(database, "engine").unwrap_err();
                fs::remove_file(folder.join("link")).unwrap();
                refuse_links(database, "engine").unwrap();
                symlink("/", folder.join("link")).unwrap();
                chown(shared, Some(0), Some(0)).unwrap();
                fs::set_permissions(shared, Permissions::from_mode(0o700)).unwrap();
            }
        }
    }

    /// A user's `engine` that led to root's had root open that beside whoever held it.
    #[test]
    fn a_folder_that_another_user_has_made_a_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (database, elsewhere) = (directory.path().join("database"), directory.path().join("elsewhere"));
        fs::create_dir(&database).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, database.join("engine")).unwrap();
        refuse_links(&database, "engine").unwrap();
        chown(&database, Some(7), Some(8)).unwrap();
        assert_eq!(refuse_links(&database, "engine").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
