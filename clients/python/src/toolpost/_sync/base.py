"""Requests with retries, and event streams that resume."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from .._sse import Parser
from .._transport import (
    DEFAULT_TIMEOUT, STREAM_TIMEOUT, backoff, connection_error, headers_of, is_repeatable, is_retried, query,
    service_url,
)
from ..errors import APIConnectionError, APIStatusError, RateLimitError, ServiceUnavailableError, error_of
from ..models import AnyEvent

C = TypeVar("C", bound="Base")
#: Failed connections in a row after which an event stream is given up, about a minute.
MAX_RECONNECTS = 10


class Base:
    """The connection to a service."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | httpx.Timeout = DEFAULT_TIMEOUT,
        max_retries: int = 4,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.Client | None = None,
    ) -> None:
        self.url = service_url(url)
        self.max_retries = max_retries
        self._timeout = timeout
        self._headers = {**headers_of(api_key), **(headers or {})}
        self._owns_http = http_client is None
        self._http = http_client or httpx.Client(timeout=timeout, limits=httpx.Limits(max_connections=None))

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | httpx.Timeout | None = None,
    ) -> httpx.Response:
        """Sends any request of the API and returns its response; raises `APIStatusError` if it is rejected.

        Requests that cannot have been accepted twice are retried.
        """
        headers = {**self._headers, **(headers or {})}
        headers |= {"idempotency-key": idempotency_key} if idempotency_key else {}
        headers |= {"content-type": "application/json"} if content else {}
        for attempt in range(self.max_retries + 1):
            is_last = attempt == self.max_retries
            try:
                response = self._http.request(
                    method, self.url + path, params=query(params or {}), json=json, content=content, headers=headers,
                    timeout=timeout or self._timeout,
                )
            except httpx.TransportError as error:
                if is_last or not is_repeatable(method, error, idempotency_key is not None):
                    raise connection_error(error, self.url) from error
                time.sleep(backoff(attempt))
                continue
            if response.status_code < 400:
                return response
            problem = error_of(response.status_code, response.headers, response.content)
            if is_last or not is_retried(method, response.status_code, idempotency_key is not None):
                raise problem
            time.sleep(backoff(attempt, problem.retry_after))
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _open(self, method: str, path: str, **options: Any) -> Iterator[httpx.Response]:
        """Opens an event stream."""
        headers = {**self._headers, "accept": "text/event-stream", **options.pop("headers", {})}
        with self._http.stream(
            method, self.url + path, headers=headers, timeout=STREAM_TIMEOUT, **options
        ) as response:
            if response.status_code >= 400:
                raise error_of(response.status_code, response.headers, response.read())
            yield response

    def _events(self, path: str, params: Mapping[str, Any], after: str | None) -> Iterator[AnyEvent]:
        """Yields the events of a stream until the service ends it. Resumes after a lost connection."""
        parser, failures = Parser(after), 0
        while True:
            parser.reset()
            headers = {"last-event-id": parser.last_id} if parser.last_id else {}
            try:
                with self._open("GET", path, params=query(params), headers=headers) as response:
                    for line in response.iter_lines():
                        event = parser.feed(line)
                        if event is not None:
                            failures = 0
                            yield event
                return
            except httpx.TransportError as error:
                if failures >= MAX_RECONNECTS:
                    raise connection_error(error, self.url) from error
            except (RateLimitError, ServiceUnavailableError):
                if failures >= MAX_RECONNECTS:
                    raise
            time.sleep(backoff(failures))
            failures += 1

    def _stream(self, path: str, key: str | None = None, **options: Any) -> Iterator[AnyEvent]:
        """Yields the events of one POST, which ends with `batch`. Retries until the service accepts it."""
        parser, attempt = Parser(), 0
        headers = {**options.pop("headers", {}), **({"idempotency-key": key} if key else {})}
        while True:
            try:
                with self._open("POST", path, headers=headers, **options) as response:
                    for line in response.iter_lines():
                        event = parser.feed(line)
                        if event is not None:
                            yield event
                            if event.event == "batch":
                                return
                raise APIConnectionError("the service ended the stream before its last event")
            except httpx.TransportError as error:
                if attempt >= self.max_retries or parser.last_id or not is_repeatable("POST", error, key is not None):
                    raise connection_error(error, self.url) from error
            except APIStatusError as error:
                if attempt >= self.max_retries or not is_retried("POST", error.status, key is not None):
                    raise
            time.sleep(backoff(attempt))
            attempt += 1
