//! The functions and tables that SQL has in the shell: those that reach files, and where they are not to be had. What
//! the others answer is in `golden/functions.sql`.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use fulmar::shell::Database;
use rusqlite::Connection;

use crate::sessions::play;

/// Plays a script in which FOLDER stands for a directory; answers the transcript with the name put back.
fn in_folder(script: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_str().unwrap().to_owned();
    let (answer, ..) = play(Database::Memory, &script.replace("FOLDER", &folder));
    (directory, answer.replace(&folder, "FOLDER"))
}

#[test]
fn files_are_written_and_read() {
    let (directory, answer) = in_folder(
        ".mode quote
        SELECT writefile('FOLDER/text', 'two' || char(10) || 'lines'), readfile('FOLDER/text');
        SELECT writefile('FOLDER/text', x'00ff'), readfile('FOLDER/text'), hex(readfile('FOLDER/text'));
        SELECT writefile('FOLDER/empty', NULL), readfile('FOLDER/empty'), writefile('FOLDER/number', 12.5);
        SELECT writefile('FOLDER/new/folders/deep', 'x', 33152, 86400), readfile('FOLDER/new/folders/deep');
        SELECT writefile('FOLDER/folder', NULL, 16877, 1000), writefile('FOLDER/folder', NULL, 16832);
        SELECT writefile('FOLDER/link', 'text', 41471), writefile('FOLDER/link', 'number', 41471);
        SELECT readfile('FOLDER/link'), readfile('FOLDER/none'), readfile(NULL), writefile(NULL, 'x');
        SELECT writefile('FOLDER/folder', 'x'), writefile('FOLDER/text/below', 'x');",
    );
    assert_eq!(
        answer,
        "9,X'74776f0a6c696e6573'\n2,X'00ff','00FF'\n0,X'',4\n1,X'78'\nNULL,NULL\nNULL,NULL\nX'31322e35',NULL,NULL,NULL\n\
         NULL,NULL\n"
    );
    let metadata = |name: &str| directory.path().join(name).metadata().unwrap();
    assert_eq!(metadata("new/folders/deep").permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata("new/folders/deep").mtime(), 86_400);
    assert_eq!(metadata("folder").permissions().mode() & 0o777, 0o700);
    assert_eq!(metadata("folder").mtime(), 1000);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_where_a_mode_is_given() {
    let (_directory, answer) = in_folder(
        "SELECT writefile('FOLDER/file', 'x');
        SELECT writefile('FOLDER', 'x', 33188);
        SELECT writefile('FOLDER/file/link', 'x', 41471);
        SELECT writefile('FOLDER/file', NULL, 16877);
        SELECT writefile('FOLDER/file');
        SELECT readfile('FOLDER');",
    );
    for expected in [
        "failed to write file: FOLDER: Is a directory",
        "failed to create symlink: FOLDER/file/link: Not a directory",
        "failed to create directory: FOLDER/file: File exists",
        "wrong number of arguments to function writefile()",
        "cannot read file: FOLDER: Is a directory",
    ] {
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
}

#[test]
fn fsdir_lists_what_is_below_a_path() {
    let (_directory, answer) = in_folder(
        ".mode quote
        SELECT writefile('FOLDER/a/b/file', 'content', 33188, 10), writefile('FOLDER/a/other', '', 33152, 20);
        SELECT writefile('FOLDER/a/link', 'b/file', 41471);
        SELECT name, lsmode(mode), data, path, dir FROM fsdir('FOLDER/a') ORDER BY name;
        SELECT name, mtime FROM fsdir('a', 'FOLDER') WHERE data IS NOT NULL AND mtime < 30 ORDER BY name;
        SELECT name FROM fsdir WHERE path = 'FOLDER/a/link';
        SELECT name FROM (SELECT 'FOLDER/a/other' AS chosen) JOIN fsdir(chosen);
        SELECT count(*) FROM fsdir('a/b', 'FOLDER') AS d JOIN fsdir(d.name, 'FOLDER') AS e;",
    );
    assert_eq!(
        answer,
        "7,0\nNULL\n\
         'FOLDER/a','drwxr-xr-x',NULL,NULL,NULL\n\
         'FOLDER/a/b','drwxr-xr-x',NULL,NULL,NULL\n\
         'FOLDER/a/b/file','-rw-r--r--',X'636f6e74656e74',NULL,NULL\n\
         'FOLDER/a/link','lrwxrwxrwx','b/file',NULL,NULL\n\
         'FOLDER/a/other','-rw-------',X'',NULL,NULL\n\
         'a/b/file',10\n'a/other',20\n'FOLDER/a/link'\n'FOLDER/a/other'\n3\n"
    );
    let (_directory, answer) = in_folder(
        "SELECT name FROM fsdir;\nSELECT name FROM fsdir(NULL);\nSELECT name FROM fsdir('FOLDER/none');\n",
    );
    for expected in [
        "table function fsdir requires an argument",
        "table function fsdir requires a non-NULL argument",
        "cannot stat file: FOLDER/none: No such file or directory",
    ] {
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
}

#[test]
fn what_cannot_be_answered_says_why() {
    let cases = [
        ("SELECT * FROM generate_series", "first argument to \"generate_series()\" missing or unusable"),
        ("SELECT sha3('x', 100)", "SHA3 size should be one of: 224 256 384 512"),
        ("SELECT sha3_query('CREATE TABLE t(a)')", "non-query: [CREATE TABLE t(a)]"),
        (
            "SELECT sha3_query('SELECT missing')",
            "error SQL statement [SELECT missing]: no such column: missing",
        ),
        ("SELECT 'x' REGEXP '('", "regular expression \"(\": unclosed group"),
        ("SELECT regexp('(' || char(0), 'x')", "regular expression \"(\\0\": unclosed group"),
        ("SELECT decimal_pow2(20001)", "decimal_pow2() takes -20000 to 20000, not 20001"),
    ];
    for (statement, expected) in cases {
        let (answer, ..) = play(Database::Memory, &format!("{statement};\n"));
        assert!(answer.contains(expected), "{statement}: {answer}");
    }
}

/// Where SQLite's own answer of 3.49 is not right, ours is.
#[test]
fn zeros_and_nulls_of_decimals_are_numbers_and_nulls() {
    let (answer, ..) = play(
        Database::Memory,
        ".mode quote
        SELECT decimal_cmp('1.0','1'), decimal_cmp('-0','0'), decimal('-0.00'), decimal_add(NULL,1), decimal_sub(1,NULL);
        SELECT '1.0' = '1' COLLATE decimal, decimal_sub('-1','-1'), decimal_mul('-3','0'), decimal_exp('-0.0');
        SELECT count(*) FROM generate_series(1,10) WHERE value >= 2.5 AND value < 3.5 AND value <> 'x';\n",
    );
    assert_eq!(answer, "0,0,'0.00',NULL,NULL\n1,'0','0','+0.0e+00'\n1\n");
}

/// A database that somebody sent must not reach the files of who opens it.
#[test]
fn a_schema_cannot_reach_files() {
    let (directory, answer) = in_folder(
        "CREATE TABLE t(a);
        CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT writefile('FOLDER/made', 'x'); END;
        INSERT INTO t VALUES(1);
        CREATE VIEW v AS SELECT readfile('/etc/hostname') AS content;
        SELECT content FROM v;
        CREATE VIEW w AS SELECT name FROM fsdir('FOLDER');
        SELECT name FROM w;
        CREATE VIEW q AS SELECT sha3_query('SELECT 1') AS hash;
        SELECT hash FROM q;",
    );
    for expected in
        ["unsafe use of writefile()", "unsafe use of readfile()", "\"fsdir\"", "unsafe use of sha3_query()"]
    {
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
    assert!(!directory.path().join("made").exists());
}

#[test]
fn only_the_shell_has_them() {
    let connection = Connection::open_in_memory().unwrap();
    for (query, expected) in [
        ("SELECT readfile('/etc/hostname')", "no such function: readfile"),
        ("SELECT writefile('/tmp/made', '')", "no such function: writefile"),
        ("SELECT * FROM fsdir('/')", "no such table: fsdir"),
        ("SELECT sha3_query('SELECT 1')", "no such function: sha3_query"),
        ("SELECT * FROM generate_series(1,2)", "no such table: generate_series"),
        ("SELECT 'a' REGEXP 'a'", "no such function: REGEXP"),
    ] {
        let error = connection.prepare(query).unwrap_err().to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
}
