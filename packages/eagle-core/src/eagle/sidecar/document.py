# SPDX-License-Identifier: Apache-2.0
"""A parsed sidecar with the names a refusal needs, and the checks of single values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eagle.dtypes import INT64_MAX
from eagle.errors import REBUILD, refusal, shown
from eagle.roles import validate_roles

__all__ = ["Document"]


@dataclass(frozen=True)
class Document:
    """One sidecar: its content, the artifact's name, and the call a refusal names."""

    door: str
    name: str
    meta: Mapping[str, Any]

    @cached_property
    def slots(self) -> dict[str, str]:
        """``{slot name: role}`` in block order, empty without an ``arg_spec``. ValueError for a malformed one."""
        spec = self.meta.get("arg_spec") if self.has_slots else ()
        validate_roles(spec, name=self.name, door=self.door)
        return {name: role for role, name in spec or ()}

    @property
    def has_slots(self) -> bool:
        return self.meta.get("arg_spec") is not None

    @property
    def is_legacy(self) -> bool:
        """A schema-1 sidecar: its producers left out and spelled differently what later ones must say."""
        return bool(self.meta.get("schema_version", 1) == 1)

    def of_role(self, *roles: str) -> list[str]:
        """The slots of these roles, in block order."""
        return [name for name, role in self.slots.items() if role in roles]

    @property
    def scalar_type(self) -> str:
        return self.meta.get("scalar_type") or "float64"

    def given(self, key: str, default: Any) -> Any:
        """The value of a key; `default` where it is absent or null."""
        value = self.meta.get(key)
        return default if value is None else value

    def peer(self, key: str) -> Mapping[str, Any]:
        """Another key's object, to compare with; empty where it is none."""
        value = self.meta.get(key)
        return value if isinstance(value, Mapping) else {}

    def bad(self, key: str, found: str, wanted: str, fix: str = REBUILD) -> ValueError:
        return ValueError(refusal(self.door, f"{self.name}, key {key!r}", found, wanted, fix))

    def refuse_unless(self, holds: object, key: str, found: object, wanted: str) -> None:
        if not holds:
            raise self.bad(key, shown(found), wanted)

    def integer(self, key: str, value: Any, least: int = 0, most: int = INT64_MAX) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.bad(key, shown(value), f"an integer of {least} to {most}")
        return value

    def flag(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.bad(key, shown(value), "true or false")
        return value

    def text(self, key: str, value: Any, among: Collection[str] = ()) -> str:
        """A text; with `among`, one of these."""
        if not isinstance(value, str) or not value or (among and value not in among):
            raise self.bad(key, shown(value), f"one of {sorted(among)}" if among else "a text")
        return value

    def items(self, key: str, value: Any) -> list[Any] | tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise self.bad(key, shown(value), "a list")
        return value

    def table(self, key: str, value: Any, wanted: Collection[str] = (),
              optional: Collection[str] = ()) -> Mapping[str, Any]:
        """An object; with `wanted`, one of exactly these keys and some of `optional`."""
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise self.bad(key, shown(value), "an object")
        if wanted and not (set(wanted) <= set(value) <= {*wanted, *optional}):
            may = f", and maybe {sorted(optional)}" if optional else ""
            raise self.bad(key, f"the keys {shown(sorted(value))}", f"{sorted(wanted)}{may}")
        return value

    def slot(self, key: str, name: Any, *roles: str) -> str:
        """The name of a slot of one of `roles`."""
        self.text(key, name)
        if self.has_slots and self.slots.get(name) not in roles:
            role = self.slots.get(name)
            raise self.bad(key, f"{shown(name)}, {'no slot' if role is None else f'a slot of role {role!r}'}",
                           f"a slot of role {' or '.join(map(repr, roles))}: {shown(self.of_role(*roles))}")
        return str(name)

    def slot_list(self, key: str, value: Any, *roles: str) -> tuple[str, ...]:
        """Different slots of `roles`."""
        names = tuple(self.slot(key, name, *roles) for name in self.items(key, value))
        self.refuse_unless(len(set(names)) == len(names), key, value, "each name once")
        return names

    def axis(self, key: str, label: Any, extent: Any) -> tuple[str, int | None]:
        """A named axis; the extent None is one that is known at run time."""
        return self.text(f"{key}.label", label), None if extent is None else \
            self.integer(f"{key}.extent", extent, least=1)
