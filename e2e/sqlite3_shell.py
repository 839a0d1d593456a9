"""Runs scripts with dot commands in the original `sqlite3` shell, each session in the database that the last left."""

import os
import subprocess
import sys

import outcomes

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fulmar/tests")


def read(name):
    with open(os.path.join(TESTS, name)) as file:
        return file.read()


def golden(name):
    """A session of our shell's tests: the original shell must answer the same."""
    return read(f"golden/{name}.sql"), read(f"golden/{name}.out")


SESSIONS = {
    "schema": (
        "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT UNIQUE);\nCREATE VIEW v AS SELECT text FROM note;\n.tables\n",
        "note  v   \n",
    ),
    "import": (".mode csv\n.import --skip 1 notes.csv note\n.mode list\nSELECT count(*) FROM note;\n", "3\n"),
    "survives": (".headers on\n.mode list\nSELECT * FROM note ORDER BY text;\n", "id|text\n2|one\n3|three\n1|two\n"),
    "mode": (".mode json\nSELECT id FROM note WHERE text='two';\n", '[{"id":1}]\n'),
    "parameter": (".parameter init\n.parameter set :id 3\nSELECT text FROM note WHERE id=:id;\n", "three\n"),
    "savepoints": (
        "BEGIN; INSERT INTO note VALUES(4,'four'); SAVEPOINT s; DELETE FROM note; ROLLBACK TO s; COMMIT;\n"
        "SELECT count(*) FROM note;\n",
        "4\n",
    ),
    "dump": (
        ".dump note\n",
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
        "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT UNIQUE);\n"
        "INSERT INTO note VALUES(1,'two');\nINSERT INTO note VALUES(2,'one');\n"
        "INSERT INTO note VALUES(3,'three');\nINSERT INTO note VALUES(4,'four');\nCOMMIT;\n",
    ),
    "save": (".save copy.db\nATTACH 'copy.db' AS copy;\nSELECT count(*) FROM copy.note;\n", "4\n"),
    "functions": golden("functions"),
    "integrity": ("PRAGMA integrity_check;\n", "ok\n"),
}

with open("notes.csv", "w") as file:
    file.write("id,text\n1,two\n2,one\n3,three\n")


def play(script, *shell):
    return subprocess.run(shell, input=script, capture_output=True, text=True, timeout=60)


def check(name, run, expected):
    passed = (run.returncode, run.stdout, run.stderr) == (0, expected, "")
    if not passed:
        print(f"{name}: {run.returncode}\n{run.stdout}{run.stderr}expected:\n{expected}", file=sys.stderr)
    outcomes.record("pass" if passed else "fail", name)


original = [os.environ["FULMAR_SHELL"], "-batch"]
for name, (script, expected) in SESSIONS.items():
    check(name, play(script, *original, "shell.db"), expected)

if "FULMAR_SQL" in os.environ:
    # What our shell dumps, the original reads, and has the same: a digest of each table's rows, and the schema.
    content = """SELECT name, hex(sha3_query(format('SELECT * FROM "%w"', name))) FROM sqlite_schema WHERE type='table' ORDER BY 1;
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name;
PRAGMA integrity_check;
"""
    ours = [os.environ["FULMAR_SQL"], "sql", "-batch", "fulmar:dumped"]
    everything = read("transfer/everything.sql")
    dump = play(f"{everything};\n.dump --preserve-rowids\n", *ours).stdout
    expected = play(content, *ours).stdout
    assert "\nok\n" in expected, expected
    # As the dump says where it has virtual tables.
    check("read", play(f".output /dev/null\n.dbconfig defensive off\n.output\n{dump}{content}", *original, "read.db"), expected)
outcomes.done()
