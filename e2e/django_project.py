"""A small Django project as people run one: migrated, served by gunicorn with one process and with many, worked on
through its admin by many at once, killed, and written to by threads.
"""

import http.client
import http.cookiejar
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import traceback
import urllib.error
import urllib.parse
import urllib.request

import outcomes

PROJECT = os.path.abspath("project")
PEOPLE = 8
THREADS = 16
FULMAR = "FULMAR_DATABASES" in os.environ

os.environ["DJANGO_SETTINGS_MODULE"] = "aviary.settings"
os.environ["DJANGO_SUPERUSER_PASSWORD"] = PASSWORD = "albatross"


def manage(*arguments):
    command = [sys.executable, "manage.py", *arguments]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise AssertionError(f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


class Server:
    """gunicorn, with a thread for each person in each worker. All workers are there when it is entered."""

    def __init__(self, workers=1, application="aviary.wsgi", options=()):
        self.count = workers
        self.command = [sys.executable, "-m", "gunicorn", "--bind=127.0.0.1:0", f"--workers={workers}"]
        self.command += [f"--threads={PEOPLE}", *options, application]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, cwd=PROJECT, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.address = None
        self.log = []
        self.workers = []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"Listening at: (http://127\.0\.0\.1:\d+)", line):
                self.address = found[1]
            if found := re.search(r"Booting worker with pid: (\d+)", line):
                self.workers.append(int(found[1]))
            if len(self.workers) == self.count:
                break
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()
        if len(self.workers) < self.count:
            self.end(signal.SIGKILL)
            raise AssertionError("gunicorn does not begin:\n" + "".join(self.log))
        return self

    def end(self, how):
        os.killpg(self.process.pid, how)
        self.process.wait()
        self.reader.join()

    def __exit__(self, kind, *_):
        if self.process.returncode is None:
            self.end(signal.SIGTERM)
        if kind is not None:
            print("".join(self.log), file=sys.stderr)


class Browser:
    """One person's browser, logged in."""

    def __init__(self, server, password=PASSWORD):
        self.address = server.address
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies)
        self.logged_in = self.post("/admin/login/?next=/admin/", username="admin", password=password)

    def get(self, path):
        with self.opener.open(self.address + path, timeout=120) as response:
            return response.read().decode()

    def post(self, path, **fields):
        """Fills in the form of a page; whether the answer leads to another page, as it does when all went well."""
        fields["csrfmiddlewaretoken"] = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(path))[1]
        data = urllib.parse.urlencode(fields).encode()
        with self.opener.open(self.address + path, data, timeout=120) as response:
            response.read()
            return response.url != self.address + path

    def add_sighting(self, place, birds=1, species=1):
        assert self.post("/admin/sightings/sighting/add/", species=species, place=place, region="sea", birds=birds)

    def sightings(self):
        return int(re.search(r"([\d,]+) sightings?\b", self.get("/admin/sightings/sighting/"))[1].replace(",", ""))


def at_once(count, work):
    """Runs `work(number, barrier)` in threads; the exceptions that it raised."""
    barrier = threading.Barrier(count, timeout=120)
    errors = []

    def run(number):
        from django.db import connection

        try:
            work(number, barrier)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def migrations_run():
    """With data in the tables: the second migration of the application copies and changes them."""
    manage("migrate", "sightings", "0001")
    manage("shell", "-c", "from django.db import connection as c; c.cursor().execute(\"INSERT INTO sightings_species"
           "(name) VALUES ('fulmar')\"); c.cursor().execute(\"INSERT INTO sightings_sighting(location, birds, species_id)"
           " VALUES ('Heligoland, sea', 3, 1)\")")
    manage("migrate")
    assert "[ ]" not in manage("showmigrations")
    [_, sighting] = json.loads(manage("dumpdata", "sightings"))
    assert sighting["fields"] == {"species": 1, "place": "Heligoland, sea", "region": "sea", "birds": 3}, sighting
    manage("makemigrations", "--check", "--dry-run")
    with open(os.path.join(PROJECT, "db.sqlite3"), "rb") as file:
        assert file.read(6) == (b"Fulmar" if FULMAR else b"SQLite")


def migrations_go_back_and_forth():
    manage("migrate", "sightings", "0001")
    manage("migrate", "sightings")
    assert '"place": "Heligoland, sea"' in manage("dumpdata", "sightings.sighting")


def the_admin_is_used_by_one():
    manage("createsuperuser", "--noinput", "--username=admin", "--email=admin@example.org")
    with Server() as server:
        assert not Browser(server, "petrel").logged_in
        browser = Browser(server)
        assert browser.logged_in
        assert browser.post("/admin/sightings/species/add/", name="gannet", total=0)
        assert not browser.post("/admin/sightings/species/add/", name="gannet", total=0), "a second of that name"
        browser.add_sighting("Bass Rock", 40, species=2)
        browser.add_sighting("Skellig", 7, species=2)
        assert browser.sightings() == 3
        change = {"species": 2, "place": "Bass Rock", "region": "sea", "birds": 41}
        assert browser.post("/admin/sightings/sighting/2/change/", **change)
        assert not browser.post("/admin/sightings/sighting/2/change/", **(change | {"birds": 0})), "no birds"
        assert "Skellig" in browser.get("/admin/sightings/sighting/?q=gann&region=sea")
        assert browser.post("/admin/sightings/sighting/3/delete/", post="yes")
        assert browser.sightings() == 2
        assert browser.post("/admin/sightings/species/2/delete/", post="yes")
        assert browser.sightings() == 1, "deleted with its species"
        assert "Bass Rock" in browser.get("/admin/")


