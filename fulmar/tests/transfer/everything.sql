-- Every kind of object, and values that a careless copy changes.
PRAGMA user_version = 7;
PRAGMA application_id = 99;
CREATE TABLE bird(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT COLLATE NOCASE UNIQUE,
  weight REAL CHECK(weight > 0),
  half REAL AS (weight / 2),
  doubled REAL AS (weight * 2) STORED
);
CREATE TABLE log(what TEXT);
CREATE TABLE child(bird REFERENCES bird(id), toys INTEGER);
CREATE TABLE odd(a, "select", "quote""d" DEFAULT 'x');
CREATE TABLE "a table; with ""quotes"""(b);
CREATE TABLE pair(a TEXT COLLATE RTRIM, b INTEGER, c BLOB, PRIMARY KEY(b DESC, a)) WITHOUT ROWID;
CREATE TABLE strict(i INT, r REAL, t TEXT, b BLOB, any ANY) STRICT;
CREATE TABLE hides(rowid, _rowid_, oid);
CREATE TABLE reversed(a INTEGER PRIMARY KEY DESC, b);
CREATE TABLE bare(a);
CREATE VIRTUAL TABLE page USING fts5(title, body);
CREATE VIRTUAL TABLE place USING rtree(id, west, east);
CREATE INDEX bird_weight ON bird(lower(name), weight DESC);
CREATE UNIQUE INDEX pair_c ON pair(c) WHERE b > 3;
CREATE VIEW heavy AS SELECT * FROM bird WHERE weight > 2;
INSERT INTO bird(id, name, weight) VALUES (1, 'fulmar', 0.8), (2, 'gannet', 3), (3, 'Ærøskøbing', 1e300), (7, 'gone', 1);
DELETE FROM bird WHERE id = 7;
CREATE TRIGGER added AFTER INSERT ON bird BEGIN INSERT INTO log VALUES ('added ' || new.name); END;
CREATE TRIGGER weighed INSTEAD OF INSERT ON heavy BEGIN INSERT INTO bird(name, weight) VALUES (new.name, new.weight); END;
INSERT INTO log VALUES ('before');
INSERT INTO child VALUES (1, 2), (99, 3), (NULL, 4);
INSERT INTO odd(rowid, a, "select") VALUES (-9223372036854775808, 9223372036854775807, -0.0), (5, 9e999, 'a' || char(0) || 'b'),
  (9223372036854775806, NULL, x''), (9223372036854775807, '', '12');
-- Text that is none: a lone surrogate, in either order of bytes and in UTF-8, and bytes that are nothing.
INSERT INTO odd(rowid, a) VALUES (10, CAST(x'00d84100' AS TEXT)), (11, CAST(x'd8000041' AS TEXT)),
  (12, CAST(x'eda08041' AS TEXT)), (13, CAST(x'ff00fe80' AS TEXT));
INSERT INTO odd(rowid, a) VALUES (20, zeroblob(100000)), (21, 0.1), (22, 1e-320), (23, 9007199254740993);
INSERT INTO "a table; with ""quotes""" VALUES (1);
INSERT INTO pair VALUES ('a', 1, x'01'), ('b', 1, NULL), ('', 5, x'00'), ('z', -5, 'text'), ('a', 4, 4.5);
INSERT INTO strict VALUES (1, 2, 'three', x'04', 5.0), (NULL, NULL, NULL, NULL, '6');
INSERT INTO hides VALUES (1, 2, 3), (4, 5, 6);
INSERT INTO reversed VALUES (3, 'c'), (1, 'a'), (NULL, 'none');
INSERT INTO page VALUES ('storm', 'a petrel'), ('calm', 'a gull'), ('gone', 'x');
DELETE FROM page WHERE title = 'gone';
INSERT INTO place VALUES (1, 0, 10), (2, -5.5, 5.5);
ANALYZE
