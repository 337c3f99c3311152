"""The two interpreters of a program in bubblewrap, the program's and that of its tests; standard library only.

The program's interpreter runs the model's program and then answers calls. The tests' interpreter runs our code, calls
the program and alone decides. It never runs a line of the program and takes nothing from it but plain data, so that no
exit status, trace function, patched builtin or reading of frames can pass a test. What remains: a program may find its
answers in any way that its isolation leaves open, and without tests only the program's own word shows that it has
reached its last line.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, TextIO

ENDED = 3  # exit status of the tests when the program went away
_KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": bytes,
    "dict": dict,
    "complex": lambda parts: complex(*parts),
    "other": lambda _: object(),
}


class Raised(Exception):
    """Error of a call of the program, in its words."""


def encode(value: Any) -> Any:
    """Return plain data for JSON, with the kind of each container; anything else equals nothing on the other side."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, dict):
        return {"dict": [encode(item) for item in value.items()]}
    for kind in (list, tuple, set, frozenset, bytes):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in value]}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return encode(value.item())
    return {"other": []}


def decode(value: Any) -> Any:
    """Return the data that ``encode`` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, items),) = value.items()
    return _KINDS[kind]([decode(item) for item in items])


def send(channel: TextIO, document: Any) -> None:
    """Write a document as a line."""
    channel.write(json.dumps(document) + "\n")
    channel.flush()


def program(channel: TextIO, source: str) -> None:
    """Run the program and answer calls of its functions until the channel closes."""
    # Of another name, so that what stands under ``if __name__ == "__main__"`` does not run.
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program.py", "exec"), namespace)
    send(channel, "ready")
    for line in channel:
        name, arguments, named = decode(json.loads(line))
        try:
            if name not in namespace:
                raise NameError(f"name '{name}' is not defined")
            answer = {"value": encode(namespace[name](*arguments, **named))}
        except BaseException as error:
            answer = {"raised": f"{type(error).__name__}: {str(error)[:1000]}".rstrip(": ")}
        send(channel, answer)
    os._exit(0)


def tests(channel: TextIO, source: str, entry: str) -> None:
    """Run the tests: their ``check`` gets the program's function.

    Raises:
        Raised: If the program raised an error.
    """
    if hear(channel) != "ready":
        raise Raised("the program broke off its talk with the tests")
    if not source:
        return

    def call(*arguments: Any, **named: Any) -> Any:
        send(channel, encode([entry, arguments, named]))
        answer = hear(channel)
        if "raised" in answer:
            raise Raised(answer["raised"])
        return decode(answer["value"])

    namespace: dict[str, Any] = {"__name__": "tests"}
    exec(compile(source, "tests.py", "exec"), namespace)
    namespace[entry] = call
    namespace["check"](call)


def hear(channel: TextIO) -> Any:
    """Read a document; end this process if the other one is gone."""
    line = channel.readline()
    if not line:
        os._exit(ENDED)
    return json.loads(line)


def main() -> None:
    """Run the role read from standard input, which is then closed."""
    request = json.load(sys.stdin)
    os.dup2(1, 0)  # nowhere
    channel = socket.socket(fileno=os.dup(request["channel"])).makefile("rw", encoding="ascii", newline="\n")
    os.close(request["channel"])
    sys.set_int_max_str_digits(0)
    os.write(2, b"\0")  # from here on standard error is the program's
    if "program" in request:
        return program(channel, request["program"])
    try:
        tests(channel, request["tests"], request["entry"])
    except Raised as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)
    except ConnectionError:
        os._exit(ENDED)
    os._exit(0)


if __name__ == "__main__":
    main()
