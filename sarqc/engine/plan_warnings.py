"""Warnings of a plan, shown before its run begins. No torch."""

from collections import Counter
from collections.abc import Iterator
from math import prod

from sarqc.calibration.corpora import NOTABLE_OVERLAP, Sequences, Text, overlap_shares
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.models.promised import unread_notice
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.models.tokenizing import NOTHING, Beginning, facts_of
from sarqc.plain import percent
from sarqc.recipe import TUNED_LAMS, Recipe

_TOKENS_OF_A_CHANNEL = 2  # with fewer of them undamped codes lose measurably: see “Column solver” in docs/algorithms.md


def warnings_of_texts(
    recipe: Recipe,
    checkpoint: Checkpoint,
    calibration: Text,
    sequences: Sequences,
    whole: Text | None,
    test: Text | None,
) -> Iterator[str]:
    """Yield warnings about the texts of a run; ``test`` is the measured part of the ``whole`` text."""
    named = {"calibration": calibration.written_by, "test": "" if test is None else test.written_by}
    for writer in sorted({*named.values()} - {""}):
        texts = [name for name, by in named.items() if by == writer]
        subject = f"{' and '.join(texts)} {'text was' if len(texts) == 1 else 'texts were'}"
        yield (
            f"the {subject} written by {writer}, another model: what is found there need not hold on the text that "
            f"{checkpoint.name} is used on"
        )
    if test is not None and test.part:
        yield (
            "calibration and test are the same text: sequences are drawn from its first half, and perplexity is "
            "measured on its second half"
        )
    elif test is not None and max(shares := overlap_shares(sequences.calibration, test)) >= NOTABLE_OVERLAP:
        yield (
            f"{percent(shares[0])} of the calibration sequences are in the test text too, and {percent(shares[1])} of "
            "that in them: perplexity is better there than on text that calibration has not seen"
        )
    limit = recipe.tokens_of_test()
    if whole is not None and recipe.test_tokens is None and limit is not None and len(whole.ids) > limit:
        yield (
            f"{'steps' if recipe.kind == 'ladder' else 'λ'} are compared on the first {limit:,} of the "
            f"{len(whole.ids):,} tokens of the test text, which leaves time for more draws; “test tokens” sets another "
            "number"
        )
    if bos := untried_beginning(recipe.begin, calibration, checkpoint):
        yield (
            f"the tokenizer puts nothing before a text, and the chat template names {bos.text}: the float model is "
            "measured both ways first, with that token before each window and without"
        )


def untried_beginning(begin: str, text: Text, checkpoint: Checkpoint) -> Beginning:
    """Return the token that chats with a model begin with, if its tokenizer is followed and puts none before texts."""
    if begin != "auto" or text.begin:
        return NOTHING
    facts = facts_of(checkpoint.folder, checkpoint.name)
    return facts.bos if facts.chats_begin else NOTHING


def warnings_of(
    recipe: Recipe, checkpoint: Checkpoint, per_channel: tuple[str, ...], *, streamed: bool
) -> Iterator[str]:
    """Yield warnings about a run on this model, whatever its texts are."""
    yield from _origin_warnings(recipe, checkpoint)
    yield from filter(None, (checkpoint.notice, unread_notice(checkpoint.unread)))
    yield from _decoder_warnings(checkpoint)
    yield from recipe.ignored()
    if isinstance(checkpoint, RotatedCheckpoint):
        yield (checkpoint.words)
    if recipe.to_method().unit == "group" and (left := without_source(checkpoint)):
        modules = ", ".join(dict.fromkeys(layer.module for layer in left))
        yield (
            f"no operation before {len(left)} of the {len(checkpoint.layers)} layers can take up channel scales: "
            f"these are rounded without any ({modules})"
        )
    largest, tokens = TUNED_LAMS[-1], recipe.samples * recipe.length
    width = max(layer.shape[1] for layer in checkpoint.layers)
    enough = _TOKENS_OF_A_CHANNEL * width
    if recipe.kind == "run" and recipe.to_method().damps and recipe.lam == 0 and tokens < enough:
        yield (
            f"λ = 0 damps nothing, and {tokens:,} calibration tokens are few for {width:,} input "
            "channels: codes fit these tokens and lose on other text. Use λ = 0.01 or larger, or at least "
            f"{enough:,} tokens"
        )
    if recipe.to_method().lam is not None and isinstance(recipe.lam, float) and recipe.lam > largest:
        yield (
            f"λ = {recipe.lam:g} is very large: 0.05 to 0.5 is usual, and tuning compares up to {largest:g}. "
            "Weights hardly follow the calibration text there"
        )
    if "expert_damping" in recipe.to_method().fitting() and all(layer.expert is None for layer in checkpoint.layers):
        yield f"expert_damping = {recipe.expert_damping} has no effect on {checkpoint.name}, which has no experts"
    if per_channel:
        yield f"{len(per_channel)} layers are quantized per channel: the group size does not divide them"
    if recipe.inputs_from == "float":
        yield "blocks take the float model's inputs: this run explores, and a final one will differ slightly"
    if streamed:
        again = ", and for accuracy again for every batch of items, which is slow" if recipe.tasks else ""
        yield f"the weights do not fit in memory as a whole: they are read block by block{again}"


def without_source(checkpoint: Checkpoint) -> list[LayerInfo]:
    """Return the layers before which no operation can take up a channel scale."""
    groups = {
        block: {path: group for group in checkpoint.groups(block) for path in group.linears}
        for block in range(checkpoint.n_blocks)
    }
    blocks = checkpoint.family.blocks
    return [layer for layer in checkpoint.layers if groups[layer.block][layer.path_in_block(blocks)].source is None]


def _decoder_warnings(checkpoint: Checkpoint) -> Iterator[str]:
    decoder = checkpoint.decoder
    if decoder is None:
        return
    blocks = "its" if len(decoder.kinds) < 2 else f"{len(decoder.kinds)} kinds of"
    words = f"{decoder.title} has no written family: the linears of {blocks} blocks were derived from config.json"
    floats = Counter({f"{module.path} ({module.reason})": module.parameters for module in decoder.floats})
    for layer in checkpoint.small_float_linears():
        path = f"{decoder.blocks}.*.{layer.path_in_block(decoder.blocks)}"
        floats[f"{path} (few rows or columns)"] += prod(layer.shape)
    if floats:
        all_parameters = sum(checkpoint.parameters_of(block) for block in range(checkpoint.n_blocks))
        share, named = floats.total() / all_parameters, ", ".join(floats)
        words = f"{words}; {percent(share)} of their parameters stay float: {named}"
    yield words


def _origin_warnings(recipe: Recipe, checkpoint: Checkpoint) -> Iterator[str]:
    if checkpoint.origin is None or not checkpoint.origin.words:
        return
    yield checkpoint.origin.words
    if checkpoint.origin.resembles(recipe.bits, recipe.group_size):
        yield (
            f"{recipe.bits} bits in groups of {recipe.group_size} are the grid that these weights come from: the "
            "result looks better than it would from the original weights"
        )
