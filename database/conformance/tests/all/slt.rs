//! sqllogictest: all shared files, each on a fresh database.

use fulmar_conformance::{database, slt};
use tempfile::TempDir;

#[test]
fn every_shared_file_passes() {
    let Some(folder) = slt::folder() else {
        println!("sqllogictest: no folder ../shared/sqllogictest beside the repository, nothing run");
        return;
    };
    let files = slt::files(&folder).expect("the folder can be listed");
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
