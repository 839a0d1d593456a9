//! Sends an unmodified program's databases here, although the program names ordinary files.
//!
//! The variable `FULMAR_DATABASES` holds patterns of file names, with colons between them; `*` stands for any
//! characters, `?` for one. A pattern with a `/` is compared with the absolute path, any other with the file's name. Names
//! that match are ours; so `*` means every database that SQLite would keep in a file.
//!
//! Programs take a database for a regular file: they ask whether it exists, and remove it to start afresh. So for
//! `x.db` the data live in `x.db-fulmar/1`, and in place of `x.db` stands a small file, the marker, that says so.
//! Where the marker is gone, the program has removed its database; it gets a new one, `x.db-fulmar/2`. Who still
//! has the old one open keeps it, as with an unlinked file, and the newest old one stays on disk until the
//! next start afresh, in case the marker was moved by mistake.
//!
//! The marker is on disk before a database is used: without it, an acknowledged commit would be taken for removed.
//!
//! With `FULMAR_SERVERS` set to `HOST:PORT[,HOST:PORT…]`, new databases are made on these servers, under the file's name and
//! a number by chance, and the marker names them there. Whoever has a copy of the marker has the same database.
//!
//! *Known as:* stand-in files, pointers.

use crate::codes::{CANTOPEN, Failure, NOTADB};
use crate::fork::Generation;
use crate::handle::Handle;
use crate::name::{self, Access};
use fulmar_dbt::{Database, Error, Options};
use fulmar_files::chance_u64;
use fulmar_locks::{Condvar, Mutex, MutexGuard};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The variable that holds the patterns.
const VARIABLE: &str = "FULMAR_DATABASES";
/// The variable that holds the servers of new databases.
const SERVERS: &str = "FULMAR_SERVERS";
/// What a marker begins with; the name of its data folder follows.
const MARK: &str = "Fulmar database; data in ";
/// What an ordinary database begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What the name of a database begins with that is on servers.
const THERE: &str = "fulmar://";

/// Where the data of a file are.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Data {
    /// In this folder.
    Here(PathBuf),
    /// On servers, under this name.
    There(String),
}

/// In which process a thread finds or makes a database. In a child of it nobody does.
static OPENING: Mutex<Option<Generation>> = Mutex::new(None);
static OPENED: Condvar = Condvar::new();

/// Nobody else finds or makes a database, so that two threads do not both make it.
struct Opening;

impl Opening {
    fn begin() -> Self {
        let is_taken = |opening: &mut Option<Generation>| *opening == Some(Generation::current());
        *OPENED.wait_while(OPENING.lock(), is_taken) = Some(Generation::current());
        Self
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        *OPENING.lock() = None;
        OPENED.notify_one();
    }
}

/// Keeps whoever opens a database from saying so, which takes no longer than that.
pub(crate) fn hold() -> MutexGuard<'static, Option<Generation>> {
    OPENING.lock()
}

/// Whether the file of that name is ours by `FULMAR_DATABASES`, as it was when first asked.
pub(crate) fn matches(name: &str) -> bool {
    static PATTERNS: OnceLock<String> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| std::env::var(VARIABLE).unwrap_or_default());
    !patterns.is_empty() && matches_any(patterns, Path::new(name))
}

/// Opens the database that stands behind a file's name.
pub(crate) fn open(name: &str, access: Access) -> Result<Handle, Failure> {
    open_behind(name, access).map_err(|failure| match failure.code {
        // Programs look for SQLite's words.
        CANTOPEN => Failure::new(CANTOPEN, format!("unable to open database file: {}", failure.message)),
        _ => failure,
    })
}

fn open_behind(name: &str, access: Access) -> Result<Handle, Failure> {
    let opening = Opening::begin();
    let file = name::resolve(Path::new(name))?;
    let shown = file.to_string_lossy();
    match (find(&file, access, servers())?, access) {
        // The marker stands for an existing database, so it may be made even where only an existing one may be opened.
        (Data::Here(data), Access::ReadWrite | Access::ReadWriteCreate) => {
            Handle::open_as(&name::of(&data), Access::ReadWriteCreate, &shown)
        }
        (Data::Here(data), Access::Read) => Handle::open_as(&name::of(&data), Access::Read, &shown),
        (Data::There(name), access) => {
            // Others need not wait for servers.
            drop(opening);
            // It was made before its marker: an empty one would hide that it is gone.
            let access = if access == Access::ReadWriteCreate { Access::ReadWrite } else { access };
            Handle::open_as(&name, access, &shown)
        }
    }
}

