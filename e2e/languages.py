"""Programs in other languages, by the drivers of docs/languages.md, and that of the README: what one process commits, the next one finds."""

import os
import sqlite3
import subprocess
import sys

import outcomes

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "languages")
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

if FULMAR:
    with open(os.path.join(PROGRAMS, "../../README.md")) as file:
        _, shown = file.read().split("$ cat app.py\n")
    program, session = shown.split("$", 1)
    with open("app.py", "w") as file:
        file.write(program)
    session = [line.split("\n", 1) for line in session.split("```")[0].strip().split("\n$ ")]
    told = []
    for command, _ in session:
        run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
        told.append(run.stdout.strip() + run.stderr)
    passed = len(told) == 3 and told == [printed for _, printed in session]
    if not passed:
        print(f"README: {told} and not {session}", file=sys.stderr)
    outcomes.record("pass" if passed else "fail", "README")
outcomes.done()
