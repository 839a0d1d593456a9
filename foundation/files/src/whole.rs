//! Files that are there as a whole, or not at all.

use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Makes or replaces a file of this mode, which holds all of `bytes` and is on the disk when this returns; or nothing has changed. Answers the
/// file, open to be written on. Meanwhile there is one beside it whose name ends in `.new`.
///
/// # Errors
/// What the system says.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
    let draft = draft(path);
    let mut file = create_anew(&draft, mode)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // Where a name has no folder before it, that is this one.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    Ok(file)
}

/// Makes an empty file of this mode in the place of one that was left there. A link there is removed, and not followed, wherever it leads: who
/// may write to the folder is not always who runs this process.
///
/// # Errors
/// What the system says.
pub fn create_anew(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => File::options().write(true).create_new(true).mode(mode).open(path),
    }
}

/// Opens what is a file, and no link to one or what could be waited for: who may write to the folder is not always who runs this process.
///
/// # Errors
/// What the system says; [`InvalidInput`](io::ErrorKind::InvalidInput) for what is no file.
pub fn open_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = options.custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file, but a link or another thing"))
}

fn draft(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A replica that runs as root waited for whoever would write, and cut off what a link led to.
    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a directory");
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "one").expect("it can be done");
        symlink(&file, &link).expect("it can be done");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("it can be done");
        let open = |path: &Path| open_file(path, OpenOptions::new().read(true));
        assert!(open(&file).is_ok() && open(&link).is_err() && open(&pipe).is_err());
    }

    /// A server that runs as root cut off whatever file a link led to that another user had put there.
    #[test]
    fn a_link_in_the_draft_s_place_leads_nowhere() {
        let folder = tempfile::tempdir().expect("a directory");
        let (path, victim) = (folder.path().join("settings"), folder.path().join("victim"));
        fs::write(&victim, "precious").expect("it can be done");
        symlink(&victim, draft(&path)).expect("it can be done");
        write_whole(&path, b"one", 0o600).expect("it can be done");
        assert_eq!(fs::read(&victim).expect("it can be done"), b"precious");
        assert_eq!(fs::read(&path).expect("it can be done"), b"one");
        assert_eq!(fs::metadata(&path).expect("it can be done").permissions().mode() & 0o777, 0o600);
        write_whole(&path, b"another", 0o600).expect("it can be done");
        assert_eq!(fs::read(&path).expect("it can be done"), b"another");
        assert!(!draft(&path).exists());
    }
}