/// The servers that new databases go to, if there are some, as they were when first asked for.
fn servers() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| std::env::var(SERVERS).ok().filter(|servers| !servers.is_empty()));
    found.as_deref()
}

fn matches_any(patterns: &str, file: &Path) -> bool {
    let Ok(path) = name::resolve(file) else { return false };
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut patterns = patterns.split(':').filter(|pattern| !pattern.is_empty());
    patterns.any(|pattern| {
        glob(pattern.as_bytes(), if pattern.contains('/') { path.as_bytes() } else { name.as_bytes() })
    })
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| glob(rest, &text[skipped..])),
        ([b'?', pattern @ ..], [_, text @ ..]) => glob(pattern, text),
        ([p, pattern @ ..], [t, text @ ..]) if p == t => glob(pattern, text),
        _ => false,
    }
}

/// The data of a file: those that its marker names, or new ones, on these servers if there are some.
fn find(file: &Path, access: Access, servers: Option<&str>) -> Result<Data, Failure> {
    let shown = file.display();
    if file.is_dir() {
        return Err(Failure::new(CANTOPEN, format!("{shown}: a folder, not a database")));
    }
    let head = head(file).map_err(|error| cannot(file, &error))?;
    if let Some(data) = head.as_deref().and_then(|head| marked(file, head)) {
        if let Data::Here(data) = &data
            && data.parent() != Some(&folder(file))
        {
            let named = data.strip_prefix(file.with_file_name("")).unwrap_or(data).display();
            let why =
                format!("{shown}: the marker of a Fulmar database that was moved; its data are in {named}");
            return Err(Failure::new(CANTOPEN, why));
        }
        return Ok(data);
    }
    match head {
        None if access != Access::ReadWriteCreate => {
            Err(Failure::new(CANTOPEN, format!("{shown}: no such database")))
        }
        None => make(file, servers),
        // SQLite too makes a database of an empty file.
        Some(head) if head.is_empty() && access != Access::Read => make(file, servers),
        Some(head) if head.starts_with(SQLITE) => Err(Failure::new(
            CANTOPEN,
            format!(
                "{shown}: an ordinary SQLite file, which {VARIABLE} sends to Fulmar; to bring its content along, move it \
                 away as OLD and run: {VARIABLE}={shown} fulmar sql file:{shown} '.restore OLD'"
            ),
        )),
        Some(_) => Err(Failure::new(NOTADB, format!("{shown}: file is not a database"))),
    }
}

/// The first bytes of a file, or nothing if there is no file.
fn head(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    match File::open(file) {
        Ok(opened) => opened.take(4096).read_to_end(&mut head)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(head))
}

/// The data that a marker names, if a file that begins like this is one.
fn marked(file: &Path, head: &[u8]) -> Option<Data> {
    let text = String::from_utf8_lossy(head.strip_prefix(MARK.as_bytes())?).into_owned();
    let named = text.lines().next().unwrap_or_default();
    Some(match named.starts_with(THERE) {
        true => Data::There(named.into()),
        false => Data::Here(file.with_file_name(named)),
    })
}

/// What a file is, as far as its first bytes tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// An ordinary SQLite database, or an empty file, which SQLite makes one of.
    Ordinary,
    /// It stands for a Fulmar database of this name, to which `FULMAR_DATABASES` has sent a program.
    Marker(String),
    /// Something else.
    Other,
}

/// Says what `file` is.
///
/// # Errors
/// If the file cannot be read.
pub fn file_kind(file: &Path) -> io::Result<FileKind> {
    let head = head(file)?.ok_or(ErrorKind::NotFound)?;
    if head.is_empty() || head.starts_with(SQLITE) {
        return Ok(FileKind::Ordinary);
    }
    Ok(match marked(file, &head) {
        Some(Data::Here(data)) => FileKind::Marker(name::of(&data)),
        Some(Data::There(name)) => FileKind::Marker(name),
        None => FileKind::Other,
    })
}

/// `x.db-fulmar` for `x.db`.
fn folder(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-fulmar");
    name.into()
}

