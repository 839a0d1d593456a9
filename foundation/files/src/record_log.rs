//! A file to which records are appended.
//!
//! ```text
//! file    magic:8 record*
//! record  length:u32 number:u64 checksum:u64 bytes
//! ```
//!
//! Numbers are little-endian; `length` is that of the bytes, a record's number is that of the one before it and one, and the checksum is
//! over all the rest of the record. Each record is synced before the next is written. So what a crash has left of a record is the end of
//! the file, and is cut off; before a whole record nothing can be amiss but by damage, and then nothing is taken for granted.

use crate::{open_file, write_whole};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before those of a record: length, number and checksum.
const HEAD: usize = 4 + 8 + 8;

/// How a file of records begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFormat {
    /// The first bytes of the file, which tell it from all others.
    pub magic: [u8; 8],
    /// Whether the checksum is over a record's length, too. It was not always.
    pub covers_length: bool,
}

/// A file of records that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordLogError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not as it was written.
    #[error("damaged at byte {0}, before records that are whole")]
    Damaged(usize),
}

/// A file to which records are appended, each with a number and a checksum.
///
/// *Known as:* a write-ahead log, a journal.
#[derive(Debug)]
pub struct RecordLog {
    path: PathBuf,
    file: File,
    mode: u32,
    /// As the file is, and as it is begun anew.
    format: RecordFormat,
    newest: RecordFormat,
    /// That of the last record.
    number: u64,
    length: u64,
}

impl RecordLog {
    /// Makes a file of this mode without records.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, format: RecordFormat, mode: u32) -> io::Result<()> {
        write_whole(path, &format.magic, mode).map(drop)
    }

    /// The file and the records that it holds, in one of these formats, of which there is one. When it is begun anew it gets the first, and this
    /// mode.
    ///
    /// # Errors
    /// [`RecordLogError`]
    pub fn open(
        path: &Path,
        formats: &[RecordFormat],
        mode: u32,
    ) -> Result<(Self, Vec<Vec<u8>>), RecordLogError> {
        let mut file = open_file(path, OpenOptions::new().read(true).append(true))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let format = formats.iter().find(|format| bytes.starts_with(&format.magic));
        let format = *format.ok_or(RecordLogError::Damaged(0))?;
        let (records, end) = format.read(&bytes).map_err(RecordLogError::Damaged)?;
        if end < bytes.len() {
            file.set_len(end as u64).and_then(|()| file.sync_all())?;
        }
        let number = records.len() as u64;
        let records = records.into_iter().map(Into::into).collect();
        let (newest, length) = (formats[0], end as u64);
        Ok((Self { path: path.into(), file, mode, format, newest, number, length }, records))
    }

    /// How long the file is: bytes.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Appends a record, which is durable when it was [synced](Self::sync).
    ///
    /// # Errors
    /// What the system says. Then nothing more is to be appended.
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let bytes = self.format.encode(self.number + 1, record)?;
        self.file.write_all(&bytes)?;
        self.number += 1;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Returns when all that was appended survives the loss of power.
    ///
    /// # Errors
    /// What the system says. Then nobody knows what is there.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Begins the file anew, with this record alone, which is durable when this returns.
    ///
    /// # Errors
    /// What the system says. Then the file is as it was.
    pub fn restart(&mut self, record: &[u8]) -> io::Result<()> {
        self.format = self.newest;
        let bytes = [self.format.magic.as_slice(), &self.format.encode(1, record)?].concat();
        self.file = write_whole(&self.path, &bytes, self.mode)?;
        (self.number, self.length) = (1, bytes.len() as u64);
        Ok(())
    }
}

impl RecordFormat {
    fn checksum(self, length: &[u8; 4], number: &[u8; 8], record: &[u8]) -> [u8; 8] {
        let length: &[u8] = if self.covers_length { length } else { &[] };
        xxh3_64(&[length, number, record].concat()).to_le_bytes()
    }

    fn encode(self, number: u64, record: &[u8]) -> io::Result<Vec<u8>> {
        let length = u32::try_from(record.len()).map_err(io::Error::other)?.to_le_bytes();
        let number = number.to_le_bytes();
        let checksum = self.checksum(&length, &number, record);
        Ok([&length, number.as_slice(), &checksum, record].concat())
    }

