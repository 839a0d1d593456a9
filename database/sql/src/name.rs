//! Names of databases: `fulmar:PATH` or `fulmar://HOST:PORT/DATABASE`, with parameters after a question mark.

use crate::codes::{CANTOPEN, Failure};
use fulmar_cluster::with_port;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// What a name begins with that is ours.
const SCHEME: &str = "fulmar:";
/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// How a database may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    ReadWrite,
    ReadWriteCreate,
}

/// What `BEGIN IMMEDIATE` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Immediate {
    /// Takes its snapshot at once, and keeps nobody out.
    Shared,
    /// Is alone among writers, as `BEGIN EXCLUSIVE`: as in SQLite.
    Exclusive,
}

impl Immediate {
    /// The variable that decides where neither the name nor a PRAGMA does.
    const VARIABLE: &str = "FULMAR_IMMEDIATE";

    pub(crate) fn parse(value: &str) -> Option<Self> {
        match value.to_ascii_lowercase().as_str() {
            "shared" => Some(Self::Shared),
            "exclusive" => Some(Self::Exclusive),
            _ => None,
        }
    }

    /// As the environment says when it is first asked.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        static FOUND: OnceLock<String> = OnceLock::new();
        let value = FOUND.get_or_init(|| std::env::var(Self::VARIABLE).unwrap_or_default());
        if value.is_empty() {
            return Ok(Self::Shared);
        }
        let wrong = || format!("{}={value}: expected shared or exclusive", Self::VARIABLE);
        Self::parse(value).ok_or_else(|| Failure::new(CANTOPEN, wrong()))
    }
}

/// A parsed name.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) place: Place,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) access: Option<Access>,
    /// How long servers may take to answer.
    pub(crate) timeout: Option<Duration>,
    pub(crate) immediate: Option<Immediate>,
}

/// Where a database is.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a directory of this machine.
    Here(PathBuf),
    /// On servers.
    There {
        /// `HOST:PORT` of some of them.
        servers: Vec<String>,
        /// Its name there.
        database: String,
    },
}

impl Name {
    /// Parses `fulmar:PATH[?cache=SIZE&mode=ro|rw|rwc&immediate=shared|exclusive]`, where `%HH` stands for a byte, as in a
    /// URI, or `fulmar://HOST:PORT[,HOST:PORT…]/DATABASE[?mode=…&immediate=…&timeout=TIME]`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::new(CANTOPEN, format!("{text}: {what}"));
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let path =
            decode(path).ok_or_else(|| wrong("% must be followed by two hexadecimal digits".into()))?;
        if path.is_empty() {
            return Err(wrong("names no directory; expected fulmar:PATH".into()));
        }
        let place = match path.strip_prefix("//") {
            Some(rest) => there(rest).ok_or_else(|| wrong("expected fulmar://HOST:PORT/DATABASE".into()))?,
            None => Place::Here(PathBuf::from(path)),
        };
        let mut name = Self { place, cache_bytes: None, access: None, timeout: None, immediate: None };
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match key {
                "cache" => {
                    name.cache_bytes = Some(bytes(value).ok_or_else(|| {
                        wrong(format!("cache={value}: expected a size such as 64MB or 2GB"))
                    })?);
                }
                "mode" => {
                    name.access = Some(match value {
                        "ro" => Access::Read,
                        "rw" => Access::ReadWrite,
                        "rwc" => Access::ReadWriteCreate,
                        _ => return Err(wrong(format!("mode={value}: expected ro, rw or rwc"))),
                    });
                }
                "timeout" => {
                    name.timeout = Some(time(value).ok_or_else(|| {
                        wrong(format!("timeout={value}: expected a time such as 5s, 500ms or 2m"))
                    })?);
                }
                "immediate" => {
                    name.immediate =
                        Some(Immediate::parse(value).ok_or_else(|| {
                            wrong(format!("immediate={value}: expected shared or exclusive"))
                        })?);
                }
                _ => {
                    let known = "known are immediate, cache, mode and timeout";
                    return Err(wrong(format!("unknown parameter {key}; {known}")));
                }
            }
        }
        Ok(name)
    }
}

