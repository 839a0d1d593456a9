"""Reports what became of each test to the file that FULMAR_OUTCOMES names: see xtask/src/outcomes.rs.

Serves as a unittest result class and as a pytest plugin. Importing it also makes sure that this process runs on
the library it is meant to test: a wrong LD_LIBRARY_PATH would load the system's, and every test would pass.
"""

import os
import re
import sqlite3  # loads the library
import unittest

_path = os.environ["FULMAR_OUTCOMES"]


def _check_library():
    expected = os.path.realpath(os.environ["FULMAR_LIBRARY"])
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "libsqlite3" in line}
    if loaded != {expected}:
        raise SystemExit(f"expected {expected} to be loaded, found {loaded or 'no SQLite'}")


_check_library()


def record(outcome, test, reason=""):
    name = re.sub(r"_3_\d+_\d+(?=::|$)", "", test)  # SQLAlchemy names SQLite's version
    fields = [outcome, *(str(field).encode("unicode_escape").decode() for field in (name, reason) if field)]
    with open(_path, "a") as file:
        file.write("\t".join(fields) + "\n")


def done():
    with open(_path, "a") as file:
        file.write("done\n")


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        record("pass", test.id())

    def addError(self, test, err):
        super().addError(test, err)
        record("fail", test.id(), err[1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        record("fail", test.id(), err[1])

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        record("fail", test.id())

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        record("pass", test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        record("skip", test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            record("fail", test.id(), err[1])


def pytest_runtest_logreport(report):
    if report.failed:
        record("fail", report.nodeid, report.longreprtext.rpartition("\n")[2])
    elif report.skipped:
        record("skip", report.nodeid)
    elif report.when == "call":
        record("pass", report.nodeid)


def pytest_sessionfinish(session, exitstatus):
    if exitstatus in (0, 1):  # all tests ran: all passed, some failed
        done()
