//! sqllogictest: all shared files, each on a fresh database; on servers those that do not take long. `soak slt` runs
//! all there, too.

use fulmar_conformance::{database, server, slt};
use tempfile::TempDir;

/// The beginnings of files of all kinds that take seconds.
const SLICE: [&str; 5] = ["evidence-", "select1.", "select2.", "index-commute-10-", "random-aggregates-"];

#[test]
fn the_shared_files_pass() {
    let Some(folder) = slt::folder() else {
        println!("sqllogictest: no folder ../shared/sqllogictest beside the repository, nothing run");
        return;
    };
    let mut files = slt::files(&folder).expect("the folder can be listed");
    if server::count() > 0 {
        files.retain(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            SLICE.iter().any(|beginning| name.starts_with(beginning))
        });
    }
    assert!(!files.is_empty(), "{} holds no *.test.gz", folder.display());
    let mut failures = Vec::new();
    for file in &files {
        let dir = TempDir::new().expect("a temporary directory");
        match slt::run_file(file, &database::under_test(dir.path())) {
            Ok(passed) => println!(
                "sqllogictest: {}: {} records passed, {} known failures",
                file.display(),
                passed.records,
                passed.known_failures
            ),
            Err(error) => failures.push(error.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
