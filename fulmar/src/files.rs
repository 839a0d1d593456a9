//! Files that users name, with errors that say which.

use crate::ending::BadUsage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is wrong with a file.
pub(crate) fn named(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

/// Makes the empty `draft` of what is to take the place of `file`: if that is there, nobody else can open it than before.
pub(crate) fn make_draft(draft: &Path, file: &Path) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(replaced) => replaced.mode() & 0o666,
        Err(why) if why.kind() == io::ErrorKind::NotFound => 0o666,
        Err(why) => return Err(why),
    };
    File::options().write(true).create_new(true).mode(mode).open(draft).map(drop)
}

/// Settings in TOML.
pub(crate) fn settings<T: DeserializeOwned>(path: &Path) -> Result<T, BadUsage> {
    let wrong = |why: &dyn Display| BadUsage::new(named(path, why));
    let text = fs::read_to_string(path).map_err(|why| wrong(&why))?;
    toml::from_str(&text).map_err(|why| wrong(&why))
}

/// Addresses in settings: a list of them, or a text with commas between them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(from = "Written")]
pub(crate) struct Addresses(pub(crate) Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected HOST:PORT, several with commas between them, or a list of them")]
enum Written {
    Text(String),
    List(Vec<String>),
}

impl From<Written> for Addresses {
    fn from(written: Written) -> Self {
        Self(match written {
            Written::Text(text) => text.split(',').map(|address| address.trim().to_owned()).collect(),
            Written::List(list) => list,
        })
    }
}

/// Where to draw, if anywhere.
pub(crate) struct Plot<'a>(Option<(File, &'a Path)>);

impl<'a> Plot<'a> {
    /// Makes the file, before minutes are spent for a picture that has no place.
    pub(crate) fn at(path: Option<&'a PathBuf>) -> Result<Self, String> {
        let create = |path: &'a PathBuf| match File::create(path) {
            Ok(file) => Ok((file, path.as_path())),
            Err(why) => Err(named(path, why)),
        };
        path.map(create).transpose().map(Self)
    }

    /// Draws what is asked for only.
    pub(crate) fn draw(self, picture: impl FnOnce() -> String) -> Result<(), String> {
        let Some((mut file, path)) = self.0 else { return Ok(()) };
        file.write_all(picture().as_bytes()).map_err(|why| named(path, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_list_or_have_commas_between_them() {
        #[derive(Deserialize)]
        struct Settings {
            join: Addresses,
        }
        let read = |text: &str| toml::from_str::<Settings>(text).map(|settings| settings.join.0);
        let both = || vec!["a:1".to_owned(), "b:2".to_owned()];
        assert_eq!(read("join = \"a:1, b:2\""), Ok(both()));
        assert_eq!(read("join = [\"a:1\", \"b:2\"]"), Ok(both()));
        let refused = read("join = 7400").expect_err("a number is none");
        assert!(refused.to_string().contains("several with commas between them"), "{refused}");
    }
}
