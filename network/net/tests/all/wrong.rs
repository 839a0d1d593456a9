//! Topologies that are not as they should be, and what is said of them: files in `tests/wrong`, each with its error.

use fulmar_net::Topology;
use std::fs;
use std::path::Path;

#[test]
fn what_is_wrong_in_a_file_is_pointed_at() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong");
    let mut count = 0;
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&path).expect("text");
        let file = Path::new(path.file_name().expect("a name"));
        let said = Topology::parse(&text, file).expect_err("it is wrong").to_string() + "\n";
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        assert_eq!(said, expected, "{}", path.display());
    }
    assert_eq!(count, 7);
}
