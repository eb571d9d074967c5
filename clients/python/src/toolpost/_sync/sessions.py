"""Sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._transport import path, without_none
from ..models import Session, SessionDetail, SessionMessages, SessionState
from ..params import Limits

if TYPE_CHECKING:
    from .client import Toolpost


class Sessions:
    """The sessions of a client."""

    def __init__(self, client: Toolpost) -> None:
        self._client = client

    def create(
        self,
        id: str | None = None,
        *,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        groups: Mapping[str, bool] | Sequence[str] | None = None,
        limits: Limits | None = None,
        tools: Sequence[str] | None = None,
        parent: str | None = None,
        callback_url: str | None = None,
    ) -> Session:
        """Creates a session. A call with an unknown `session` creates it, too."""
        body = without_none({
            "id": id, "context": context, "groups": groups, "limits": limits, "tools": tools, "parent": parent,
            "callback_url": callback_url,
        })
        return Session((self._client.request("POST", "/sessions", json=body)).json())

    def get(self, id: str) -> SessionDetail:
        """Returns a session with its calls, results and pending calls."""
        return SessionDetail((self._client.request("GET", path("sessions", id))).json())

    def list(self, *, state: SessionState | None = None, parent: str | None = None) -> Iterator[Session]:
        """Yields the sessions that match."""
        cursor: str | None = None
        while True:
            params = {"state": state, "parent": parent, "cursor": cursor}
            page = (self._client.request("GET", "/sessions", params=params)).json()
            for session in page["sessions"]:
                yield Session(session)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def messages(
        self, id: str, format: Literal["openai", "openai-responses", "anthropic", "gemini"]
    ) -> SessionMessages:
        """Returns the calls and results as messages for a vendor's request."""
        response = self._client.request("GET", path("sessions", id, "messages"), params={"format": format})
        return SessionMessages(response.json())

    def prompt(self, id: str) -> str:
        """Returns the tools and the pending calls as text for a model."""
        return (self._client.request("GET", path("sessions", id, "prompt"))).text

    def complete(self, id: str, *, success: bool, summary: str, error: str | None = None) -> None:
        """Ends the task of a child session, and with it the call of the parent that waits for it."""
        body = without_none({"success": success, "summary": summary, "error": error})
        self._client.request("POST", path("sessions", id, "complete"), json=body)

    def abort(self, id: str) -> Session:
        """Cancels every call of a session that has not ended."""
        return Session((self._client.request("POST", path("sessions", id, "abort"))).json())

    def delete(self, id: str) -> None:
        """Aborts a session and removes it."""
        self._client.request("DELETE", path("sessions", id))
