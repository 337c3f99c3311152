"""The users of a host: a text file with a line for each, ``name:role:salt:hash``, the hash by scrypt."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from sarqc.errors import Refused, Unreachable
from sarqc.files.modes import open_for_owner
from sarqc.web.visitor import GUEST, Role

NAME = re.compile(r"[\w.@+-]{1,64}")
ROLES: tuple[Role, ...] = get_args(Role)
SHORTEST = 8  # characters of a password
_COST = {"n": 2**14, "r": 8, "p": 1}  # scrypt: 16 MiB and some 50 ms for each guess


@dataclass(frozen=True)
class User:
    """A line of the file."""

    name: str
    role: Role
    salt: str
    digest: str

    def knows(self, password: str) -> bool:
        """Return whether a password is this user's."""
        return hmac.compare_digest(_digest(password, self.salt), self.digest)


def role_named(text: str) -> Role:
    """Return a role by its name. Raise ``Refused`` for any other."""
    if text in ROLES:
        return text
    raise Refused(f"unknown role “{text}”", "role", f"Use one of {', '.join(ROLES)}.")


def read_users(path: Path) -> dict[str, User]:
    """Return all users by name. Raise ``Refused`` for a malformed line, ``Unreachable`` without a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Unreachable(f"the users file can't be read: {reason}", "SARQC_USERS_FILE", "Tell the operator.") from None
    users: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, role, salt, digest, *more = [*line.strip().split(":"), "", "", ""]
        if not NAME.fullmatch(name) or role not in ROLES or not salt or not digest or any(more):
            raise Refused(
                "the line is not name:role:salt:hash", f"users file, line {number}", "Write it with sarqc user."
            )
        users[name] = User(name, role_named(role), salt, digest)
    return users


def user_of(users: Mapping[str, User], name: str, password: str) -> User | None:
    """Return the user of a name and a password; an unknown name takes as long as a wrong password."""
    user = users.get(name, User(name, "viewer", "0" * 32, ""))
    return user if user.knows(password) and name in users else None


def write_user(path: Path, name: str, role: Role, password: str) -> None:
    """Add a user, or give one another role and password.

    Raises ``Refused`` for a name or a password that won't do.
    """
    if not NAME.fullmatch(name) or name.startswith(GUEST):
        raise Refused(f"“{name}” can't be a name", "user", "Use up to 64 letters, digits and . @ + -")
    if len(password) < SHORTEST:
        raise Refused(f"the password has {len(password)} characters", f"user {name}", f"Use {SHORTEST} or more.")
    users = read_users(path) if path.is_file() else {}
    salt = secrets.token_hex(16)
    users[name] = User(name, role, salt, _digest(password, salt))
    lines = "".join(f"{user.name}:{user.role}:{user.salt}:{user.digest}\n" for user in users.values())
    partial = path.with_name(f"{path.name}.partial")
    with open(partial, "w", encoding="utf-8", opener=open_for_owner) as file:
        file.write(lines)
    partial.replace(path)


def _digest(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), **_COST).hex()
