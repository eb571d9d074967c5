"""What the sync and the async client share: settings, headers and the rules of retries."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ._version import __version__
from .errors import APIConnectionError, APITimeoutError, ToolpostError

DEFAULT_URL = "http://127.0.0.1:8080"
#: A call may take the service's maximum of 30 minutes. A retry joins the call that runs.
DEFAULT_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
#: The service sends a comment every 15 s, so a silent stream is a lost one.
STREAM_TIMEOUT = httpx.Timeout(45.0, connect=10.0)
LONG_POLL_MS = 30_000
#: Statuses of requests that were not accepted, or whose outcome a gateway does not know.
RETRIED = (429, 502, 503, 504)
MAX_BACKOFF_S = 8.0


def service_url(url: str | None) -> str:
    """Returns the address of the service without a slash at its end, by default that of `TOOLPOST_URL`."""
    found = (url or os.environ.get("TOOLPOST_URL") or DEFAULT_URL).rstrip("/")
    if not found.startswith(("http://", "https://")):
        raise ToolpostError(f"`url` must begin with http:// or https://, got {found!r}")
    return found


def headers_of(api_key: str | None, name: str = "toolpost-python") -> dict[str, str]:
    """Returns the headers of every request. The key is by default that of `TOOLPOST_API_KEY`."""
    key = api_key or os.environ.get("TOOLPOST_API_KEY")
    return {"user-agent": f"{name}/{__version__}"} | ({"authorization": f"Bearer {key}"} if key else {})


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members that are set."""
    return {name: value for name, value in values.items() if value is not None}


def query(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns query parameters: lists joined by commas, booleans in lower case."""
    found = without_none(values)
    return {
        name: ",".join(value) if isinstance(value, (list, tuple)) else str(value).lower() if value in (True, False) else value
        for name, value in found.items()
    }


def path(*segments: str) -> str:
    """Returns a path whose segments are encoded."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def new_key() -> str:
    """Returns a new idempotency key."""
    return str(uuid.uuid4())


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """Returns the seconds to wait after the given attempt, counted from 0."""
    if retry_after is not None:
        return min(retry_after, 60.0)
    delay = min(0.5 * 2.0**attempt, MAX_BACKOFF_S)
    return delay * random.uniform(0.75, 1.0)


def is_retried(method: str, status: int, has_key: bool) -> bool:
    """Returns `True` if a response allows another try. A gateway's 502 or 504 may hide a request that was accepted."""
    return status in (429, 503) or status in RETRIED and (has_key or method in ("GET", "PUT", "DELETE"))


def is_repeatable(method: str, error: httpx.TransportError, has_key: bool) -> bool:
    """Returns `True` if a request without a response may be sent again."""
    never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return never_sent or has_key or method in ("GET", "PUT", "DELETE")


def connection_error(error: httpx.TransportError, url: str) -> APIConnectionError:
    """Returns the error of this package for one of httpx."""
    if isinstance(error, httpx.TimeoutException):
        return APITimeoutError(f"the service at {url} did not respond in time ({type(error).__name__})")
    return APIConnectionError(f"the service at {url} could not be reached: {error}")
