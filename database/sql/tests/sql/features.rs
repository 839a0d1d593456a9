//! Each kind of table, index and statement.

use crate::pair::Pair;

fn check(script: &str) {
    Pair::new().script(script);
}

#[test]
fn index_kinds() {
    check(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d BLOB, e TEXT COLLATE NOCASE, f TEXT COLLATE RTRIM);
         CREATE UNIQUE INDEX tb ON t(b);
         CREATE INDEX tc ON t(c DESC, b);
         CREATE INDEX td ON t(d) WHERE d IS NOT NULL;
         CREATE INDEX te ON t(e, f DESC);
         CREATE INDEX tx ON t(length(b) + a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
           INSERT INTO t SELECT i, 'k' || i, i % 7 - 3.5, iif(i % 3, x'00' || i, NULL), iif(i % 2, 'ABC', 'abc') || (i % 5), 'x' || iif(i % 2, '  ', '') FROM n;
         SELECT a, b FROM t WHERE b > 'k5' ORDER BY b LIMIT 20;
         SELECT a, b FROM t WHERE b <= 'k5' ORDER BY b DESC LIMIT 20;
         SELECT a FROM t WHERE b BETWEEN 'k10' AND 'k11' ORDER BY b DESC;
         SELECT a, c FROM t WHERE c >= 1.5 ORDER BY c DESC, b LIMIT 30;
         SELECT a, c FROM t WHERE c < -1.5 ORDER BY c, b DESC LIMIT 30;
         SELECT count(*), max(a) FROM t WHERE d > x'0031';
         SELECT a FROM t WHERE e = 'aBc3' AND f = 'x' ORDER BY a;
         SELECT a, e FROM t WHERE e > 'abc1' ORDER BY e, f, a LIMIT 50;
         SELECT a FROM t WHERE length(b) + a = 104;
         SELECT max(b), min(b), max(c), min(c) FROM t;
         INSERT INTO t(b) VALUES ('k7');
         INSERT OR IGNORE INTO t(b) VALUES ('k7'), ('new');
         INSERT OR REPLACE INTO t(b, c) VALUES ('k8', 99);
         INSERT INTO t(b) VALUES (NULL), (NULL);
         SELECT a, rowid FROM t WHERE b IS NULL AND rowid > 100;
         SELECT a FROM t WHERE b = 'k9' AND a > 5;
         SELECT a FROM t WHERE b = 'k9' AND a > 9;
         SELECT a FROM t WHERE b = 'k9' AND a < 9;
         SELECT a FROM t WHERE (b, a) > ('k9', 9) ORDER BY b LIMIT 3;
         UPDATE t SET a = a + 1000 WHERE a % 2;
         UPDATE t SET e = upper(e), b = b || '!' WHERE a < 50;
         SELECT * FROM t ORDER BY e DESC, f, a;
         DELETE FROM t WHERE c > 0;
         SELECT count(*), sum(a) FROM t;
         REINDEX;
         DROP INDEX tb;
         DELETE FROM t",
    );
}

#[test]
fn numbers_in_indexes() {
    check(
        "CREATE TABLE n(v);
         CREATE INDEX nv ON n(v);
         INSERT INTO n VALUES (9007199254740992), (9007199254740993), (9007199254740994), (9007199254740993.0),
           (9223372036854775807), (9223372036854775807.0), (-9223372036854775808), (1e999), (-1e999), (0.0), (-0.0), (0),
           (''), ('0'), (x''), (x'30'), (NULL), ('a' || char(0) || 'b'), ('a'), (5e-324);
         SELECT v, typeof(v) FROM n ORDER BY v, typeof(v), rowid;
         SELECT v FROM n WHERE v > 9007199254740992 ORDER BY v, typeof(v), rowid;
         SELECT v FROM n WHERE v = 9007199254740993;
         SELECT v FROM n WHERE v >= 9223372036854775807 AND v < 'a' ORDER BY v, typeof(v), rowid;
         SELECT v FROM n WHERE v < 0 ORDER BY v DESC",
    );
}

