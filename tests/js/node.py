"""The node of this environment, which the development requirements bring."""

from __future__ import annotations

import sys
from pathlib import Path

NODE = Path(sys.executable).parent / "node"
