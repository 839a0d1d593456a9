//! What the NAME of a database means.
//!
//! A Fulmar database is the default and a file that SQLite made is still opened as what it is: a name says
//! what it means with a scheme (`fulmar:` or `file:`), and one without is looked for on the disk.

use fulmar_sql::FileKind;
use std::path::Path;

/// The schemes a name may begin with.
const SCHEMES: &str = "\"fulmar:PATH\" (a Fulmar database), \"fulmar://HOST:PORT/DATABASE\" (one on a server) and \"file:PATH\" (an ordinary SQLite file)";

/// A database to open, by what it is stored as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// Gone with the connection.
    Memory,
    /// A file in SQLite's own format: a path, or a `file:` URI.
    Ordinary(String),
    /// A Fulmar database: a path without the scheme.
    Fulmar(String),
}

/// A name that is no database.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// `foo:bar`.
    #[error(
        "unknown scheme \"{scheme}:\" in \"{name}\"; known are {SCHEMES}, and \"./{name}\" is a file of that name"
    )]
    UnknownScheme {
        /// The whole name.
        name: String,
        /// What comes before the colon.
        scheme: String,
    },
    /// `:memroy:`.
    #[error(
        "\"{0}\" is no name of a database; \":memory:\" is one in memory, and \"./{0}\" a directory of that name"
    )]
    Special(String),
    /// A letter, or a script.
    #[error("\"{0}\" is a file, but not a database; if it is a script: fulmar sql NAME < {0}")]
    NotADatabase(String),
    /// `fulmar:` and nothing after it.
    #[error("\"{0}\" lacks a path; expected \"fulmar:PATH\"")]
    NoPath(String),
}

impl Database {
    /// Finds out what `name` means, looking at the disk when it has no scheme.
    pub fn named(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name == ":memory:" {
            return Ok(Self::Memory);
        }
        match scheme(name) {
            Some("fulmar") => {
                let path = &name["fulmar:".len()..];
                match path {
                    "" => Err(NameError::NoPath(name.into())),
                    _ => Ok(Self::Fulmar(path.into())),
                }
            }
            Some("file") => Ok(Self::Ordinary(name.into())),
            Some(scheme) => Err(NameError::UnknownScheme { name: name.into(), scheme: scheme.into() }),
            None if name.starts_with(':') => Err(NameError::Special(name.into())),
            None if Path::new(name).is_file() => Self::in_file(name),
            None => Ok(Self::Fulmar(name.into())),
        }
    }

    fn in_file(name: &str) -> Result<Self, NameError> {
        match fulmar_sql::file_kind(Path::new(name)) {
            Ok(FileKind::Marker(data)) => Ok(Self::Fulmar(data.trim_start_matches("fulmar:").into())),
            Ok(FileKind::Other) => Err(NameError::NotADatabase(name.into())),
            // Why it cannot be read is for SQLite to say.
            Ok(FileKind::Ordinary) | Err(_) => Ok(Self::Ordinary(name.into())),
        }
    }

    /// The name under which SQLite opens it.
    pub fn sqlite_name(&self) -> String {
        match self {
            Self::Memory => ":memory:".into(),
            Self::Ordinary(name) => name.clone(),
            Self::Fulmar(path) => format!("fulmar:{path}"),
        }
    }
}

/// What stands before the colon, if it can be a scheme: a single letter is a drive, and a slash a path.
fn scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once(':')?;
    let can_be = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each));
    can_be.then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_say_what_a_name_means() {
        assert_eq!(Database::named("fulmar:a/b"), Ok(Database::Fulmar("a/b".into())));
        assert_eq!(Database::named("file:x.db?mode=ro"), Ok(Database::Ordinary("file:x.db?mode=ro".into())));
        assert_eq!(Database::named(":memory:"), Ok(Database::Memory));
        assert_eq!(Database::named("C:\\data"), Ok(Database::Fulmar("C:\\data".into())));
        assert_eq!(Database::named("./odd:name"), Ok(Database::Fulmar("./odd:name".into())));
        assert!(
            matches!(Database::named("foo:bar"), Err(NameError::UnknownScheme { scheme, .. }) if scheme == "foo")
        );
        assert_eq!(Database::named("fulmar://host:1/db"), Ok(Database::Fulmar("//host:1/db".into())));
        assert_eq!(Database::named(":memroy:"), Err(NameError::Special(":memroy:".into())));
        assert!(matches!(Database::named("fulmar:"), Err(NameError::NoPath(_))));
    }

    #[test]
    fn a_bare_name_is_a_fulmar_database_unless_a_file_has_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("file.db"), "").expect("a file");
        std::fs::write(path("letter"), "Dear Sir or Madam").expect("a file");
        std::fs::write(path("marker.db"), "Fulmar database; data in marker.db-fulmar/1\n\n…")
            .expect("a file");
        assert_eq!(Database::named(&path("file.db")), Ok(Database::Ordinary(path("file.db"))));
        assert_eq!(Database::named(&path("letter")), Err(NameError::NotADatabase(path("letter"))));
        assert_eq!(Database::named(&path("marker.db")), Ok(Database::Fulmar(path("marker.db-fulmar/1"))));
        assert_eq!(Database::named(&path("new")), Ok(Database::Fulmar(path("new"))));
        assert_eq!(Database::named(&path("")), Ok(Database::Fulmar(path(""))));
    }
}
