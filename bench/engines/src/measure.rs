//! What a run is judged by: ratios, counts from the kernel, and the lines that print them.

use crate::engine::Result;
use fulmar_node::Random;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One line of the report.
pub(crate) struct Figure {
    /// Fixed name, `engines.<engine>.<workload>`.
    pub(crate) name: String,
    /// One value for each run; the median counts.
    pub(crate) values: Vec<f64>,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// What a ratio is to; empty for counts.
    pub(crate) peer: &'static str,
    pub(crate) note: String,
}

/// The direction in which a figure improves.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Figure {
    fn sorted(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The line for machines, one JSON object.
    pub(crate) fn json(&self, machine: &str) -> String {
        let values = self.sorted();
        let better = match self.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        let number = |index: usize| values.get(index).map_or_else(|| "null".into(), |value| format!("{value:.4}"));
        format!(
            "{{\"figure\": {}, \"value\": {}, \"unit\": {}, \"better\": \"{better}\", \"peer\": {}, \"runs\": {}, \
             \"min\": {}, \"max\": {}, \"paper\": null, \"machine\": {}, \"note\": {}}}",
            quoted(&self.name),
            number(values.len() / 2),
            quoted(self.unit),
            if self.peer.is_empty() { "null".into() } else { quoted(self.peer) },
            values.len(),
            number(0),
            number(values.len().saturating_sub(1)),
            quoted(machine),
            quoted(&self.note),
        )
    }

    /// The line for people.
    pub(crate) fn text(&self) -> String {
        let values = self.sorted();
        let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
        let low = values.first().copied().unwrap_or(f64::NAN);
        let high = values.last().copied().unwrap_or(f64::NAN);
        format!("{:<36} {median:>10.3} {:<8} {low:.3} … {high:.3}  {}", self.name, self.unit, self.note)
    }
}

fn quoted(text: &str) -> String {
    let mut line = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                line.push('\\');
                line.push(character);
            }
            control if control.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(line, "\\u{:04x}", u32::from(control));
            }
            plain => line.push(plain),
        }
    }
    line.push('"');
    line
}

/// The number after `name:` in a file of `/proc/self`, in the file's own unit.
fn process_number(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/self/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no such line")?;
    Ok(number.parse()?)
}

/// Bytes that this process has caused to be written to the block layer.
pub(crate) fn bytes_written() -> Result<u64> {
    process_number("io", "write_bytes")
}

/// The largest resident set of this process so far, in bytes.
pub(crate) fn peak_memory() -> Result<u64> {
    Ok(process_number("status", "VmHWM")? * 1024)
}

/// Every file below `directory`.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Disk blocks taken by everything below `directory`, in bytes; holes in files count nothing.
pub(crate) fn disk_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for file in files(directory)? {
        // A background thread may have removed it meanwhile.
        bytes += fs::metadata(file).map_or(0, |metadata| metadata.blocks() * 512);
    }
    Ok(bytes)
}

/// Asks the kernel to forget its cached pages of every file below `directory`.
pub(crate) fn forget_pages(directory: &Path) -> Result<()> {
    use std::os::fd::AsRawFd;
    for path in files(directory)? {
        let file = fs::File::open(path)?;
        file.sync_all()?;
        #[allow(unsafe_code, reason = "the standard library has no posix_fadvise")]
        // SAFETY: the descriptor is open for the whole call, and the call touches no memory of ours.
        let failed = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if failed != 0 {
            return Err(std::io::Error::from_raw_os_error(failed).into());
        }
    }
    Ok(())
}

/// Bytes that do not compress.
pub(crate) fn noise(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}
