"""The base of all responses: objects that keep the JSON as it was received."""

from __future__ import annotations

import keyword
import sys
from typing import Any, ClassVar, Literal, TypeVar

Shape = Literal["one", "list", "map"]
M = TypeVar("M", bound="Model")


class Model:
    """A JSON object with typed members. Absent members are `None`, and unknown ones are kept.

    `to_dict()` returns the JSON as it was received.
    """

    _nested: ClassVar[dict[str, tuple[str, Shape]]] = {}
    _data: dict[str, Any]

    def __init__(self, data: dict[str, Any]) -> None:
        object.__setattr__(self, "_data", data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        data = self._data
        if name not in data and name.endswith("_") and keyword.iskeyword(name[:-1]):
            name = name[:-1]
        if name not in data and not any(name in getattr(kind, "__annotations__", ()) for kind in type(self).__mro__):
            raise AttributeError(f"{type(self).__name__} has no member {name!r}")
        value = data.get(name)
        return self._convert(name, value) if name in self._nested else value

    def _convert(self, name: str, value: Any) -> Any:
        kind, shape = self._nested[name]
        model: type[Model] = getattr(sys.modules[type(self).__module__], kind)
        if shape == "list" and isinstance(value, list):
            return [model(item) for item in value]
        if shape == "map" and isinstance(value, dict):
            return {key: model(item) for key, item in value.items()}
        return model(value) if isinstance(value, dict) else value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: use `to_dict()` for a copy")

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and type(self) is type(other) and self._data == other._data

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._data.get("id")))

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={value!r}" for name, value in self._data.items())
        return f"{type(self).__name__}({members})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)

    def to_dict(self) -> dict[str, Any]:
        """Returns a copy of the JSON as it was received."""
        return dict(self._data)


class CallMethods(Model):
    """What a call can be asked in addition to its members."""

    @property
    def is_done(self) -> bool:
        """Returns `True` if the call has ended."""
        return self._data.get("status") in ("SUCCESS", "ERROR")

    @property
    def is_waiting_for_approval(self) -> bool:
        """Returns `True` if the call waits for the decision of a person."""
        return self._data.get("status") == "WAIT" and self._data.get("phase") == "approval"


class Event(Model):
    """One event of a call. `event` is its kind, and `event_id` the position to resume from."""

    event_id: str | None

    def __init__(self, data: dict[str, Any], event_id: str | None = None) -> None:
        super().__init__(data)
        object.__setattr__(self, "event_id", event_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data, self.event_id)
