"""Runs CPython's own tests of its sqlite3 module."""

import sys
import unittest

import outcomes

suite = unittest.defaultTestLoader.loadTestsFromName("test.test_sqlite3")
if unittest.defaultTestLoader.errors:
    sys.exit("\n".join(unittest.defaultTestLoader.errors))
unittest.TextTestRunner(resultclass=outcomes.Result, verbosity=0).run(suite)
outcomes.done()
