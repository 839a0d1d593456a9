"""Runs CPython's own tests of its sqlite3 module.

With FULMAR_SERVERS set, what the tests call ":memory:" is a new file each time, and so a database on servers: most of them
would otherwise never leave the process.
"""

import itertools
import os
import sqlite3
import sys
import unittest

import outcomes


def on_servers(connect):
    numbers = itertools.count()

    def connect_there(database, *args, **kwargs):
        if database == ":memory:":
            database = os.path.join(os.environ["FULMAR_E2E"], f"memory-{os.getpid()}-{next(numbers)}.db")
        return connect(database, *args, **kwargs)

    return connect_there


if "FULMAR_SERVERS" in os.environ:
    sqlite3.connect = sqlite3.dbapi2.connect = on_servers(sqlite3.connect)

suite = unittest.defaultTestLoader.loadTestsFromName("test.test_sqlite3")
if unittest.defaultTestLoader.errors:
    sys.exit("\n".join(unittest.defaultTestLoader.errors))
unittest.TextTestRunner(resultclass=outcomes.Result, verbosity=0).run(suite)
outcomes.done()
