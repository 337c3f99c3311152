"""Share links of a host that was there before links had an end."""

import hashlib
import sqlite3
import time

from sarqc.jobs.links import DAY, DAYS, Link, Links
from sarqc.jobs.schema import MIGRATIONS, migrate
from sarqc.jobs.sessions import Sessions
from sarqc.jobs.store import Store

BEFORE_ENDS = next(number for number, step in enumerate(MIGRATIONS) if "ADD COLUMN ends" in step)


def test_former_links_get_an_end(settings):
    settings.database().parent.mkdir(parents=True)
    old = sqlite3.connect(settings.database(), isolation_level=None)
    migrate(old, MIGRATIONS[:BEFORE_ENDS])
    digest, ages_ago = hashlib.sha256(b"a secret").hexdigest(), time.time() - 400 * DAY
    old.execute("INSERT INTO links VALUES (?, 'run', 'run-1', 'ann', ?)", (digest, ages_ago))
    old.close()
    began = time.time()
    store = Store(settings.database())
    links = Links(store)
    assert links.opened("a secret") == Link("run", "run-1")
    with store.snapshot() as connection:
        (ends,) = connection.execute("SELECT ends FROM links").fetchone()
    assert began - 1 <= ends - DAYS * DAY <= time.time() + 1
    assert Sessions(store).number("ann") == 0
    links.revoke("run-1")
    assert links.behind(["a secret"]) == []
    store.close()
