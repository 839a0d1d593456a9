//! How `ovs-appctl` finds the socket without being told where it is: by the file of `ovs-vswitchd` with the number of its process, which that
//! process has locked, and a socket whose name has that number (ovs-appctl(8)).

use fulmar_files::open_file;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// The file, and a link to the socket, as long as this is there.
pub(super) struct PidFile {
    path: PathBuf,
    link: PathBuf,
    /// A lock of POSIX ends with the first descriptor of the file that this process closes: it has no other.
    _locked: File,
}

impl PidFile {
    /// Writes it beside the socket.
    ///
    /// # Errors
    /// If it cannot be written, or another process has it.
    pub(super) fn write(socket: &Path) -> io::Result<Self> {
        let process = std::process::id();
        let path = socket.with_file_name("ovs-vswitchd.pid");
        let link = socket.with_file_name(format!("ovs-vswitchd.{process}.ctl"));
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut locked = open_file(&path, options)?;
        fcntl_lock(&locked, FlockOperation::NonBlockingLockExclusive)?;
        locked.set_len(0)?;
        locked.write_all(format!("{process}\n").as_bytes())?;
        // One that was killed with this number has left its own.
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        symlink(socket.file_name().unwrap_or_default(), &link)?;
        Ok(Self { path, link, _locked: locked })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Left there it leads to a socket that is gone; and somebody may have removed it.
        let _ = fs::remove_file(&self.link);
        // Left there it is locked by nobody, so that `ovs-appctl` does not believe it, and the next switch takes it over.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_socket_is_found_by_the_number_of_the_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("ctl.sock");
        let _listens = UnixListener::bind(&socket).expect("it listens");
        // Of one that was killed.
        fs::write(directory.path().join("ovs-vswitchd.pid"), "1234567890\n").expect("it can be written");
        let written = PidFile::write(&socket).expect("it can be written");
        let process = std::process::id();
        assert_eq!(
            fs::metadata(&written.path).expect("it is there").len(),
            process.to_string().len() as u64 + 1
        );
        let link = directory.path().join(format!("ovs-vswitchd.{process}.ctl"));
        UnixStream::connect(&link).expect("it leads there");
        drop(written);
        let left = fs::read_dir(directory.path()).expect("it is there").count();
        assert_eq!(left, 1, "only the socket");
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let other = directory.path().join("other");
        fs::write(&other, "text").expect("it can be written");
        symlink(&other, directory.path().join("ovs-vswitchd.pid")).expect("it can be made");
        assert!(PidFile::write(&directory.path().join("ctl.sock")).is_err());
        assert_eq!(fs::read(&other).expect("it is there"), b"text");
    }
}