#[test]
fn without_rowid() {
    check(
        "CREATE TABLE w(a TEXT COLLATE NOCASE, b INT, c, PRIMARY KEY(a, b DESC)) WITHOUT ROWID;
         CREATE UNIQUE INDEX wc ON w(c);
         INSERT INTO w VALUES ('x', 1, 10), ('X', 2, 20), ('y', 1, 30), ('Y', 3, NULL);
         INSERT INTO w VALUES ('x', 1, 11);
         INSERT INTO w VALUES ('z', 1, 10);
         INSERT INTO w VALUES ('z', 1, NULL);
         SELECT * FROM w ORDER BY a, b;
         SELECT * FROM w WHERE a = 'X' ORDER BY b DESC;
         SELECT * FROM w WHERE c = 30;
         UPDATE w SET b = b + 10, c = c + 1;
         REPLACE INTO w VALUES ('q', 5, 11);
         SELECT * FROM w;
         DELETE FROM w WHERE a = 'y';
         SELECT * FROM w ORDER BY c",
    );
}

#[test]
fn rowids_and_autoincrement() {
    check(
        "CREATE TABLE a(i INTEGER PRIMARY KEY AUTOINCREMENT, x);
         INSERT INTO a(x) VALUES (1), (2), (3);
         DELETE FROM a WHERE i = 3;
         INSERT INTO a(x) VALUES (4);
         SELECT * FROM a;
         SELECT * FROM sqlite_sequence;
         CREATE TABLE b(x);
         INSERT INTO b VALUES (1), (2), (3);
         DELETE FROM b WHERE rowid = 3;
         INSERT INTO b VALUES (4);
         INSERT INTO b(rowid, x) VALUES (-5, 0), (9223372036854775806, 1);
         INSERT INTO b VALUES (9);
         SELECT rowid, x FROM b ORDER BY rowid;
         SELECT rowid FROM b WHERE rowid > 2 ORDER BY rowid DESC;
         SELECT rowid FROM b WHERE rowid < 2.5;
         SELECT max(rowid), min(rowid), last_insert_rowid() FROM b",
    );
}

#[test]
fn triggers_views_and_foreign_keys() {
    check(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE, k REFERENCES p(k) ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE log(what, id);
         CREATE VIEW v AS SELECT c.id AS child, p.k AS parent FROM c JOIN p ON c.p = p.id;
         CREATE TRIGGER ci AFTER INSERT ON c BEGIN INSERT INTO log VALUES ('insert', new.id), ('again', new.id); END;
         CREATE TRIGGER cd BEFORE DELETE ON c BEGIN INSERT INTO log VALUES ('delete', old.id); END;
         CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO c(id, p) SELECT new.child, id FROM p WHERE k = new.parent; END;
         INSERT INTO p VALUES (1, 'one'), (2, 'two');
         INSERT INTO c VALUES (10, 1, 'one'), (11, 2, 'two'), (12, 1, NULL);
         INSERT INTO c VALUES (13, 3, NULL);
         INSERT INTO c VALUES (13, 1, 'none');
         INSERT INTO v VALUES (20, 'two');
         SELECT * FROM v ORDER BY child;
         UPDATE p SET k = 'uno' WHERE id = 1;
         SELECT * FROM c;
         DELETE FROM p WHERE id = 1;
         SELECT * FROM log;
         BEGIN;
         INSERT INTO c VALUES (30, 2, 'later');
         COMMIT;
         INSERT INTO p VALUES (7, 'later');
         COMMIT;
         SELECT * FROM c",
    );
}

#[test]
fn queries() {
    check(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, g, v, j);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
           INSERT INTO t SELECT i, i % 4, i * i % 17, json_object('n', i, 'l', json_array(i, i + 1)) FROM n;
         SELECT g, a, sum(v) OVER (PARTITION BY g ORDER BY a ROWS 3 PRECEDING), rank() OVER (ORDER BY v) FROM t ORDER BY a;
         SELECT a, j ->> '$.n', j -> '$.l' FROM t WHERE j ->> '$.l[1]' > 55;
         SELECT key, sum(value) FROM t, json_each(t.j, '$.l') GROUP BY key;
         WITH m AS MATERIALIZED (SELECT g, avg(v) AS m FROM t GROUP BY g) SELECT * FROM m WHERE m > 5;
         SELECT * FROM t AS x JOIN t AS y ON x.v = y.v AND x.a < y.a WHERE x.g = 1 ORDER BY x.a, y.a;
         SELECT g, count(*) FROM t GROUP BY g HAVING count(*) > 3 ORDER BY 2, 1;
         SELECT v FROM t WHERE a IN (3, 50, 7) UNION SELECT 4 EXCEPT SELECT 9;
         SELECT DISTINCT v FROM t ORDER BY v LIMIT 5 OFFSET 3;
         SELECT round(sqrt(2), 3), soundex('Fulmar')",
    );
}

