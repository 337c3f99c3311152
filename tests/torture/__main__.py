"""``python -m tests.torture --seed N --requests N --kills N``: what an app can be made to suffer.

Prints a table of figures, and ends with 1 when something broke. The same seed asks the same and chooses the same
kills; when these land is up to the host.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from sarqc.web.process import raise_file_limit
from tests.torture import (
    full_disk,
    halls,
    kills,
    kills_of_exports,
    many_runs,
    pattern_bombs,
    requests_of_a_profile,
    viewers,
)
from tests.torture.figures import Figures


def main() -> None:
    """Plays all parts, each against apps of its own, and says after each how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Torture of a running app.")
    parser.add_argument("--seed", type=int, default=0, help="decides requests and times of kills")
    parser.add_argument("--requests", type=int, default=2000, help="requests in each profile")
    parser.add_argument("--kills", type=int, default=20, help="kills of worker and app during real runs")
    parser.add_argument("--export-kills", type=int, default=12, help="kills during exports of runs and of repairs")
    parser.add_argument("--full-disks", type=int, default=4, help="times that the disk is filled under a real run")
    parser.add_argument("--runs", type=int, default=50, help="runs one after the other")
    parser.add_argument("--viewers", type=int, default=300, help="listeners to a full queue of runs")
    parser.add_argument("--phones", type=int, default=200, help="phones of a lecture")
    asked = parser.parse_args()
    raise_file_limit()
    sound = True
    with tempfile.TemporaryDirectory(prefix="sarqc-torture-") as name:
        folder = Path(name)
        for profile in requests_of_a_profile.PROFILES:
            figures = Figures()
            requests_of_a_profile.play(folder, profile, figures, asked.requests, asked.seed, with_pages=True)
            sound &= _say(f"requests, {profile} profile", figures)
        figures = Figures()
        pattern_bombs.play(folder / "patterns", figures)
        sound &= _say("pattern bombs", figures)
        figures = Figures()
        kills.play(folder / "kills", figures, asked.kills, asked.seed)
        sound &= _say("kills", figures)
        figures = Figures()
        kills_of_exports.play(folder / "exports", figures, asked.export_kills, asked.seed)
        sound &= _say("kills of exports and repairs", figures)
        figures = Figures()
        full_disk.play(folder / "full-disk", figures, asked.full_disks)
        sound &= _say("full disks", figures)
        figures = Figures()
        many_runs.play(folder / "many-runs", figures, asked.runs)
        sound &= _say("many runs", figures)
        figures = Figures()
        if asked.viewers:
            viewers.listen(folder / "viewers", figures, asked.viewers, 50)
        sound &= _say("viewers", figures)
        figures = Figures()
        if asked.phones:
            halls.fill(folder / "halls", figures, asked.phones)
            sound &= _say("a lecture", figures)
    print(f"\nseed {asked.seed}: {'nothing broke' if sound else 'something broke'}")
    sys.exit(0 if sound else 1)


def _say(part: str, figures: Figures) -> bool:
    print(f"\n{part}\n{figures.table()}", flush=True)
    return figures.is_sound


if __name__ == "__main__":
    main()
