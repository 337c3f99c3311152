"""The scripts of a page as a single module: the same exports as the modules apart, each of which runs once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import PAGES
from pages.layout import EVERYWHERE, module_of
from pages.resources import bundles
from pages.scripts import bundled, modules
from sarqc.errors import Refused

ASSETS = Path("assets").resolve()
EXPORTS = """
import { JSDOM } from "jsdom";
const { window } = new JSDOM("", { url: "http://localhost/" });
const { document, location, history, HTMLElement, Element, localStorage } = window;
const matchMedia = () => ({ matches: false, addEventListener() {} });
const listen = window.addEventListener.bind(window);
Object.assign(globalThis, { document, location, history, HTMLElement, Element, localStorage, matchMedia });
Object.assign(globalThis, { window, addEventListener: listen, MutationObserver: window.MutationObserver });
const { scripts } = await import(process.argv[1]);
const kinds = (module) => JSON.stringify(Object.keys(module).sort().map((name) => [name, typeof module[name]]));
const differ = [];
for (const [name, module] of Object.entries(scripts)) {
  const apart = await import(new URL(name.startsWith("vendor/") ? name : `js/${name}`, process.argv[2]));
  if (kinds(apart) !== kinds(module)) differ.push(name);
}
console.log(JSON.stringify([Object.keys(scripts).length, differ]));
"""


def in_node(script: str, *arguments: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["node", "--input-type=module", "--eval", script, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}, timeout=60
    ).stdout


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_bundle_exports_what_its_modules_export(page, tmp_path):
    file = tmp_path / "bundle.mjs"
    file.write_text(bundles(PAGES)[module_of(page)](ASSETS))
    count, differ = json.loads(in_node(EXPORTS, file.as_uri(), f"{ASSETS.as_uri()}/"))
    assert differ == []
    assert count == len(modules(ASSETS, tuple(f"js/{name}" for name in (*EVERYWHERE, *page.scripts))))


@pytest.fixture
def assets(tmp_path):
    def write(name, text):
        file = tmp_path / "js" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("deep/base.js", "/** Words. */\nexport const runs = [];\nruns.push(1);\nexport const twice = (n) => 2 * n;\n")
    write("door.js", 'export { twice as double } from "./deep/base.js";\nexport class Door {}\n')
    write(
        "main.js",
        'import * as Base from "./deep/base.js";\nimport {\n  Door,\n  double as doubled,\n} from "./door.js";\n'
        "const own = 3;\nexport async function answer() {\n  return [doubled(own), Base.runs, typeof Door];\n}\n"
        "export { own as three };\n",
    )
    return tmp_path


def test_names_are_bound_as_by_modules_and_each_module_runs_once(assets, tmp_path):
    file = tmp_path / "bundle.mjs"
    file.write_text(bundled(assets, ("main.js", "door.js")))
    script = (
        "const { scripts } = await import(process.argv[1]);"
        "const main = scripts['main.js'];"
        "console.log(JSON.stringify([await main.answer(), main.three, Object.keys(scripts)]));"
    )
    answer, three, names = json.loads(in_node(script, file.as_uri()))
    assert answer == [6, [1], "function"]
    assert three == 3
    assert names == ["deep/base.js", "door.js", "main.js"]
    assert "Words" not in file.read_text()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('import { answer } from "./main.js";\n', "import each other: js/main.js → js/door.js → js/main.js"),
        ("export default 1;\n", "a statement that no bundle can hold: export default 1;"),
        ("export let changed = 1;\n", "a statement that no bundle can hold: export let"),
        ('import { a } from "lit-html";\n', "a statement that no bundle can hold: import"),
        ('import { a } from "./none.js";\n', "no such script: js/none.js"),
    ],
)
def test_what_a_bundle_can_not_hold_is_refused(assets, text, complaint):
    (assets / "js/door.js").write_text(text)
    with pytest.raises(Refused, match=complaint):
        bundled(assets, ("main.js",))
