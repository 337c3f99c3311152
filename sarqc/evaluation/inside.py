"""Behind the fence: two interpreters, the program's and that of its tests, with the standard library only.

The program's interpreter runs the model's program and then answers calls. The tests' interpreter runs our code, calls
the program and alone decides. It never runs a line of the program and takes nothing from it but plain data, so that no
exit status, trace function, patched builtin or reading of frames can pass a test. What remains: a program may find its
answers in any way that the fence leaves open, and without tests only the program's own word shows that it has reached
its last line.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any, TextIO

CHANNEL = 3  # the descriptor between the two: a JSON document a line
ENDED = 3  # exit status of the tests when the program went away
_CONTAINERS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "bytes": bytes}


class Raised(Exception):
    """Error of a call of the program, in its words."""


def encode(value: Any) -> Any:
    """Return plain data for JSON, with the kind of each container; anything else equals nothing on the other side."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    for kind in (list, tuple, set, frozenset, bytes):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return encode(value.item())
    return {"other": None}


def decode(value: Any) -> Any:
    """Return the data that ``encode`` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, items),) = value.items()
    if kind == "other":
        return object()
    if kind == "dict":
        return {decode(key): decode(item) for key, item in items}
    if kind == "complex":
        return complex(*items)
    return _CONTAINERS[kind]([decode(item) for item in items])


def send(channel: TextIO, document: Any) -> None:
    """Write a document as a line."""
    channel.write(json.dumps(document) + "\n")
    channel.flush()


def program(channel: TextIO) -> None:
    """Run ``program.py`` and answer calls of its functions until the channel closes."""
    with open("program.py", encoding="utf-8") as file:
        source = file.read()
    # Of another name, so that what stands under ``if __name__ == "__main__"`` does not run.
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program.py", "exec"), namespace)
    send(channel, "ready")
    for line in channel:
        name, arguments, named = decode(json.loads(line))
        try:
            if name not in namespace:
                raise NameError(f"name '{name}' is not defined")
            said = {"value": encode(namespace[name](*arguments, **named))}
        except BaseException as error:
            said = {"raised": [type(error).__name__, str(error)[:1000]]}
        send(channel, said)
    os._exit(0)


def tests(channel: TextIO) -> None:
    """Run the tests at standard input, {"tests", "entry"}: their ``check`` gets the program's function.

    Raises:
        Raised: If the program raised an error, or broke the protocol.
    """
    asked = json.load(sys.stdin)
    if hear(channel) != "ready":
        raise Raised("the program broke off its talk with the tests")
    if not asked["tests"]:
        return

    def call(*arguments: Any, **named: Any) -> Any:
        send(channel, encode([asked["entry"], list(arguments), named]))
        said = hear(channel)
        if not isinstance(said, dict) or said.keys() not in ({"value"}, {"raised"}):
            raise Raised("the program broke off its talk with the tests")
        if "raised" in said:
            raise Raised(": ".join(part for part in map(str, said["raised"]) if part))
        return decode(said["value"])

    namespace: dict[str, Any] = {"__name__": "tests"}
    exec(compile(asked["tests"], "tests.py", "exec"), namespace)
    namespace[asked["entry"]] = call
    namespace["check"](call)


def hear(channel: TextIO) -> Any:
    """Read a document; end this process if the other one is gone."""
    try:
        line = channel.readline()
    except OSError:
        line = ""
    if not line:
        os._exit(ENDED)
    return json.loads(line)


def main(role: str) -> None:
    """Run one of the two roles."""
    sys.set_int_max_str_digits(0)
    channel = socket.socket(fileno=CHANNEL).makefile("rw", encoding="ascii", newline="\n")
    if role == "program":
        return program(channel)
    try:
        tests(channel)
    except Raised as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)
    except BrokenPipeError:
        os._exit(ENDED)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
