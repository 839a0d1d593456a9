//! The program that serves a database to the processes of one machine: `fulmar serve --local`.

use crate::fork::ClosedInChild;
use fulmar_dbt::{Options, Timestamp};
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

/// What names the program, if it is not where it is looked for.
const VARIABLE: &str = "FULMAR_PROGRAM";
const PROGRAM: &str = "fulmar";
/// What the server says when it can be reached.
const READY: &str = "ready";

/// Where the program is: as the environment says; or beside the file that this code is in, a library or a program; or
/// where programs are.
pub(super) fn find() -> Result<PathBuf, String> {
    if let Some(program) = env::var_os(VARIABLE) {
        let program = PathBuf::from(program);
        let missing = || format!("{VARIABLE} names {}, which is no program", program.display());
        return if is_program(&program) { Ok(program.clone()) } else { Err(missing()) };
    }
    let beside = our_file().and_then(|file| file.parent().map(Path::to_path_buf));
    let beside =
        beside.into_iter().flat_map(|folder| [folder.clone(), folder.join(".."), folder.join("../bin")]);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.chain(env::split_paths(&path).filter(|folder| folder.is_absolute()));
    folders.map(|folder| folder.join(PROGRAM)).find(|program| is_program(program)).ok_or_else(|| {
        format!(
            "the program `{PROGRAM}`, which serves a database to several processes, is neither beside the library nor in \
             PATH; install it, or set {VARIABLE} to its path"
        )
    })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The file that this code was loaded from.
fn our_file() -> Option<PathBuf> {
    let here = our_file as fn() -> Option<PathBuf> as usize;
    // ADDRESS-ADDRESS MODE OFFSET DEVICE INODE PATH
    fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        let (low, high) = line.split(' ').next()?.split_once('-')?;
        let address = |digits| usize::from_str_radix(digits, 16).ok();
        let holds = (address(low)?..address(high)?).contains(&here);
        holds.then(|| line.find('/').map(|path| PathBuf::from(&line[path..])))?
    })
}

/// Starts a server of the database in `path`, and waits until it can be reached. It inherits the lock, if that is passed
/// on, and keeps the oldest snapshot that is in use for as long as what is returned lives.
pub(super) fn start(
    program: &Path,
    path: &Path,
    options: &Options,
    lock: Option<&File>,
    oldest: Option<Timestamp>,
) -> Result<Option<ChildStdout>, String> {
    let failed = |why: std::io::Error| format!("cannot start {}: {why}", program.display());
    let mut command = Command::new(program);
    command.args(["serve", "--cache-bytes", &options.cache_bytes.to_string()]);
    if let Some(oldest) = oldest {
        command.args(["--keep", &oldest.0.to_string()]);
    }
    command.arg("--local").arg(path);
    let lock = lock.map(File::try_clone).transpose().map_err(failed)?;
    let closed = lock.as_ref().map(|lock| ClosedInChild::new(lock.as_raw_fd()));
    match lock {
        Some(lock) => command.arg("--locked").stdin(lock),
        None => command.stdin(Stdio::null()),
    };
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    drop((closed, command));
    let mut child = spawned.map_err(failed)?;
    let mut output = child.stdout.take();
    let mut answer = String::new();
    if let Some(output) = &mut output {
        BufReader::new(output).read_line(&mut answer).map_err(failed)?;
    }
    // The server is not a child of this process, but of this one, which has ended by now. If the application collects
    // its children by itself, it has been collected.
    let _ = child.wait();
    match answer.trim_end() {
        READY => Ok(output),
        "" => Err(format!("{} ended without a word", program.display())),
        why => Err(why.into()),
    }
}