#[test]
fn upsert_returning_and_generated_columns() {
    check(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE, c DEFAULT 7, d AS (b || '-' || c), e AS (c * 2) STORED CHECK (e < 100));
         CREATE INDEX td ON t(d);
         INSERT INTO t(b) VALUES ('x'), ('y') RETURNING a, b, c, d, e;
         INSERT INTO t(b, c) VALUES ('x', 9) ON CONFLICT(b) DO UPDATE SET c = c + excluded.c RETURNING *;
         INSERT INTO t(a, b) VALUES (1, 'z') ON CONFLICT DO NOTHING;
         INSERT INTO t(b, c) VALUES ('w', 60);
         UPDATE t SET c = c + 1 RETURNING a, d;
         SELECT * FROM t WHERE d = 'x-17';
         DELETE FROM t WHERE a = 2 RETURNING b;
         SELECT * FROM t",
    );
}

#[test]
fn transactions_and_savepoints() {
    check(
        "CREATE TABLE t(a PRIMARY KEY, b);
         BEGIN;
         INSERT INTO t VALUES (1, 1);
         SAVEPOINT s;
         INSERT INTO t VALUES (2, 2);
         CREATE TABLE u(x);
         INSERT INTO u VALUES (5);
         SELECT * FROM u;
         ROLLBACK TO s;
         SELECT * FROM u;
         INSERT INTO t VALUES (3, 3), (1, 1);
         INSERT OR FAIL INTO t VALUES (4, 4), (1, 1), (5, 5);
         SAVEPOINT s2;
         UPDATE t SET b = b * 10;
         RELEASE s;
         SELECT * FROM t;
         INSERT OR ROLLBACK INTO t VALUES (1, 0);
         SELECT * FROM t;
         COMMIT;
         SAVEPOINT whole;
         INSERT INTO t VALUES (8, 8);
         ROLLBACK TO whole;
         INSERT INTO t VALUES (9, 9);
         RELEASE whole;
         SELECT * FROM t;
         PRAGMA user_version = 5;
         BEGIN;
         PRAGMA user_version = 6;
         ROLLBACK;
         PRAGMA user_version;
         PRAGMA application_id = 77;
         PRAGMA application_id",
    );
}

#[test]
fn schema_changes() {
    check(
        "CREATE TABLE t(a, b, c);
         CREATE INDEX tb ON t(b);
         INSERT INTO t VALUES (1, 2, 3), (4, 5, 6);
         ALTER TABLE t ADD COLUMN d DEFAULT 'new';
         ALTER TABLE t RENAME COLUMN b TO bee;
         ALTER TABLE t DROP COLUMN c;
         ALTER TABLE t RENAME TO tt;
         SELECT * FROM tt;
         SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name;
         ANALYZE;
         SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2;
         VACUUM;
         CREATE TABLE copy AS SELECT * FROM tt;
         INSERT INTO copy SELECT * FROM tt;
         SELECT * FROM copy;
         DROP TABLE tt;
         SELECT * FROM tt;
         CREATE TEMP TABLE tmp(x);
         INSERT INTO tmp SELECT a FROM copy;
         SELECT * FROM tmp, copy;
         CREATE TABLE s(a INT, b TEXT) STRICT;
         INSERT INTO s VALUES ('x', 'y');
         INSERT INTO s VALUES (1, 'y');
         SELECT * FROM s",
    );
}