def the_admin_is_used_by_many():
    """Each request is a transaction that reads before it writes."""
    with Server() as server:
        before = Browser(server).sightings()

        def work(number, barrier):
            barrier.wait()
            browser = Browser(server)
            for round in range(6):
                browser.add_sighting(f"Cape {number}", round + 1)

        errors = at_once(PEOPLE, work)
        if errors:
            raise errors[0]
        assert Browser(server).sightings() == before + PEOPLE * 6


def many_workers_share_the_database():
    workers_share_the_database(Server(workers=4))


def workers_share_what_was_opened_before_they_were_forked():
    workers_share_the_database(Server(workers=4, application="aviary.preloaded", options=["--preload"]))


def workers_share_the_database(server):
    """Eight people, four workers, of which one is killed in the middle: whoever it was serving sees that it is gone."""
    lost = []
    with server:
        before = Browser(server).sightings()
        victim = server.workers[0]

        def work(number, barrier):
            browser = Browser(server)
            barrier.wait()
            for round in range(6):
                if (number, round) == (0, 3):
                    os.kill(victim, signal.SIGKILL)
                try:
                    browser.add_sighting(f"Cape {number}", round + 1)
                except (OSError, http.client.HTTPException) as error:
                    assert not isinstance(error, urllib.error.HTTPError), error
                    lost.append((number, round))

        errors = at_once(PEOPLE, work)
        if errors:
            raise errors[0]
        added = Browser(server).sightings() - before
        assert PEOPLE * 6 - len(lost) <= added <= PEOPLE * 6, (added, lost)
        assert len(lost) <= PEOPLE, lost


def what_was_answered_survives_a_kill():
    with Server() as server:
        browser = Browser(server)
        before = browser.sightings()
        for round in range(5):
            browser.add_sighting("Kill Devil Hills", round + 1)
        server.end(signal.SIGKILL)
    with Server() as server:
        assert Browser(server).sightings() == before + 5


def fixtures_go_out_and_in():
    tables = ["sightings", "auth.user", "admin.logentry"]
    # Django writes milliseconds of whatever microseconds there are, and none at all where there are none: a moment with
    # fewer than a thousand of them goes out with ".000", comes in with nothing, and goes out without.
    def dump():
        return manage("dumpdata", *tables, "--natural-foreign").replace(".000Z", "Z")

    before = dump()
    with open(os.path.join(PROJECT, "everything.json"), "w") as file:
        file.write(before)
    manage("flush", "--noinput")
    left = manage("dumpdata", *tables)
    assert json.loads(left) == [], left
    manage("loaddata", "everything.json")
    assert dump() == before


def threads_count_without_a_loss():
    """Statements outside of transactions on one row."""
    from django.db.models import F
    from sightings.models import Species

    Species.objects.update(total=0)

    def work(number, barrier):
        barrier.wait()
        for _ in range(10):
            Species.objects.filter(name="fulmar").update(total=F("total") + 1)

    assert at_once(THREADS, work) == []
    assert Species.objects.get(name="fulmar").total == THREADS * 10


def transactions_on_one_row_are_repeated_until_they_succeed():
    from django.db import OperationalError, transaction
    from sightings.models import Species

    Species.objects.update(total=0)

    def add_one():
        with transaction.atomic():
            fulmar = Species.objects.get(name="fulmar")
            fulmar.total += 1
            fulmar.save()

    def work(number, barrier):
        barrier.wait()
        for _ in range(4):
            while True:
                try:
                    add_one()
                    break
                except OperationalError:
                    pass

    assert at_once(THREADS, work) == []
    assert Species.objects.get(name="fulmar").total == THREADS * 4


def threads_read_then_write_at_once():
    """Sixteen transactions, all open, all having read, each now adding a row: SQLite lets one of them."""
    from django.db import transaction
    from sightings.models import Sighting, Species

    before = Sighting.objects.count()
    fulmar = Species.objects.get(name="fulmar")

    def work(number, barrier):
        with transaction.atomic():
            assert Sighting.objects.count() == before
            barrier.wait()
            Sighting.objects.create(species=fulmar, place=f"Rockall {number}", region="sea")

    errors = at_once(THREADS, work)
    assert Sighting.objects.count() == before + THREADS - len(errors)
    assert errors == [], errors


def the_database_is_sound():
    from django.db import connection
    from django.db.models import Count, Sum
    from sightings.models import Sighting

    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert cursor.execute("PRAGMA foreign_key_check").fetchall() == []
    found = Sighting.objects.values("region").annotate(Count("id"), Sum("birds")).get()
    assert found["id__count"] == Sighting.objects.count()
    connection.close()


def play(test, skipped=None):
    if skipped:
        print(f"{test.__name__}: skipped, {skipped}", file=sys.stderr)
        return outcomes.record("skip", test.__name__)
    try:
        test()
        outcomes.record("pass", test.__name__)
    except Exception as error:
        print(f"{test.__name__}:", file=sys.stderr)
        traceback.print_exc()
        outcomes.record("fail", test.__name__, repr(error))


shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "project"), PROJECT)
sys.path.insert(0, PROJECT)
LOCKED = None if FULMAR else "SQLite answers 'database is locked' to some requests, or to none"
play(migrations_run)
play(migrations_go_back_and_forth)
play(the_admin_is_used_by_one)
play(the_admin_is_used_by_many, LOCKED)
play(many_workers_share_the_database, LOCKED)
play(workers_share_what_was_opened_before_they_were_forked, LOCKED)
play(what_was_answered_survives_a_kill)
play(fixtures_go_out_and_in)

import django  # noqa: E402: the environment had to be made first

django.setup()
play(threads_count_without_a_loss)
play(transactions_on_one_row_are_repeated_until_they_succeed)
play(threads_read_then_write_at_once)
play(the_database_is_sound)
outcomes.done()
