"""A public data set, imported and asked twenty questions: the shells must print what Debian's `sqlite3` prints."""

import os
import shutil
import subprocess
import sys
import zipfile

import outcomes

DATA = os.environ["FULMAR_DATASET"]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "flights.sql")) as file:
    SCRIPT = file.read()


def answers(name, *command, environment=os.environ):
    """What the shell prints for each part of the script."""
    run = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, env=environment, timeout=300)
    if run.returncode != 0 or run.stderr:
        print(f"{name}: {run.returncode}\n{run.stderr}", file=sys.stderr)
    parts = {}
    for part in run.stdout.split("== ")[1:]:
        question, _, answer = part.partition("\n")
        parts[question] = answer
    return parts


for file in os.listdir(DATA):
    if file.endswith(".zip"):
        zipfile.ZipFile(os.path.join(DATA, file)).extractall()
    elif file.endswith(".csv"):
        shutil.copy(os.path.join(DATA, file), ".")

interference = ["LD_LIBRARY_PATH", "FULMAR_DATABASES"]
untouched = {name: value for name, value in os.environ.items() if name not in interference}
expected = answers("stock", "/usr/bin/sqlite3", "-batch", "stock.db", environment=untouched)
found = {"sqlite3": answers("sqlite3", os.environ["FULMAR_SHELL"], "-batch", "ours.db")}
if "FULMAR_DATABASES" in os.environ:
    found["fulmar"] = answers("fulmar", os.environ["FULMAR_SQL"], "sql", "-batch", "fulmar:ours")

assert len(expected) >= 20, expected.keys()
for shell, parts in found.items():
    for question, answer in expected.items():
        same = parts.get(question) == answer
        if not same:
            print(f"{shell}, {question}:\n{parts.get(question)}expected:\n{answer}"[:4000], file=sys.stderr)
        outcomes.record("pass" if same else "fail", f"{shell}.{question}")
outcomes.done()
