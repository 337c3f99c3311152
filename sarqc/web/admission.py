"""Names that a recipe may have when it comes over the network. The command line may name any path.

Models: those of the app, folders below SARQC_MODEL_DIRS, models of the Hub. Quantized checkpoints: also exports that
one may see. Texts: named ones, .txt files of SARQC_TEXT_DIRS, uploaded texts. On a public host no path at all, of the
Hub only what the operator lists with a revision, and of the uploads only one's own.
"""

from sarqc.calibration import corpora
from sarqc.calibration.text_files import UPLOADED
from sarqc.errors import Forbidden, NotFound, in_recipe
from sarqc.files.names import path_of, shortened
from sarqc.models import catalogue
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.web.access import Access
from sarqc.web.profile import is_private
from sarqc.web.visitor import Visitor


def admit(recipe: Recipe, visitor: Visitor, access: Access, settings: Settings) -> Recipe:
    """Return the recipe, admitted for a visitor. Raise ``NotFound`` or ``Forbidden`` for names that it may not use."""
    private = is_private(settings)
    revision = _revision_of(recipe, settings, private=private)
    if recipe.quantized_checkpoint is not None:
        _check_checkpoint(recipe.quantized_checkpoint, visitor, access, settings, private=private)
    for text in (recipe.calibration, recipe.test):
        if text:
            _check_text(text, visitor, access, settings, private=private)
    return recipe if revision == recipe.revision else recipe.model_copy(update={"revision": revision})


def _revision_of(recipe: Recipe, settings: Settings, *, private: bool) -> str | None:
    """Return the model's revision to use."""
    name = recipe.model
    if name in catalogue.embedded_models(settings) or name in catalogue.declared_models(settings):
        return recipe.revision
    if private and _is_below(name, settings.model_dirs):
        return recipe.revision
    if not catalogue.is_hub_name(name) or path_of(name) is not None:
        raise NotFound(
            f"no model “{shortened(name)}”",
            "model",
            "Give a model of this host by its name, or one of the Hub like owner/name; the operator may add "
            "folders to SARQC_MODEL_DIRS.",
        )
    pinned = settings.fetched_models()
    if pinned is None:
        return recipe.revision
    if name not in pinned or recipe.revision not in (None, pinned[name]):
        listed = ", ".join(sorted(pinned)) or "none"
        raise Forbidden(
            f"“{name}” is not a model of the Hub that this host fetches, in that revision",
            "model",
            f"Of the Hub it fetches {listed}; the operator may add to SARQC_HUB_MODELS.",
        )
    return pinned[name] or recipe.revision


def _check_checkpoint(name: str, visitor: Visitor, access: Access, settings: Settings, *, private: bool) -> None:
    if catalogue.exported_folder(name, settings) is not None:
        access.run(visitor, name.partition("/")[0])  # which hides others' runs
        return
    if name in catalogue.declared_folders(settings) or (private and _is_below(name, settings.model_dirs)):
        return
    pinned = settings.fetched_models()
    if catalogue.is_hub_name(name) and path_of(name) is None and (pinned is None or name in pinned):
        return
    raise NotFound(
        f"no checkpoint “{shortened(name)}”",
        in_recipe("quantized_checkpoint"),
        "Give a quantized checkpoint of this host by its name; the operator may add folders to SARQC_MODEL_DIRS.",
    ).about("quantized_checkpoint")


def _check_text(name: str, visitor: Visitor, access: Access, settings: Settings, *, private: bool) -> None:
    file, _ = corpora.split_column(name, settings)
    if corpora.is_named(file, settings):
        return
    if UPLOADED.fullmatch(name):
        owners = access.texts.owners(name)
        if visitor.owner in owners or (owners and access.sees_everything(visitor)):
            return
    elif private and _is_below(file, settings.text_dirs):
        return
    raise NotFound(
        f"no text “{shortened(name)}”",
        "text",
        "Give a named text or one that you have uploaded; the operator may add folders to SARQC_TEXT_DIRS.",
    )


def _is_below(name: str, folders: str) -> bool:
    """Return whether a path leads, all links followed, into one of the folders of a setting."""
    path, roots = path_of(name), [path_of(part) for part in folders.split(":") if part]
    return path is not None and any(path != root and path.is_relative_to(root) for root in roots if root is not None)
