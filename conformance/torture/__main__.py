"""``python -m conformance.torture --seed N --requests N --kills N --only PART``: what an app can be made to suffer.

Prints a table of figures, and ends with 1 when something broke. The same seed asks the same and chooses the same
kills; when these land is up to the host.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conformance.torture import (
    downloads,
    full_disk,
    halls,
    hostile_models,
    kills,
    kills_of_exports,
    many_runs,
    pattern_bombs,
    requests_of_a_profile,
    strangers,
    viewers,
)
from conformance.torture.figures import Figures
from sarqc.extras.host.process import raise_file_limit


def main() -> None:
    """Plays all parts, each against apps of its own, and says after each how it went."""
    parser = argparse.ArgumentParser(prog="python -m conformance.torture", description="Torture of a running app.")
    parser.add_argument("--seed", type=int, default=0, help="decides requests and times of kills")
    parser.add_argument("--requests", type=int, default=2000, help="requests in each profile")
    parser.add_argument("--kills", type=int, default=20, help="kills of worker and app during real runs")
    parser.add_argument("--export-kills", type=int, default=12, help="kills during exports of runs and of repairs")
    parser.add_argument("--full-disks", type=int, default=4, help="times that the disk is filled under a real run")
    parser.add_argument("--readers", type=int, default=60, help="downloads with odd ranges, and as many not read")
    parser.add_argument("--runs", type=int, default=50, help="runs one after the other")
    parser.add_argument("--viewers", type=int, default=300, help="listeners to a full queue of runs")
    parser.add_argument("--phones", type=int, default=200, help="phones of a lecture")
    parser.add_argument("--hostile", type=int, default=3, help="times that each hostile model is planned")
    parser.add_argument("--pairs", type=int, default=300, help="folders of models with two quirks of their files")
    parser.add_argument("--only", default="", help="the part of this name alone")
    asked = parser.parse_args()
    raise_file_limit()
    sound = True
    seed = asked.seed
    with tempfile.TemporaryDirectory(prefix="sarqc-torture-") as name:
        folder = Path(name)
        parts: dict[str, Callable[[Figures], None]] = {
            f"requests, {profile} profile": partial(
                requests_of_a_profile.play, folder, profile, number=asked.requests, seed=seed, with_pages=True
            )
            for profile in requests_of_a_profile.PROFILES
        } | {
            "pattern bombs": partial(pattern_bombs.play, folder / "patterns"),
            "hostile models": partial(hostile_models.play, folder / "hostile", times=asked.hostile),
            "strangers' files": partial(strangers.play, folder / "strangers", pairs=asked.pairs, seed=seed),
            "kills": partial(kills.play, folder / "kills", kills=asked.kills, seed=seed),
            "kills of exports and repairs": partial(
                kills_of_exports.play, folder / "exports", number=asked.export_kills, seed=seed
            ),
            "full disks": partial(full_disk.play, folder / "full-disk", times=asked.full_disks),
            "downloads": partial(downloads.play, folder / "downloads", readers=asked.readers),
            "many runs": partial(many_runs.play, folder / "many-runs", runs=asked.runs),
            "viewers": partial(viewers.listen, folder / "viewers", viewers=asked.viewers, queued=50),
            "a lecture": partial(halls.fill, folder / "halls", phones=asked.phones),
        }
        for part, play in parts.items():
            if asked.only not in ("", part):
                continue
            figures = Figures()
            play(figures)
            print(f"\n{part}\n{figures.table()}", flush=True)
            sound &= figures.is_sound
    print(f"\nseed {asked.seed}: {'nothing broke' if sound else 'something broke'}")
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
