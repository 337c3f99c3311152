"""Tokens of a text, computed in a process of its own.

``python -m sarqc.models.tokenizing`` takes a tokenizer.json and its limit of CPU time. The text comes from standard
input, int32 numbers go to standard output.

A tokenizer may have regular expressions of its maker, and some take longer than anybody waits.
"""

from __future__ import annotations

import resource
import sys
from array import array

from tokenizers import Tokenizer


def whole(path: str) -> Tokenizer:
    """Return a tokenizer that cuts no text and pads none, whatever its file was saved with."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ids_of(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return tokens without their places in the text.

    This takes a sixth of the time and memory, and other threads go on meanwhile.
    """
    ids: list[int] = tokenizer.encode_batch_fast([text])[0].ids
    return ids


def main(path: str, cpu_seconds: str) -> None:
    """Write the tokens of the text at standard input to standard output, within a limit of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    text = sys.stdin.buffer.read().decode(errors="surrogatepass")
    sys.stdout.buffer.write(array("i", ids_of(text, whole(path))).tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
