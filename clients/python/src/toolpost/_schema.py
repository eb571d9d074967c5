"""JSON Schemas of type hints, and the conversion of JSON to these types.

Pydantic types are used if Pydantic is installed. The rest needs the standard library only.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

Convert = Callable[[Any], Any]


@dataclasses.dataclass
class Compiled:
    """The schema of a type, and the function that converts JSON to it."""

    schema: dict[str, Any]
    convert: Convert


class SchemaError(TypeError):
    """A type hint that has no JSON Schema."""


class Compiler:
    """Compiles the types of one function. `definitions` are shared by its schema."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._open: list[Any] = []

    def compile(self, hint: Any) -> Compiled:
        """Returns the schema and the conversion of a type hint."""
        if hint is Any or hint is object:
            return Compiled({}, lambda value: value)
        if isinstance(hint, typing.NewType):
            return self.compile(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":
            return self.compile(hint.__value__)
        if _is_pydantic(hint):
            return self._pydantic(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(arguments)
        if hint in _SCALARS:
            return _SCALARS[hint]
        if origin is typing.Literal:
            return Compiled({"enum": list(arguments)}, _one_of(arguments))
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        return self._container(hint, origin or hint, arguments)

    def _annotated(self, arguments: tuple[Any, ...]) -> Compiled:
        compiled = self.compile(arguments[0])
        schema = dict(compiled.schema)
        for note in arguments[1:]:
            if isinstance(note, str):
                schema["description"] = note
            elif isinstance(note, dict):
                schema.update(note)
        return Compiled(schema, compiled.convert)

    def _union(self, arguments: tuple[Any, ...]) -> Compiled:
        branches = [self.compile(argument) for argument in arguments]
        schemas = [branch.schema for branch in branches]
        if all(set(schema) == {"type"} for schema in schemas):
            schema: dict[str, Any] = {"type": [found["type"] for found in schemas]}
        else:
            schema = {"anyOf": schemas}

        def convert(value: Any) -> Any:
            for branch in branches:
                try:
                    return branch.convert(value)
                except (TypeError, ValueError, KeyError):
                    continue
            raise TypeError(f"{value!r} has none of the types of the union")

        return Compiled(schema, convert)

    def _container(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Compiled:
        if isinstance(origin, type) and issubclass(origin, enum.Enum):
            return Compiled({"enum": [member.value for member in origin]}, origin)
        if dataclasses.is_dataclass(origin) or _is_typed_dict(origin):
            return self._object(origin)
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            items = [self.compile(argument) for argument in arguments]
            schema: dict[str, Any] = {"type": "array", "prefixItems": [item.schema for item in items]}
            schema |= {"minItems": len(items), "maxItems": len(items)}
            return Compiled(schema, lambda value: tuple(item.convert(one) for item, one in zip(items, _list(value))))
        if origin in _ARRAYS:
            item = self.compile(arguments[0]) if arguments else Compiled({}, lambda value: value)
            build = _ARRAYS[origin]
            schema = {"type": "array", "items": item.schema} if item.schema else {"type": "array"}
            if build in (set, frozenset):
                schema["uniqueItems"] = True
            return Compiled(schema, lambda value: build(item.convert(one) for one in _list(value)))
        if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
            member = self.compile(arguments[1]) if arguments else Compiled({}, lambda value: value)
            schema = {"type": "object", "additionalProperties": member.schema} if member.schema else {"type": "object"}
            return Compiled(schema, lambda value: {key: member.convert(one) for key, one in _dict(value).items()})
        raise SchemaError(f"{hint!r} has no JSON Schema: use a type of JSON, a dataclass, a TypedDict or a pydantic model")

    def _object(self, kind: Any) -> Compiled:
        """Compiles a dataclass or a TypedDict."""
        if kind in self._open:
            raise SchemaError(f"{kind.__name__} contains itself: use a pydantic model")
        self._open.append(kind)
        hints = typing.get_type_hints(kind, include_extras=True)
        if dataclasses.is_dataclass(kind):
            fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
            required = [name for name, field in fields.items() if _is_required(field)]
            members = {name: self.compile(hints[name]) for name in fields}
        else:
            required = [name for name in hints if name in kind.__required_keys__]
            members = {name: self.compile(_without_required(hint)) for name, hint in hints.items()}
        self._open.pop()
        schema = {
            "type": "object",
            "properties": {name: member.schema for name, member in members.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required

        def convert(value: Any) -> Any:
            found = _dict(value)
            unknown = found.keys() - members.keys()
            if unknown or not found.keys() >= set(required):
                raise TypeError(f"{kind.__name__} has the members {', '.join(members)}, got {', '.join(found)}")
            return kind(**{name: members[name].convert(one) for name, one in found.items()})

        return Compiled(schema, convert)

    def _pydantic(self, hint: Any) -> Compiled:
        from pydantic import TypeAdapter

        adapter: Any = TypeAdapter(hint)
        schema = adapter.json_schema()
        for name, definition in schema.pop("$defs", {}).items():
            if self.definitions.setdefault(name, definition) != definition:
                raise SchemaError(f"two models are named {name}: rename one of them")
        return Compiled(schema, adapter.validate_python)


def _is_pydantic(hint: Any) -> bool:
    """Returns `True` if Pydantic has to compile a type: its own types, and constraints in `Annotated`."""
    if "pydantic" not in sys.modules:
        return False
    if typing.get_origin(hint) is typing.Annotated:
        notes = typing.get_args(hint)[1:]
        return any(type(note).__module__.split(".")[0] in ("pydantic", "annotated_types") for note in notes)
    return hasattr(hint, "__get_pydantic_core_schema__") or hasattr(hint, "__pydantic_core_schema__")


def _is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__required_keys__")


def _without_required(hint: Any) -> Any:
    """Returns the type in `Required[…]` or `NotRequired[…]`."""
    name = getattr(typing.get_origin(hint), "_name", None)
    return typing.get_args(hint)[0] if name in ("Required", "NotRequired") else hint


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _typed(*kinds: type) -> Convert:
    def convert(value: Any) -> Any:
        # A boolean is an int for Python, but not for JSON.
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            raise TypeError(f"{value!r} is not of the type {kinds[0].__name__}")
        return value

    return convert


def _parsed(parse: Callable[[str], Any]) -> Convert:
    text = _typed(str)
    return lambda value: parse(text(value))


def _integer(value: Any) -> int:
    number = _typed(int, float)(value)
    # `2.0` is an integer for JSON Schema.
    if number != int(number):
        raise TypeError(f"{value!r} is not an integer")
    return int(number)


def _one_of(values: tuple[Any, ...]) -> Convert:
    def convert(value: Any) -> Any:
        if value not in values:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, values))}")
        return value

    return convert


def _list(value: Any) -> list[Any]:
    found: list[Any] = _typed(list)(value)
    return found


def _dict(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = _typed(dict)(value)
    return found


def _instant(text: str) -> datetime.datetime:
    # Python 3.10 does not read the `Z` of RFC 3339.
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))


_SCALARS: dict[Any, Compiled] = {
    str: Compiled({"type": "string"}, _typed(str)),
    int: Compiled({"type": "integer"}, _integer),
    float: Compiled({"type": "number"}, lambda value: float(_typed(float, int)(value))),
    bool: Compiled({"type": "boolean"}, _typed(bool)),
    None: Compiled({"type": "null"}, _typed(type(None))),
    type(None): Compiled({"type": "null"}, _typed(type(None))),
    datetime.datetime: Compiled({"type": "string", "format": "date-time"}, _parsed(_instant)),
    datetime.date: Compiled({"type": "string", "format": "date"}, _parsed(datetime.date.fromisoformat)),
    uuid.UUID: Compiled({"type": "string", "format": "uuid"}, _parsed(uuid.UUID)),
    decimal.Decimal: Compiled({"type": ["string", "number"]}, lambda value: decimal.Decimal(str(value))),
    pathlib.Path: Compiled({"type": "string"}, _parsed(pathlib.Path)),
    bytes: Compiled({"type": "string", "contentEncoding": "base64"}, _parsed(base64.b64decode)),
}
_ARRAYS: dict[Any, Callable[[Any], Any]] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, collections.abc.Sequence: list,
    collections.abc.Iterable: list, collections.abc.Collection: list, collections.abc.MutableSequence: list,
    collections.abc.Set: frozenset,
}
