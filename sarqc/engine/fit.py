"""The fit of a run on its host: the memory of its device, and the disk. No torch."""

from collections.abc import Iterator
from dataclasses import replace

from sarqc.engine import costs
from sarqc.errors import Fix, NoRoom, Refused
from sarqc.files.room import free_bytes
from sarqc.plain import gib
from sarqc.recipe import UNDISTILLED
from sarqc.settings import Settings


def without_predictions() -> tuple[Fix, Fix]:
    """Return the fixes where a model can't be distilled by its own predictions."""
    return Fix("Distill block by block", {"distill_by": "block"}), _without_distillation()


def _without_distillation() -> Fix:
    return Fix("Leave distillation out", {**UNDISTILLED})


def memory(work: costs.Work, settings: Settings) -> tuple[bool, int]:
    """Return True if the weights of a block are on the device only while it is used, and the bytes of the run.

    That is so if not all of them fit. Raises ``Refused`` with numbers if even that, or the operator's choice, does not.
    """
    recipe, free, on_processor = work.recipe, costs.free_bytes(settings), costs.on_processor(settings)

    def bytes_of(work: costs.Work, streamed: bool) -> int:
        return costs.memory_bytes(work, costs.sweep_bytes(settings), on_processor=on_processor, streamed=streamed)

    whole, by_block, device = bytes_of(work, False), bytes_of(work, True), f"memory of the device {settings.device}"
    streamed = settings.weights == "streamed" or (settings.weights == "auto" and free is not None and whole > free)
    needed = by_block if streamed else whole
    if streamed and recipe.distills and recipe.distill_by == "model":
        room = "read as a whole" if settings.weights != "auto" or free is None else f"and {gib(free)} are free"
        what = (
            "distillation by the predictions of the whole model needs it with its gradients in memory, "
            f"{gib(whole)}, {room}"
        )
        remedy = "Set distill_by to block, or use another host."
        raise Refused(what, device, remedy).about("distill", *without_predictions())
    if streamed and recipe.rotates:
        raise Refused(
            f"a rotation needs the whole model in memory, {gib(whole)}: block by block each weight would be "
            "rotated again with every pass",
            device,
            "Set rotate to none, or use another host.",
        ).about("rotate", Fix("Leave the rotation out", {"rotate": "none"}))
    if free is not None and needed > free:
        plain = replace(work, recipe=recipe.model_copy(update={"distill": 0}))
        if recipe.distills and bytes_of(plain, streamed) <= free:
            raise Refused(
                f"distillation of scales block by block needs {gib(needed)}, and {gib(free)} are free",
                device,
                "Set distill to 0, use fewer or shorter calibration sequences, or another host.",
            ).about("distill", _without_distillation())
        if streamed:
            raise Refused(
                f"the run needs {gib(needed)} even block by block, and {gib(free)} are free",
                device,
                "Use fewer or shorter calibration sequences, fewer test tokens, or another host.",
            )
        raise Refused(
            f"the run needs {gib(needed)}, and {gib(free)} are free",
            device,
            f"Set SARQC_WEIGHTS to auto: block by block it takes {gib(by_block)}.",
        )
    return streamed, needed


def disk_warnings(needed: int, settings: Settings) -> Iterator[str]:
    """Yield a warning where a run has no room on the disk unless its layers are there already.

    Raises ``NoRoom`` where even so. Object storage has room.
    """
    if settings.is_object_storage():
        return
    free = free_bytes(settings.resolved_state_dir())
    if needed <= free:
        return
    stored = sum(path.stat().st_size for path in settings.artefacts_dir().glob("*/*"))
    if needed > free + stored:
        raise NoRoom(
            f"the run writes about {gib(needed)}, and {gib(free)} of the disk are free",
            "disk of the state folder",
            "Make room on the disk, or give SARQC_STATE_DIR a larger one.",
        )
    size = f"the run writes about {gib(needed)} and {gib(free)} are free"
    yield f"{size}: it fits if its layers are here from before"
