"""The node of this environment, which the development requirements bring."""

import sys
from pathlib import Path

NODE = Path(sys.executable).parent / "node"