#[test]
fn full_text_and_r_tree() {
    check(
        "CREATE VIRTUAL TABLE f USING fts5(title, body);
         INSERT INTO f VALUES ('petrel', 'a seabird of the storm'), ('albatross', 'a large seabird'), ('sql', 'a language');
         SELECT title FROM f WHERE f MATCH 'seabird' ORDER BY rank;
         SELECT highlight(f, 1, '[', ']') FROM f WHERE f MATCH 'storm OR language' ORDER BY rowid;
         DELETE FROM f WHERE title = 'sql';
         UPDATE f SET body = 'glides' WHERE title = 'albatross';
         SELECT count(*) FROM f WHERE f MATCH 'a*';
         INSERT INTO f(f) VALUES ('integrity-check');
         INSERT INTO f(f) VALUES ('optimize');
         CREATE VIRTUAL TABLE f4 USING fts4(x);
         INSERT INTO f4 VALUES ('hello world'), ('goodbye world');
         SELECT docid, x FROM f4 WHERE x MATCH 'world' ORDER BY docid;
         CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
           INSERT INTO r SELECT i, i % 17, i % 17 + 1, i % 23, i % 23 + 2 FROM n;
         SELECT id FROM r WHERE x0 > 3 AND x1 < 6 AND y0 >= 4 AND y1 <= 8 ORDER BY id;
         DELETE FROM r WHERE id % 2;
         SELECT count(*), max(x1) FROM r;
         SELECT rtreecheck('r');
         DROP TABLE f",
    );
}

#[test]
fn text_in_utf16() {
    check(
        "PRAGMA encoding = 'UTF-16';
         CREATE TABLE t(a TEXT PRIMARY KEY, b TEXT COLLATE NOCASE UNIQUE, c TEXT COLLATE RTRIM);
         CREATE INDEX tc ON t(c);
         INSERT INTO t VALUES ('ä', 'Ab', 'x '), ('a', 'aC', 'x'), ('𝄞', 'É', 'y  '), ('z', 'é', 'y');
         INSERT INTO t VALUES ('q', 'AB', '');
         SELECT a FROM t ORDER BY a;
         SELECT b FROM t ORDER BY b;
         SELECT a FROM t WHERE c = 'x   ' ORDER BY rowid;
         PRAGMA encoding",
    );
}

#[test]
fn statements_that_read_what_they_change() {
    check(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
         CREATE INDEX tb ON t(b);
         INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
         INSERT INTO t SELECT a + 10, b FROM t;
         INSERT INTO t(b) SELECT b + 1 FROM t;
         UPDATE t SET b = b + 1 WHERE b > 1;
         UPDATE t SET a = a + 100 WHERE b IN (SELECT b FROM t WHERE a < 5);
         DELETE FROM t WHERE a IN (SELECT a FROM t WHERE b > 3);
         CREATE TRIGGER tu AFTER UPDATE ON t WHEN new.b < 20 BEGIN UPDATE t SET b = b + 1 WHERE a <> new.a; DELETE FROM t WHERE b > 18; END;
         UPDATE t SET b = b + 5;
         SELECT * FROM t ORDER BY a;
         UPDATE OR REPLACE t SET a = a / 2;
         SELECT * FROM t ORDER BY a",
    );
}

/// SQLite refuses (`SQLITE_CONSTRAINT_PINNED`) that a trigger changes the table in the middle of an UPDATE's REPLACE.
#[test]
fn triggers_that_meet_a_pinned_cursor() {
    check(
        "PRAGMA recursive_triggers = ON;
         CREATE TABLE t(a, e PRIMARY KEY);
         INSERT INTO t VALUES (16, 8), (9, 24);
         CREATE TRIGGER r AFTER DELETE ON t BEGIN INSERT INTO t(e) VALUES (OLD.e + 100), (7); END;
         UPDATE OR REPLACE t SET e = 'a';
         SELECT * FROM t;
         DELETE FROM t WHERE a = 16;
         SELECT * FROM t;
         DROP TRIGGER r;
         CREATE TRIGGER r BEFORE DELETE ON t BEGIN DELETE FROM t WHERE e = 7; END;
         UPDATE OR REPLACE t SET e = 'a';
         SELECT * FROM t;
         UPDATE OR REPLACE t SET e = 'b' WHERE a = 9;
         SELECT * FROM t",
    );
}
