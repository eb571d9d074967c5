"""Errors of requests. A failed call is a value (`ToolCall.is_error`) and raises nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx

__all__ = [
    "APIConnectionError", "APIStatusError", "APITimeoutError", "AuthenticationError", "BadRequestError",
    "ConflictError", "InvalidRequestError", "NotFoundError", "PermissionDeniedError", "RateLimitError",
    "ServiceUnavailableError", "ToolpostError",
]


class ToolpostError(Exception):
    """The base of all errors of this package."""


class APIConnectionError(ToolpostError):
    """The service could not be reached, or the connection was lost before the response."""


class APITimeoutError(APIConnectionError):
    """The service did not respond in time."""


class APIStatusError(ToolpostError):
    """The service rejected the request (RFC 9457)."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        #: A stable code for programs.
        self.code: str = str(problem.get("code") or "")
        #: A description of the problem.
        self.detail: str = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        #: The invalid fields: `pointer` and `message`.
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        self.request_id: str | None = problem.get("request_id")
        #: Seconds to wait before the next try, if the service named them.
        self.retry_after = retry_after
        self.problem = problem
        fields = "".join(f"; {error.get('pointer')}: {error.get('message')}" for error in self.errors)
        super().__init__(f"{status} {self.code}: {self.detail}{fields}")


class BadRequestError(APIStatusError):
    """400: the body is not valid JSON."""


class AuthenticationError(APIStatusError):
    """401: the API key is missing, unknown, revoked or expired."""


class PermissionDeniedError(APIStatusError):
    """403: the API key lacks a scope, or may not act on this object."""


class NotFoundError(APIStatusError):
    """404: the object does not exist for this caller."""


class ConflictError(APIStatusError):
    """409 or 412: the object is in another state than the request expects."""


class InvalidRequestError(APIStatusError):
    """413, 415 or 422: a field is invalid. `errors` names it."""


class RateLimitError(APIStatusError):
    """429: the limit of the API key is reached."""


class ServiceUnavailableError(APIStatusError):
    """5xx: the service is overloaded, shuts down, or has a fault."""


_KINDS: dict[int, type[APIStatusError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: RateLimitError,
}


def error_of(status: int, headers: httpx.Headers, body: bytes) -> APIStatusError:
    """Returns the error of a response. A gateway's page in place of a problem document gives its status only."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = {}
    seconds = headers.get("retry-after", "")
    kind = _KINDS.get(status, ServiceUnavailableError if status >= 500 else APIStatusError)
    retry_after = float(seconds) if seconds.replace(".", "", 1).isdigit() else None
    return kind(status, problem if isinstance(problem, dict) else {}, retry_after)
