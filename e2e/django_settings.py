"""Settings for Django's own tests: databases in files, outcomes reported."""

import os

from django.test.runner import DiscoverRunner

import outcomes

_folder = os.environ["FULMAR_E2E"]


def _database(name):
    path = os.path.join(_folder, name)
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "TEST": {"NAME": path + ".test"}}


DATABASES = {"default": _database("default.sqlite3"), "other": _database("other.sqlite3")}
SECRET_KEY = "tests only"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return outcomes.Result

    def run_suite(self, suite, **kwargs):
        result = super().run_suite(suite, **kwargs)
        outcomes.done()
        return result


TEST_RUNNER = "django_settings.Runner"