/// Makes new data and marks them in place of the file, unless another process has just done so.
fn make(file: &Path, servers: Option<&str>) -> Result<Data, Failure> {
    let parent = File::open(parent(file)).map_err(|error| cannot(file, &error))?;
    // Until it is closed. Some file systems of networks know no locks.
    let _ = parent.lock();
    let made = head(file).map_err(|error| cannot(file, &error))?;
    if let Some(data) = made.and_then(|head| marked(file, &head)) {
        return Ok(data);
    }
    match servers {
        Some(servers) => make_there(file, servers).map(Data::There),
        None => make_here(file).map(Data::Here),
    }
}

/// A new database on servers.
fn make_there(file: &Path, servers: &str) -> Result<String, Failure> {
    let by_chance = chance_u64().map_err(|error| cannot(file, &error))?;
    let name = format!("{THERE}{servers}/{}", name_there(file, by_chance));
    drop(Handle::open(&name, Access::ReadWriteCreate)?);
    let mut draft = folder(file).into_os_string();
    draft.push(".new");
    mark(file, Path::new(&draft), &name, &name).map_err(|error| cannot(file, &error))?;
    Ok(name)
}

/// What a file's database is called on servers: as the file, as far as they allow it, and as no other.
fn name_there(file: &Path, by_chance: u64) -> String {
    const LONGEST: usize = 80;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).take(LONGEST).collect();
    format!("{}-{by_chance:016x}", name.trim_start_matches('.'))
}

/// A new folder of data.
fn make_here(file: &Path) -> Result<PathBuf, Failure> {
    let folder = folder(file);
    fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    let mut older: Vec<u64> = fs::read_dir(&folder)
        .map_err(|error| cannot(&folder, &error))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    older.sort_unstable();
    let newest = older.pop();
    for number in older {
        remove(&folder.join(number.to_string()))?;
    }
    let data = folder.join((newest.unwrap_or(0) + 1).to_string());
    fs::create_dir_all(&data).map_err(|error| cannot(&data, &error))?;
    let named = data.strip_prefix(parent(file)).unwrap_or(&data).display().to_string();
    mark(file, &folder.join("marker"), &named, &format!("fulmar:{named}"))
        .and_then(|()| File::open(&folder)?.sync_all())
        .map_err(|error| cannot(file, &error))?;
    Ok(data)
}

/// Removes a database that nobody has open.
fn remove(data: &Path) -> Result<(), Failure> {
    if matches!(
        Database::open(data, &Options { create: false, ..Options::default() }),
        Err(Error::Held { .. })
    ) {
        return Ok(());
    }
    fs::remove_dir_all(data).map_err(|error| cannot(data, &error))
}

/// Puts the marker where the program expects its file: whole, or not at all.
fn mark(file: &Path, draft: &Path, named: &str, opened: &str) -> io::Result<()> {
    let mut text = fulmar_files::create_anew(draft, 0o666)?;
    let remains = if opened.starts_with("fulmar://") {
        "leaves the database on the servers"
    } else {
        "removes the database"
    };
    write!(
        text,
        "{MARK}{named}\n\nThis file stands for a database that a program was sent to by {VARIABLE}.\n\
         Removing it {remains}. Open the data with: fulmar sql {opened}\n"
    )?;
    text.sync_all()?;
    fs::rename(draft, file)?;
    File::open(parent(file))?.sync_all()
}