/// `HOST[:PORT][,HOST[:PORT]…]/DATABASE`.
fn there(text: &str) -> Option<Place> {
    let (servers, database) = text.split_once('/')?;
    let servers = servers.split(',').map(with_port).collect::<Option<_>>()?;
    let is_name = !database.is_empty() && !database.contains('/');
    is_name.then(|| Place::There { servers, database: database.into() })
}

/// Whether a name says by itself that it is ours.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with(SCHEME)
}

/// The name under which the database in `path` can be opened again.
pub(crate) fn of(path: &Path) -> String {
    let mut name = String::from(SCHEME);
    for c in path.to_string_lossy().chars() {
        match c {
            '%' => name.push_str("%25"),
            '?' => name.push_str("%3F"),
            c => name.push(c),
        }
    }
    name
}

/// The file or directory itself, links followed, also if it does not exist: SQLite makes a database where a link points.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(CANTOPEN, format!("{}: {why}", path.display()))
    };
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(found) = path.canonicalize() {
            return Ok(found);
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = parent.canonicalize().map_err(|error| cannot(parent, &error))?;
        match path.file_name() {
            Some(name) => path = parent.join(name),
            None => return Err(cannot(&path, &"not a name for a file or directory")),
        }
        match path.read_link() {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(cannot(&path, &"too many links"))
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// A time that is not zero: digits, then `ms`, `s` or `m`.
fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

/// A size in bytes: digits, then `KB`, `MB`, `GB` (powers of 1024) or nothing.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Name, String> {
        Name::parse(text).map_err(|f| f.message)
    }

    #[test]
    fn names() {
        let plain = Name {
            place: Place::Here("a/b".into()),
            cache_bytes: None,
            access: None,
            timeout: None,
            immediate: None,
        };
        assert_eq!(parsed("fulmar:a/b"), Ok(plain));
        let full = Name {
            place: Place::Here("/x y?".into()),
            cache_bytes: Some(64 << 20),
            access: Some(Access::ReadWrite),
            timeout: Some(Duration::from_millis(1500)),
            immediate: Some(Immediate::Exclusive),
        };
        let text = "fulmar:/x%20y%3F?cache=64MB&mode=rw&timeout=1500ms&immediate=exclusive";
        assert_eq!(parsed(text), Ok(full));
        let place = Place::There { servers: vec!["a:1".into(), "[::1]:2".into()], database: "db".into() };
        let access = Some(Access::Read);
        let there = Name { place, cache_bytes: None, access, timeout: None, immediate: None };
        assert_eq!(parsed("fulmar://a:1,[::1]:2/db?mode=ro"), Ok(there));
        let place =
            Place::There { servers: vec!["a:7400".into(), "[::1]:7400".into()], database: "db".into() };
        let there = Name { place, cache_bytes: None, access: None, timeout: None, immediate: None };
        assert_eq!(parsed("fulmar://a,[::1]/db"), Ok(there));
        assert_eq!(of(Path::new("/50%?")), "fulmar:/50%25%3F");
    }

    #[test]
    fn wrong_names_are_explained() {
        for (name, expected) in [
            ("fulmar:", "names no directory"),
            ("fulmar://host:eggs/db", "expected fulmar://HOST:PORT/DATABASE"),
            ("fulmar:///db", "expected fulmar://HOST:PORT/DATABASE"),
            ("fulmar://host:7400", "expected fulmar://HOST:PORT/DATABASE"),
            ("fulmar://host:7400/a/b", "expected fulmar://HOST:PORT/DATABASE"),
            ("fulmar:a?cache=many", "expected a size"),
            ("fulmar:a?mode=w", "expected ro, rw or rwc"),
            ("fulmar:a?timeout=5", "expected a time such as 5s"),
            ("fulmar:a?timeout=0s", "expected a time such as 5s"),
            ("fulmar:a?timeout=-1s", "expected a time such as 5s"),
            ("fulmar:a?immediate=now", "expected shared or exclusive"),
            ("fulmar:a?speed=9", "unknown parameter speed"),
            ("fulmar:%z1", "two hexadecimal digits"),
        ] {
            let message = parsed(name).expect_err(name);
            assert!(message.starts_with(name) && message.contains(expected), "{message}");
        }
    }
}