    /// The records and where they end, or where the bytes are damaged.
    fn read(self, bytes: &[u8]) -> Result<(Vec<&[u8]>, usize), usize> {
        let mut rest = &bytes[self.magic.len()..];
        let mut records = Vec::new();
        while let Some((record, after)) = self.record(rest, |number| number == records.len() as u64 + 1) {
            records.push(record);
            rest = after;
        }
        let end = bytes.len() - rest.len();
        let last = records.len() as u64;
        let is_later = |number| number > last && number - last < bytes.len() as u64;
        if (1..rest.len()).any(|skipped| self.record(&rest[skipped..], is_later).is_some()) {
            return Err(end);
        }
        Ok((records, end))
    }

    /// The record at the front of these bytes, and what comes after it, if it is whole and of a number that is expected.
    fn record(self, bytes: &[u8], is_expected: impl Fn(u64) -> bool) -> Option<(&[u8], &[u8])> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let (length, head) = head.split_first_chunk::<4>()?;
        let (number, checksum) = head.split_first_chunk::<8>()?;
        if !is_expected(u64::from_le_bytes(*number)) {
            return None;
        }
        let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        (self.checksum(length, number, record) == checksum).then_some((record, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    const FORMAT: RecordFormat = RecordFormat { magic: *b"fulmarT2", covers_length: true };
    const OLD: RecordFormat = RecordFormat { magic: *b"fulmarT1", covers_length: false };
    const RECORDS: [&[u8]; 4] = [b"first", b"", b"the third is longer than the others", b"4"];

    fn open(path: &Path) -> Result<(RecordLog, Vec<Vec<u8>>), RecordLogError> {
        RecordLog::open(path, &[FORMAT, OLD], 0o600)
    }

    /// A file with these records.
    fn written(format: RecordFormat, records: &[&[u8]]) -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        RecordLog::create(&path, format, 0o600).expect("there is room");
        let (mut log, none) = open(&path).expect("a new one");
        assert!(none.is_empty());
        records.iter().for_each(|record| log.append(record).expect("it is written"));
        (directory, path)
    }

    #[test]
    fn records_are_found_again_in_each_format() {
        for format in [FORMAT, OLD] {
            let (_directory, path) = written(format, &RECORDS);
            let (mut log, found) = open(&path).expect("it is whole");
            assert_eq!(found, RECORDS);
            log.append(b"5").expect("it is written");
            assert_eq!(open(&path).expect("it is whole").1.len(), 5);
            log.restart(b"all").expect("it is written");
            log.append(b"6").expect("it is written");
            assert_eq!(log.length(), fs::metadata(&path).expect("it is there").len());
            drop(log);
            assert!(fs::read(&path).expect("it is there").starts_with(&FORMAT.magic));
            assert_eq!(open(&path).expect("it is whole").1, [b"all".as_slice(), b"6"]);
        }
    }

    #[test]
    fn of_a_log_that_is_cut_the_beginning_is_left() {
        let (_directory, path) = written(FORMAT, &RECORDS);
        let whole = fs::read(&path).expect("it is there");
        let length = |count: usize| RECORDS[..count].iter().map(|record| HEAD + record.len()).sum::<usize>();
        let ends: Vec<usize> = (0..=RECORDS.len()).map(|count| 8 + length(count)).collect();
        for length in 8..whole.len() {
            fs::write(&path, &whole[..length]).expect("it can be written");
            let left = ends.iter().filter(|end| **end <= length).count() - 1;
            let (mut log, found) = open(&path).expect("its end is torn");
            assert_eq!(found, RECORDS[..left], "{length} bytes");
            log.append(b"next").expect("it goes on");
            drop(log);
            let found = open(&path).expect("it is whole").1;
            assert_eq!(found.last().map(Vec::as_slice), Some(b"next".as_slice()));
        }
        fs::write(&path, &whole[..3]).expect("it can be written");
        assert!(matches!(open(&path), Err(RecordLogError::Damaged(0))));
    }

    /// Of the last record nobody can say whether it was damaged or torn.
    #[test]
    fn a_bit_that_is_flipped_is_found() {
        for format in [FORMAT, OLD] {
            let (_directory, path) = written(format, &RECORDS);
            let whole = fs::read(&path).expect("it is there");
            let last = whole.len() - HEAD - RECORDS[3].len();
            for bit in 0..8 * whole.len() {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, &flipped).expect("it can be written");
                match open(&path) {
                    Ok((_, found)) => {
                        assert!(bit / 8 >= last, "bit {bit}");
                        assert_eq!(found, RECORDS[..3]);
                    }
                    Err(RecordLogError::Damaged(at)) => {
                        assert!(at <= bit / 8 && bit / 8 < last, "bit {bit}: {at}");
                    }
                    Err(RecordLogError::Io(why)) => panic!("{why}"),
                }
            }
        }
    }
}
