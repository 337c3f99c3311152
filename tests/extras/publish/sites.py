"""A host with two small studies, whose sites tests read and open."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.extras.publish.sites import open_studies, write_site
from sarqc.settings import Settings
from sarqc.study.document import Study, StudyWriter
from sarqc.study.kept_codes import FILE, FOLDER
from tests.study.test_ladder import FITTING, line, perplexity
from tests.synthetic_study import study_document, write_study

LAYER = "model.layers.1.down_proj"
BELOW = "some/path/lab"  # of the file server
ASSETS = Path(__file__).resolve().parents[3] / "assets"


def host_of_two(folder: Path, *, tour: bool = False) -> Settings:
    """Settings of a host whose shipped studies are “small”, with curves, layers and draws, and “steps”, a ladder.

    With ``tour``, Learn reads “small”, one of whose layers it shows.
    """
    assets = folder / "assets"
    assets.mkdir(parents=True)
    for part in ("js", "css", "vendor", "published.json", "models", "picture.png"):
        (assets / part).symlink_to(ASSETS / part)
    told = json.loads((ASSETS / "tour.json").read_text(encoding="utf-8"))
    if tour:
        told["study"] |= {"id": "small", "layer": LAYER}
        told["pretrained"] |= {"id": "small", "bits": 2}
    (assets / "tour.json").write_text(json.dumps(told), encoding="utf-8")
    write_study(assets / "studies" / "small", draws=2, gs=False, sizes=True)
    write_ladder(assets / "studies" / "steps")
    return Settings(assets_dir=assets, state_dir=folder / "state")


def keep_codes(folder: Path) -> None:
    """Codes of tiny-llama beside a study, as those of its line with a saliency penalty at its first λ."""
    study, shipped = Study.open(folder), ASSETS / "studies" / "tiny-llama" / FOLDER
    kept = json.loads((shipped / FILE).read_text(encoding="utf-8"))
    line = study.line("sarqc-gbs", 2)
    points = zip(kept["points"], line.lams, strict=False)
    kept["points"] = [point | {"gamma": line.gammas[0], "lam": lam} for point, lam in points]
    (folder / FOLDER).mkdir()
    for point in kept["points"]:
        name = point["file"]["name"]
        shutil.copyfile(shipped / name, folder / FOLDER / name)
    (folder / FOLDER / FILE).write_text(json.dumps(kept), encoding="utf-8")


def write_ladder(folder: Path) -> Study:
    """Every grid of a ladder, each at two λ."""
    writer = StudyWriter(folder)
    lines = []
    for steps in (set(part) for count in range(4) for part in combinations(FITTING, count)):
        both = np.stack([perplexity(steps), perplexity(steps | {"lambda"})], axis=1)
        lines.append(line(writer, "rqc-gbs", {name: FITTING[name] for name in steps}, (0.01, 0.1), both))
    return writer.finish(study_document(folder, "float", lines))


class Quiet(SimpleHTTPRequestHandler):
    """A file server that knows neither ranges nor compression."""

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a plain file server of a folder, without a “/” at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served_site(root: Path, host_folder: Path, *, with_codes: bool = False) -> Iterator[str]:
    """The address of a site with the studies “small” and “steps”, and Learn, which reads “small”; ``with_codes``: that
    study has the codes of a model."""
    host = host_of_two(host_folder, tour=True)
    if with_codes:
        keep_codes(host.assets_dir / "studies" / "small")
    write_site(open_studies(["small", "steps"], host), root / BELOW, host, space=True)
    with serving(root) as address:
        yield f"{address}/{BELOW}/"
