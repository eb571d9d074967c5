"""A parser of Server-Sent Events, without input or output."""

from __future__ import annotations

import json

from .models import EVENTS, AnyEvent


class Parser:
    """Collects the lines of a stream to events. `last_id` is the position to resume from."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._name = ""
        self._data: list[str] = []

    def reset(self) -> None:
        """Forgets an incomplete event, because its connection is lost."""
        self._name, self._data = "", []

    def feed(self, line: str) -> AnyEvent | None:
        """Consumes one line and returns the event that it completes. Events of unknown kinds are skipped."""
        if not line:
            name, data = self._name, "\n".join(self._data)
            has_data = bool(self._data)
            self.reset()
            kind = EVENTS.get(name)
            return kind(json.loads(data), self.last_id) if kind and has_data else None  # type: ignore[return-value]
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self.last_id = value
        return None
