"""Runs scripts with dot commands in the original `sqlite3` shell, each session in the database that the last left."""

import os
import subprocess
import sys

import outcomes

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fulmar/tests/golden")


def golden(name):
    """A session of our shell's tests: the original shell must answer the same."""
    with open(os.path.join(GOLDEN, f"{name}.sql")) as script, open(os.path.join(GOLDEN, f"{name}.out")) as expected:
        return script.read(), expected.read()


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
for name, (script, expected) in SESSIONS.items():
    shell = [os.environ["FULMAR_SHELL"], "-batch", "shell.db"]
    run = subprocess.run(shell, input=script, capture_output=True, text=True, timeout=60)
    passed = (run.returncode, run.stdout, run.stderr) == (0, expected, "")
    if not passed:
        print(f"{name}: {run.returncode}\n{run.stdout}{run.stderr}expected:\n{expected}", file=sys.stderr)
    outcomes.record("pass" if passed else "fail", name)
outcomes.done()
