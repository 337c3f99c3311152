"""A site as a static Space of Hugging Face: the files that it needs beside those of any file server."""

from collections.abc import Sequence

import yaml

from sarqc.web.link_preview import SITE

LOOK = {"emoji": "📉", "colorFrom": "blue", "colorTo": "green"}  # of the card of the Space, as the app's
SHORT = "What a little regularisation buys in quantization"  # at most 60 characters
STORED_APART = ("*.gz", "*.png", "*.safetensors")  # binary files, which a Space takes through Git LFS alone


def space_files(titles: Sequence[str]) -> dict[str, str]:
    """Return the further files of a Space by their names; ``titles``: of the studies of the site.

    The licence is not among its fields: that of the studies is for their owner to say.
    """
    title = titles[0] if len(titles) == 1 else "sarqc"
    fields = {"title": title, **LOOK, "sdk": "static", "app_file": "index.html", "pinned": False}
    fields |= {"short_description": SHORT}
    front = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False)
    shown = "".join(f"- {title}\n" for title in titles)
    about = f"The Lab of {SITE}, with these studies:"
    return {
        "README.md": f"---\n{front}---\n\n# {title}\n\n{about}\n\n{shown}",
        ".gitattributes": "".join(f"{name} filter=lfs diff=lfs merge=lfs -text\n" for name in STORED_APART),
    }
