"""Extras: optional parts of sarqc, each a module here with a constant ``EXTRA``.

The core never imports one. ``app.py`` and ``sarqc/__main__.py`` ask which are ``installed`` and let each add its
commands, routes and settings. An extra whose libraries are missing has no commands and no routes, its controls on pages
are hidden, and ``required`` refuses what needs it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sarqc.errors import Refused

if TYPE_CHECKING:
    import typer
    from fastapi import FastAPI
    from pydantic_settings import BaseSettings
    from starlette.types import ASGIApp

    from sarqc.events import Event
    from sarqc.jobs.supervisor import Supervisor
    from sarqc.settings import Settings
    from sarqc.web.access import Access
    from sarqc.web.api import WritePrograms
    from sarqc.web.gate import Crowd
    from sarqc.web.identity import Identity
    from sarqc.web.sign_in import SignIn


@dataclass
class Host:
    """Parts of the core, for an extra to use, and the collections to which it adds.

    The core reads these collections at each request, so additions take effect at once.
    """

    settings: Settings
    supervisor: Supervisor  # with the store and the bell
    access: Access
    identity: Identity
    sign_in: SignIn
    pages: Sequence[str]  # their paths
    # Layers around the whole app, before the gate and without a visitor, each around those before it.
    around: list[Callable[[ASGIApp], ASGIApp]] = field(default_factory=list)
    # Called by the gate with method, path and address, before the visitor is known; they raise to refuse a request.
    checks: list[Callable[[str, str, str], None]] = field(default_factory=list)
    # Visitors who have no account, and are not counted by their address.
    crowds: list[Crowd] = field(default_factory=list)
    # Writes a recipe as programs for other engines.
    programs: list[WritePrograms] = field(default_factory=list)


def absent(*_: object) -> Any:
    """Raise ``NotImplementedError``, in the place of what an extra does not do."""
    raise NotImplementedError


@dataclass(frozen=True)
class Extra:
    """An extra by its name, which is that of its module and in ``pip install sarqc[NAME]``.

    Its module is imported at each start of the command line: what is heavy is imported inside these functions.
    """

    name: str
    requires: tuple[str, ...] = ()  # modules that must be importable
    settings: type[BaseSettings] | None = None  # with the prefix SARQC_, as those of the core
    # Raises ``Refused`` for settings with which the app must not start, before it has begun anything.
    check: Callable[[Settings], None] | None = None
    commands: Callable[[typer.Typer], None] | None = None
    # Routes and middleware. It is called before the core's, so that its middleware is within the gate and its routes
    # come first.
    install: Callable[[FastAPI, Host], None] | None = None
    # Prepares the process of a server, and returns arguments for uvicorn's configuration.
    server: Callable[[Host], dict[str, Any]] | None = None
    # Reports a run to a tracker: of a project, a recipe, what says something to people, and the run's name.
    report: Callable[..., AbstractContextManager[Callable[[Event], None]]] = absent
    # Writes a recipe's program for another engine: of the engine's name, the document, and a run's study and line.
    program: Callable[..., str] = absent
    controls: tuple[str, ...] = ()  # of pages, by their data-control: hidden where it is not installed


def lazily(name: str) -> Callable[..., Any]:
    """Return the function of a name such as “package.module:function”, which is imported when it is called."""
    return lambda *given: pkgutil.resolve_name(name)(*given)


@cache
def known() -> dict[str, Extra]:
    """Return all extras by name, installed or not."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").EXTRA for name in names}


def is_installed(extra: Extra) -> bool:
    """Return whether all modules that an extra requires can be imported."""
    return all(find_spec(module) is not None for module in extra.requires)


def installed() -> list[Extra]:
    """Return the extras that can be used here, by name."""
    return [extra for extra in known().values() if is_installed(extra)]


def hiding_style() -> str:
    """Return the element of a page's head that hides the controls of extras that are not installed; empty for none."""
    names = [name for extra in known().values() if not is_installed(extra) for name in extra.controls]
    rules = (f'[data-control="{name}"] {{ display: none !important; }}' for name in names)
    return f"\n<style>{' '.join(rules)}</style>" if names else ""


def required(name: str, where: str) -> Extra:
    """Return an extra that something needs. Raise ``Refused`` where it is not installed."""
    extra = known()[name]
    if not is_installed(extra):
        raise Refused(f"this needs the extra “{name}”, which is not installed", where, f"pip install 'sarqc[{name}]'")
    return extra
