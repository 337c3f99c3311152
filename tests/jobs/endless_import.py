"""A module that never ends to be imported, as one full of libraries seems on a busy host."""

import time
from pathlib import Path

Path("importing").touch()
time.sleep(600)
