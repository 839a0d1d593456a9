//! Compiles SQLite's amalgamation with its B-tree layer opened up: see `build/amalgamation.rs` for the changes and
//! `c/` for what they call.

#[path = "build/amalgamation.rs"]
mod amalgamation;
#[path = "build/header.rs"]
mod header;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the amalgamation comes from; the version is pinned in Cargo.toml.
const SOURCE_PACKAGE: &str = "libsqlite3-sys";

/// Our C sources, in the order in which they follow the amalgamation and the prototypes of what they call.
const SOURCES: &[&str] = &["handle.c", "cursor.c", "hooks.c", "backup.c"];

/// What Debian's libsqlite3 is compiled with, but for what would read pages behind our back (DBSTAT, DBPAGE), what
/// needs SQLite's parser regenerated (UPDATE_DELETE_LIMIT), and what changes answers (SECURE_DELETE,
/// LIKE_DOESNT_MATCH_BLOBS).
const OPTIONS: &[(&str, Option<&str>)] = &[
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS3_TOKENIZER", None),
    ("SQLITE_ENABLE_FTS4", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_GEOPOLY", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", None),
    ("SQLITE_ENABLE_MATH_FUNCTIONS", None),
    ("SQLITE_ENABLE_PREUPDATE_HOOK", None),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_SESSION", None),
    ("SQLITE_ENABLE_STAT4", None),
    ("SQLITE_ENABLE_STMTVTAB", None),
    ("SQLITE_ENABLE_UNLOCK_NOTIFY", None),
    ("SQLITE_MAX_VARIABLE_NUMBER", Some("250000")),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", None),
    ("SQLITE_CORE", None),
    ("HAVE_ISNAN", None),
    ("HAVE_USLEEP", Some("1")),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=src/ffi.rs");
    println!("cargo::rerun-if-changed=src/ffi");
    let sqlite = amalgamation_directory();
    let original = sqlite.join("sqlite3.c");
    let text = fs::read_to_string(&original).unwrap_or_else(|e| panic!("{}: {e}", original.display()));
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let read = |name: &str| {
        let path = own.join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let source = |name: &str| format!("#line 1 \"{name}\"\n{}\n", read(&format!("c/{name}")));
    let called = read("src/ffi.rs") + &sources_in(&own.join("src/ffi"));
    let mut tail = source("glue.h") + &header::prototypes(&called);
    SOURCES.iter().for_each(|name| tail.push_str(&source(name)));
    let opened = amalgamation::open_up(&text, &read("c/seams.h"), &tail);
    let target = Path::new(&variable("OUT_DIR")).join("sqlite3-fulmar.c");
    fs::write(&target, opened).unwrap_or_else(|e| panic!("{}: {e}", target.display()));

    let mut build = cc::Build::new();
    build.file(&target).include(&sqlite).opt_level(2).warnings(false);
    for (name, value) in OPTIONS {
        build.define(name, *value);
    }
    if env::var_os("CARGO_FEATURE_SQLITE_DEBUG").is_some() {
        build.define("SQLITE_DEBUG", None);
    }
    build.compile("fulmar_sqlite");
    // sqlite3_load_extension, the mathematical functions and FTS5's ranking.
    for library in ["dl", "m", "pthread"] {
        println!("cargo::rustc-link-lib={library}");
    }
}

/// The Rust files in `folder`, one after the other by their names: all of them, as C would call a function without a prototype all the same.
fn sources_in(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    paths.sort();
    let read =
        |path: &PathBuf| fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    paths.iter().map(read).collect()
}

/// Asks cargo where the package that carries the amalgamation is: in the registry's cache, or vendored.
fn amalgamation_directory() -> PathBuf {
    let output = Command::new(variable("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(variable("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|e| panic!("cargo metadata: {e}"));
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("cargo metadata's answer: {e}"));
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == SOURCE_PACKAGE)
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|manifest| Path::new(manifest).parent())
        .map(|directory| directory.join("sqlite3"))
        .unwrap_or_else(|| panic!("cargo metadata does not list {SOURCE_PACKAGE}"))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}
