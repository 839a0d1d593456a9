//! A disk of a server: an ext4 file system in a file, of which what was not synced can be lost.

use super::{Failure, output};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Room for a server that is wiped and copies while it goes on.
const SIZE: u64 = 512 << 20;
/// `FS_IOC_SHUTDOWN`, and its argument that has the journal end where it was last written.
const SHUTDOWN: libc::Ioctl = 0x8004_587d;
static WITHOUT_LOG: u32 = 2;
/// A killed process may have it open for a moment.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Volume {
    file: PathBuf,
    path: PathBuf,
}

impl Volume {
    /// A new one, which is there as `path`.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(path)?;
        let volume = Self { file: path.with_extension("ext4"), path: path.into() };
        volume.format()?;
        volume.mount()?;
        Ok(volume)
    }

    fn format(&self) -> Result<(), Failure> {
        File::create(&self.file)?.set_len(SIZE)?;
        output(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&self.file)).map(drop)
    }

    fn mount(&self) -> Result<(), Failure> {
        output(Command::new("mount").args(["-o", "loop"]).arg(&self.file).arg(&self.path)).map(drop)
    }

    fn unmount(&self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            match output(Command::new("umount").arg(&self.path)) {
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Nothing is written from now on, and every call fails: as without power.
    #[expect(unsafe_code, reason = "an ioctl that has no wrapper")]
    pub(super) fn fail(&self) -> Result<(), Failure> {
        let directory = File::open(&self.path)?;
        // SAFETY: it reads one number, which outlives the call.
        let result = unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN, &raw const WITHOUT_LOG) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
    }

    /// It is back after [`Self::fail`], with what had been synced. Nobody has it open.
    pub(super) fn recover(&self) -> Result<(), Failure> {
        self.unmount()?;
        self.mount()
    }

    /// It is empty, as a new one. Nobody has it open.
    pub(super) fn wipe(&self) -> Result<(), Failure> {
        self.unmount()?;
        self.format()?;
        self.mount()
    }

    /// Takes all room.
    pub(super) fn fill(&self) -> Result<(), Failure> {
        // It ends because there is no more: that is what is asked for.
        let filled = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "status=none"])
            .arg(self.filler_argument())
            .output()?;
        if filled.status.success() { Err("the disk is never full".into()) } else { Ok(()) }
    }

    pub(super) fn empty(&self) -> Result<(), Failure> {
        Ok(std::fs::remove_file(self.path.join(FILLER))?)
    }

    fn filler_argument(&self) -> std::ffi::OsString {
        let mut argument = std::ffi::OsString::from("of=");
        argument.push(self.path.join(FILLER));
        argument
    }
}

const FILLER: &str = "filler";
