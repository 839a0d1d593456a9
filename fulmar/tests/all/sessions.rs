//! Whole sessions as golden text: each `golden/NAME.sql` is played to a shell with a database in memory, and
//! what it answers, errors among the results, must be `golden/NAME.out`.
//! `FULMAR_UPDATE_GOLDEN=1 cargo test -p fulmar` writes the answers anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use fulmar::shell::{Database, Flow, Script, Settings, Shell};

/// Collects results and errors in the order in which they come.
#[derive(Clone, Default)]
struct Transcript(Rc<RefCell<Vec<u8>>>);

impl Write for Transcript {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Plays a script; answers the transcript, how it ended and how many errors there were.
pub(crate) fn play(database: Database, script: &str) -> (String, Flow, u64) {
    let transcript = Transcript::default();
    let (output, errors) = (Box::new(transcript.clone()), Box::new(transcript.clone()));
    let mut shell = Shell::open(database, Settings::default(), output, errors).unwrap();
    let mut state = Script::batch();
    let flow = shell.run_script(&mut state, &mut script.as_bytes()).unwrap();
    drop(shell);
    let text = String::from_utf8(transcript.0.take()).unwrap();
    (text, flow, state.errors())
}

#[test]
fn sessions_answer_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut scripts: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    scripts.sort();
    assert!(!scripts.is_empty(), "no scripts in {}", folder.display());
    let update = std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for script in scripts {
        let (answer, ..) = play(Database::Memory, &std::fs::read_to_string(&script).unwrap());
        let golden = script.with_extension("out");
        if update {
            std::fs::write(&golden, &answer).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != answer {
            different.push(format!("{}:\n{answer}", script.display()));
        }
    }
    assert!(different.is_empty(), "other answers than in the golden files:\n{}", different.join("\n"));
}

#[test]
fn a_dump_makes_the_same_database_again() {
    let schema = include_str!("../golden/dump.sql");
    let (first, _, errors) = play(Database::Memory, schema);
    assert_eq!(errors, 0, "{first}");
    let (second, _, errors) = play(Database::Memory, &format!("{first}.dump\n"));
    assert_eq!(errors, 0, "{second}");
    assert_eq!(first, second);
}

#[test]
fn a_saved_database_can_be_restored() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("saved.db").to_string_lossy().into_owned();
    let schema = include_str!("../golden/dump.sql");
    let (dump, _, errors) = play(Database::Memory, &format!("{schema}.save '{file}'\n"));
    assert_eq!(errors, 0, "{dump}");
    let (restored, _, errors) = play(Database::Memory, &format!(".restore '{file}'\n.dump\n"));
    assert_eq!(errors, 0, "{restored}");
    // A copy has its virtual tables at the end of the schema: VACUUM puts them there.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&dump), sorted(&restored));
    let (refused, _, errors) = play(Database::Memory, &format!("CREATE TABLE t(a);\n.restore '{file}'\n"));
    assert_eq!(errors, 1, "{refused}");
    assert!(refused.contains("not empty"), "{refused}");
}

#[test]
fn an_import_arrives_completely_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv").to_string_lossy().into_owned();
    std::fs::write(&file, "id,name\n1,\"a, \"\"b\"\"\"\n2,\n1,c\n").unwrap();
    let (created, _, errors) = play(
        Database::Memory,
        &format!(".import --csv -v '{file}' birds\n.schema\n.mode quote\nSELECT * FROM birds;\n"),
    );
    assert_eq!(errors, 0, "{created}");
    let expected = "Added 3 rows to \"birds\"\n\
                    CREATE TABLE IF NOT EXISTS \"birds\"(\n\"id\" TEXT, \"name\" TEXT);\n\
                    '1','a, \"b\"'\n'2',''\n'1','c'\n";
    assert_eq!(created, expected);
    let (refused, _, errors) = play(
        Database::Memory,
        &format!(
            "CREATE TABLE birds(id INTEGER PRIMARY KEY, name);\nBEGIN;\nINSERT INTO birds VALUES(7, 'kept');\n\
             .import --csv --skip 1 '{file}' birds\nCOMMIT;\nSELECT * FROM birds;\n"
        ),
    );
    assert_eq!(errors, 1, "{refused}");
    assert!(refused.contains("rows.csv:4: UNIQUE constraint failed: birds.id"), "{refused}");
    assert!(refused.ends_with("7|kept\n"), "{refused}");
}

#[test]
fn a_redirected_result_goes_to_its_file_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (once, output) = (path("once"), path("output"));
    let script = format!(
        ".once '{once}'\nSELECT 1;\nSELECT 2;\n.output '{output}'\nSELECT 3;\nSELECT 4;\n.output\nSELECT 5;\n"
    );
    assert_eq!(play(Database::Memory, &script), ("2\n5\n".into(), Flow::Continue, 0));
    assert_eq!(std::fs::read_to_string(once).unwrap(), "1\n");
    assert_eq!(std::fs::read_to_string(output).unwrap(), "3\n4\n");
}

#[test]
fn scripts_end_where_they_say() {
    assert_eq!(play(Database::Memory, ".exit 7\nSELECT 1;\n"), (String::new(), Flow::Exit(Some(7)), 0));
    assert_eq!(play(Database::Memory, "SELECT 1;\n.quit\nSELECT 2;\n"), ("1\n".into(), Flow::Exit(None), 0));
    let (text, flow, errors) = play(Database::Memory, ".bail on\nnonsense;\nSELECT 1;\n");
    assert_eq!((flow, errors), (Flow::Continue, 1), "{text}");
    assert!(!text.contains("\n1\n"), "{text}");
}

#[test]
fn a_nul_in_a_script_is_an_error_and_not_its_end() {
    for line in ["SELECT 1;\0SELECT 2;", "SELECT 1\0;", "SELECT sha3_query('SELECT 1;' || char(0));"] {
        let (text, _, errors) = play(Database::Memory, &format!("{line}\nSELECT 3;\n"));
        assert_eq!(errors, 1, "{text}");
        assert!(text.contains("a NUL outside a string") && text.ends_with("\n3\n"), "{text}");
    }
}
