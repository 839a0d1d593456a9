//! What a process did to the files below one directory, in order.

use std::io;
use std::path::PathBuf;

/// A file, whatever its name is.
pub type FileId = u64;

/// One thing that was done. Paths are relative to the watched directory, which itself is the empty path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A directory was made.
    MakeDirectory(PathBuf),
    /// An empty directory was removed.
    RemoveDirectory(PathBuf),
    /// A file that did not exist was made, empty.
    Create(PathBuf, FileId),
    /// A file got another name, which may have been another file's.
    Rename(PathBuf, PathBuf),
    /// A file's name was removed.
    Remove(PathBuf),
    /// What happened to names was made durable.
    SyncDirectory(PathBuf),
    /// Bytes were written at an offset.
    Write(FileId, u64, Vec<u8>),
    /// A file was given a length, bytes.
    Resize(FileId, u64),
    /// A file was made durable, by `fsync`.
    Sync(FileId),
    /// A file was made durable, by `fdatasync`.
    SyncData(FileId),
    /// The process was told that a thread's transaction of this number is committed.
    Acknowledged(i64, i64),
}

impl Operation {
    /// Appends this operation to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut write = Writer(bytes);
        match self {
            Self::MakeDirectory(path) => write.tag(0).path(path),
            Self::RemoveDirectory(path) => write.tag(1).path(path),
            Self::Create(path, file) => write.tag(2).path(path).number(*file),
            Self::Rename(from, to) => write.tag(3).path(from).path(to),
            Self::Remove(path) => write.tag(4).path(path),
            Self::SyncDirectory(path) => write.tag(5).path(path),
            Self::Write(file, offset, data) => write.tag(6).number(*file).number(*offset).bytes(data),
            Self::Resize(file, length) => write.tag(7).number(*file).number(*length),
            Self::Sync(file) => write.tag(8).number(*file),
            Self::SyncData(file) => write.tag(9).number(*file),
            Self::Acknowledged(thread, n) => write.tag(10).signed(*thread).signed(*n),
        };
    }

    fn decode(read: &mut Reader<'_>) -> Option<Self> {
        Some(match read.tag()? {
            0 => Self::MakeDirectory(read.path()?),
            1 => Self::RemoveDirectory(read.path()?),
            2 => Self::Create(read.path()?, read.number()?),
            3 => Self::Rename(read.path()?, read.path()?),
            4 => Self::Remove(read.path()?),
            5 => Self::SyncDirectory(read.path()?),
            6 => Self::Write(read.number()?, read.number()?, read.bytes()?.into()),
            7 => Self::Resize(read.number()?, read.number()?),
            8 => Self::Sync(read.number()?),
            9 => Self::SyncData(read.number()?),
            10 => Self::Acknowledged(read.signed()?, read.signed()?),
            _ => return None,
        })
    }
}

/// The operations in the bytes of a trace. What a process that ended was in the midst of appending is left out.
///
/// # Errors
/// If the bytes are something else.
pub fn decode(bytes: &[u8]) -> io::Result<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        match Operation::decode(&mut reader) {
            Some(operation) => operations.push(operation),
            None if reader.0.is_empty() => break,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "not a trace of file operations")),
        }
    }
    Ok(operations)
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn signed(&mut self, number: i64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn path(&mut self, path: &std::path::Path) -> &mut Self {
        self.bytes(path.as_os_str().as_encoded_bytes())
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes; if there are fewer, none are left.
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        match self.0.split_at_checked(count) {
            Some((taken, rest)) => {
                self.0 = rest;
                Some(taken)
            }
            None => {
                self.0 = &[];
                None
            }
        }
    }

    fn tag(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn signed(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn path(&mut self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        Some(std::ffi::OsStr::from_bytes(self.bytes()?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let operations = [
            Operation::MakeDirectory("a".into()),
            Operation::Create("a/b".into(), 1),
            Operation::Write(1, 4096, vec![1, 2, 3]),
            Operation::Resize(1, 9),
            Operation::Sync(1),
            Operation::SyncData(1),
            Operation::Rename("a/b".into(), "a/c".into()),
            Operation::SyncDirectory("a".into()),
            Operation::Acknowledged(2, -7),
            Operation::Remove("a/c".into()),
            Operation::RemoveDirectory("a".into()),
        ];
        let mut bytes = Vec::new();
        for operation in &operations {
            operation.encode(&mut bytes);
        }
        assert_eq!(decode(&bytes).expect("a trace"), operations);
        bytes.pop();
        assert_eq!(decode(&bytes).expect("a trace that was cut short"), operations[..10]);
        decode(b"SQLite format 3").expect_err("no trace");
    }
}
