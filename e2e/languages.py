"""Programs in other languages, by the drivers of docs/languages.md: what one process commits, the next one finds. And what pages show that needs the drop-in."""

import os
import sqlite3
import subprocess
import sys

import outcomes

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "languages")
ROOT = os.path.join(PROGRAMS, "../..")
FULMAR = "FULMAR_DATABASES" in os.environ

for language, interpreter in {"php": "php", "rb": "ruby", "pl": "perl", "tcl": "tclsh"}.items():
    command = [interpreter, os.path.join(PROGRAMS, f"birds.{language}")]
    # PHP makes paths of all names. A file is Fulmar's by the pattern.
    names = [f"{language}.db"] if language == "php" or not FULMAR else [f"{language}.db", f"fulmar:{language}"]
    for name in names:
        runs = [subprocess.run([*command, name], capture_output=True, text=True, timeout=120) for _ in range(2)]
        told = [(run.returncode, run.stdout, run.stderr) for run in runs]
        passed = told == [(0, f"{sqlite3.sqlite_version} {seen}\n", "") for seen in (1, 2)]
        is_fulmar = os.path.exists(name.removeprefix("fulmar:") if ":" in name else f"{name}-fulmar")
        passed &= is_fulmar == FULMAR
        if not passed:
            print(f"{name}: {told}, Fulmar's: {is_fulmar}", file=sys.stderr)
        outcomes.record("pass" if passed else "fail", name)

def blocks(page, kind):
    """The blocks of a page that are of this kind."""
    with open(os.path.join(ROOT, page)) as file:
        return [after.split("\n```")[0] for after in file.read().split(f"\n```{kind}\n")[1:]]


def follow(page, granted):
    """Types what a page says in one shell. A file that it shows is made as shown."""
    expected, script = [], [granted]
    for block in blocks(page, "console e2e"):
        command = None
        for line in block.split("\n"):
            if line.startswith("$ "):
                command = [line.removeprefix("$ ")]
                shows = command[0].removeprefix("cat ") if command[0].startswith("cat ") else None
                script.append(command)
                expected.append([])
            elif line.startswith("> ") and not expected[-1]:
                command.append(line.removeprefix("> "))
            else:
                expected[-1].append(line)
                if shows:
                    with open(shows, "a") as file:
                        print(line, file=file)
    mark = "---- command"
    lines = [line if isinstance(line, str) else f"echo {mark}\n" + "\n".join(line) for line in script]
    run = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=300)
    told = [part.strip("\n").split("\n") if part.strip() else [] for part in run.stdout.split(f"{mark}\n")[1:]]
    if told != expected:
        print(f"{page}: {told} and not {expected}\n{run.stderr}", file=sys.stderr)
    outcomes.record("pass" if expected and told == expected else "fail", page)


def retried():
    """The function of docs/sql.md, by two connections that change the same row."""
    (text,) = blocks("docs/sql.md", "python")
    page = {}
    exec(compile(text, "docs/sql.md", "exec"), page)
    one, other = (sqlite3.connect("fulmar:retried", isolation_level=None) for _ in range(2))
    one.execute("CREATE TABLE t(v)")
    one.execute("INSERT INTO t VALUES (0)")
    attempts = []

    def work(connection):
        attempts.append(connection.execute("SELECT v FROM t").fetchone())
        if len(attempts) == 1:
            other.execute("UPDATE t SET v = 10")
        connection.execute("UPDATE t SET v = v + 1")

    page["in_transaction"](one, work)
    return attempts == [(0,), (10,)] and one.execute("SELECT v FROM t").fetchone() == (11,)


if FULMAR:
    sightings = sqlite3.connect("fulmar:birds")
    sightings.executescript("CREATE TABLE sighting(species); INSERT INTO sighting VALUES (1), (2), (3)")
    sightings.close()
    library = os.path.dirname(os.environ["FULMAR_LIBRARY"])
    # It is built already.
    follow("README.md", f"cargo() {{ :; }}; mkdir -p target/release && ln -s '{library}' target/release/dropin")
    outcomes.record("pass" if sys.version_info < (3, 11) or retried() else "fail", "docs/sql.md")
outcomes.done()