/// The folder that a file is in.
fn parent(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new("/"))
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::new(CANTOPEN, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: &Path, access: Access) -> Result<PathBuf, String> {
        match find(file, access, None).map_err(|failure| failure.message)? {
            Data::Here(data) => Ok(data),
            Data::There(name) => Err(name),
        }
    }

    #[test]
    fn patterns_match_names_and_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("app.db");
        assert!(matches_any("*", &file) && matches_any("other:*.db", &file) && matches_any("a??.db", &file));
        assert!(matches_any(
            &format!("{}/*", folder.path().canonicalize().expect("exists").display()),
            &file
        ));
        assert!(
            !matches_any("*.sqlite", &file) && !matches_any("", &file) && !matches_any("/elsewhere/*", &file)
        );
    }

    #[test]
    fn a_marker_stands_for_the_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert!(opened(&file, Access::ReadWrite).expect_err("nothing there").contains("no such database"));
        let data = opened(&file, Access::ReadWriteCreate).expect("made");
        assert!(file.is_file() && data.ends_with("x.db-fulmar/1"));
        assert_eq!(opened(&file, Access::Read), Ok(data));
    }

    /// A link to a database that is yet to be made, in a volume of a container.
    #[test]
    fn a_dangling_link_stays_and_the_data_are_where_it_points() {
        let folder = tempfile::tempdir().expect("a folder");
        let [app, volume] = ["app", "volume"].map(|name| folder.path().join(name));
        for made in [&app, &volume] {
            fs::create_dir(made).expect("made");
        }
        let (link, second) = (app.join("x.db"), app.join("y.db"));
        std::os::unix::fs::symlink("../volume/z.db", &second).expect("linked");
        std::os::unix::fs::symlink("y.db", &link).expect("linked");
        let name = link.to_string_lossy();
        drop(open(&name, Access::ReadWriteCreate).map_err(|failure| failure.message).expect("made"));
        assert!(link.is_symlink() && second.is_symlink());
        assert!(volume.join("z.db").is_file() && volume.join("z.db-fulmar/1").is_dir());
        drop(open(&name, Access::ReadWrite).map_err(|failure| failure.message).expect("found again"));
        // A directory of the other kind of name, too.
        let link = app.join("directory");
        std::os::unix::fs::symlink("../volume/directory", &link).expect("linked");
        let handle = Handle::open(&name::of(&link), Access::ReadWriteCreate);
        drop(handle.map_err(|failure| failure.message).expect("made"));
        assert!(link.is_symlink() && volume.join("directory/FORMAT").is_file());
        std::os::unix::fs::symlink("loop", app.join("loop")).expect("linked");
        let failure =
            open(&app.join("loop").to_string_lossy(), Access::ReadWriteCreate).err().expect("refused");
        assert_eq!(failure.code, CANTOPEN);
    }

    #[test]
    fn without_its_marker_a_database_starts_afresh() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        for generation in ["1", "2", "3"] {
            let data = opened(&file, Access::ReadWriteCreate).expect("made");
            assert!(data.ends_with(generation));
            fs::remove_file(&file).expect("removed");
        }
        let kept = |generation: &str| folder.path().join("x.db-fulmar").join(generation).exists();
        assert!(!kept("1") && kept("2") && kept("3"));
    }

    #[test]
    fn who_has_a_removed_database_open_keeps_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        let first = opened(&file, Access::ReadWriteCreate).expect("made");
        let held = Database::open(&first, &Options::default()).expect("opened");
        for _ in 0..3 {
            fs::remove_file(&file).expect("removed");
            opened(&file, Access::ReadWriteCreate).expect("made");
        }
        assert!(first.exists());
        drop(held);
    }

    #[test]
    fn an_empty_file_becomes_a_database_and_others_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        fs::write(&file, "").expect("written");
        assert!(opened(&file, Access::ReadWrite).is_ok());
        for (content, why) in [(SQLITE, "'.restore OLD'"), (b"a letter", "file is not a database")] {
            fs::write(&file, content).expect("written");
            assert!(opened(&file, Access::ReadWriteCreate).expect_err("refused").contains(why));
            assert_eq!(fs::read(&file).expect("read"), content);
        }
    }

    #[test]
    fn a_marker_may_name_a_database_on_servers_wherever_it_lies() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        mark(&file, &folder.path().join("draft"), "fulmar://a:1/x.db-7", "").expect("marked");
        fs::rename(&file, folder.path().join("y.db")).expect("moved");
        let found = find(&folder.path().join("y.db"), Access::Read, None).map_err(|failure| failure.message);
        assert_eq!(found, Ok(Data::There("fulmar://a:1/x.db-7".into())));
    }

    #[test]
    fn names_on_servers_differ_and_are_allowed() {
        let file = Path::new("/a/.höhe über.db");
        assert_eq!(name_there(file, 0xfe), "h_he__ber.db-00000000000000fe");
        assert_ne!(name_there(file, 0xfe), name_there(file, 0xff));
    }

    #[test]
    fn a_moved_marker_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, moved) = (folder.path().join("x.db"), folder.path().join("y.db"));
        opened(&file, Access::ReadWriteCreate).expect("made");
        fs::rename(&file, &moved).expect("moved");
        assert!(opened(&moved, Access::ReadWriteCreate).expect_err("refused").contains("x.db-fulmar/1"));
    }
}
