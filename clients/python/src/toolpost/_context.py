"""What a running tool can ask and report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

Report = dict[str, Any]


class Context:
    """The call that a tool runs for. A parameter with this type receives it; models do not see the parameter.

    In a test, `Context(context={"user": {…}})` works without a service, and `reports` has what the tool reported.
    """

    def __init__(
        self,
        call: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        send: Callable[[Report], None] | None = None,
    ) -> None:
        call = call or {}
        #: The id of the call.
        self.id: str = str(call.get("id") or "")
        #: The id that the model gave the call.
        self.call_id: str = str(call.get("call_id") or "")
        #: The name of the tool.
        self.name: str = str(call.get("name") or "")
        self.session: str | None = call.get("session")
        #: The agent on whose behalf the call is made: `id`, `name`, `metadata`.
        self.agent: dict[str, Any] | None = call.get("agent")
        #: The number of this attempt, from 1.
        self.attempt: int = int(call.get("attempt") or 1)
        #: The milliseconds that the attempt may take.
        self.deadline_ms: int | None = call.get("deadline_ms")
        #: The objects that the tool names in `context`.
        self.context: dict[str, Any] = dict(context if context is not None else call.get("context") or {})
        #: The reports so far, if nothing sends them.
        self.reports: list[Report] = []
        self._send = send or self.reports.append
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Returns `True` if the call is cancelled. An async tool is stopped; a sync tool has to look."""
        return self._cancelled.is_set()

    def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Reports progress. Returns immediately; a report that was not sent yet is replaced."""
        self.report(progress=_set({"current": current, "total": total, "message": message}))

    def tip(self, text: str) -> None:
        """Shows people a line about the current activity."""
        self.report(tip=text)

    def report(
        self,
        *,
        tip: str | None = None,
        progress: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        content: str | list[Any] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Sends any report. `content` is shown to subscribers and is never part of the result."""
        self._send(_set({
            "tip": tip, "progress": progress, "params": params, "metadata": metadata, "content": content,
            "details": details,
        }))

    def cancel(self) -> None:
        """Marks the call as cancelled."""
        self._cancelled.set()


def _set(values: Mapping[str, Any]) -> Report:
    return {name: value for name, value in values.items() if value is not None}
