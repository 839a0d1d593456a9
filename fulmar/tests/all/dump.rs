//! What `.dump` writes, another shell reads, and has the same rows.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its database has failed")]

use fulmar::shell::Database;

use crate::sessions::play;

/// Every kind of object, and values that a careless copy changes.
const EVERYTHING: &str = include_str!("../transfer/everything.sql");

/// Texts that a literal could spoil, each alone and beside others.
const TEXTS: &str = r"
    CREATE TABLE piece(x);
    INSERT INTO piece VALUES (''), ('a'), (''''), ('\0'), ('\n'), ('\r'), ('(\0)'), ('\000'), ('\012'), ('\015'),
      (char(0)), (char(10)), (char(13)), (char(13,10)), ('é'), (char(0x1f600)), (char(9)), (';'), ('--');
    CREATE TABLE text AS SELECT a.x || b.x || c.x AS x FROM piece AS a, piece AS b, piece AS c;
    INSERT INTO text SELECT CAST(CAST(x AS BLOB) || column1 AS TEXT) FROM piece, (VALUES (x'ff'), (x'c3'), (x'eda080'));
";

/// Numbers whose last digit counts.
const NUMBERS: &str = "
    CREATE TABLE number(x, r REAL, n NUMERIC, i INTEGER);
    INSERT INTO number SELECT x, x, x, x FROM (
      SELECT 1.0 / value AS x FROM generate_series(1, 500) UNION ALL
      SELECT -sqrt(value) * pow(10, value - 250) FROM generate_series(1, 500) UNION ALL
      VALUES (0.0), (-0.0), (9e999), (-9e999), (1.7976931348623157e308), (5e-324), (2.2250738585072014e-308),
        (0.1 + 0.2), (9007199254740993.0), (1e15), (123456789012345680.0), (9223372036854775807),
        (-9223372036854775808), (9.223372036854775807e18));
";

/// Names that need quotes.
const NAMES: &str = r#"
    CREATE TABLE "it's"("a ""b""" PRIMARY KEY, 'c d' DEFAULT 'x''y', [e] AS (1)) WITHOUT ROWID;
    INSERT INTO "it's" VALUES (1, x''), ('two', NULL);
    CREATE TABLE "order by"("group" INTEGER PRIMARY KEY AUTOINCREMENT, "Ä" TEXT);
    INSERT INTO "order by" VALUES (41, 'x');
    CREATE INDEX "in dex" ON "order by"("Ä");
    CREATE VIEW "v ""w""" AS SELECT "group" FROM "order by";
    CREATE TRIGGER "t 'r'" AFTER DELETE ON "order by" BEGIN INSERT INTO "it's" VALUES (old."group", '; END;'); END;
"#;

/// Shows a digest of each table's rows, numbers to the last bit, and the schema.
const CONTENT: &str = "
    SELECT name, hex(sha3_query(format('SELECT * FROM \"%w\"', name))) FROM sqlite_schema WHERE type = 'table' ORDER BY name;
    SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name;
    SELECT hex(x) FROM text ORDER BY 1;
    SELECT rowid, hex(a), hex(\"select\") FROM odd ORDER BY rowid;
    PRAGMA integrity_check;
";

#[test]
fn a_dump_is_read_back_with_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let fulmar = |name: &str| Database::named(&format!("fulmar:{}/{name}", folder.path().display())).unwrap();
    let schema = format!("{EVERYTHING};\n{TEXTS}{NUMBERS}{NAMES}");
    // The digest of a query covers the hidden rowids only where they are columns; `odd` shows some above.
    for (options, from, to) in [
        ("--preserve-rowids", Database::Memory, Database::Memory),
        ("--preserve-rowids --newlines", Database::Memory, fulmar("read")),
        ("--preserve-rowids", fulmar("written"), Database::Memory),
    ] {
        let (dump, _, errors) = play(from, &format!("{schema}.dump {options}\n"));
        assert_eq!(errors, 0, "{dump}");
        let (expected, _, errors) = play(Database::Memory, &format!("{schema}{CONTENT}"));
        assert_eq!(errors, 0, "{expected}");
        let (found, _, errors) = play(to, &format!("{dump}{CONTENT}"));
        assert_eq!(errors, 0, "{found}");
        assert!(expected.ends_with("\nok\n"), "{expected}");
        assert_eq!(found, expected);
        let (again, ..) = play(Database::Memory, &format!("{dump}.dump {options}\n"));
        assert_eq!(again, dump);
    }
}

/// AUTOINCREMENT's own table stays when the last table that needs it is dropped.
#[test]
fn a_dump_without_autoincrement_is_read_back() {
    let schema = "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT);\nDROP TABLE t;\nCREATE TABLE u(a);\n";
    let (dump, _, errors) = play(Database::Memory, &format!("{schema}.dump\n"));
    assert_eq!(errors, 0, "{dump}");
    let (read, _, errors) = play(Database::Memory, &format!("{dump}.tables\n"));
    assert_eq!((read.as_str(), errors), ("u\n", 0));
}
