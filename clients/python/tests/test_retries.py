"""Retries of requests whose fate a gateway or a lost connection hides, which a healthy service does not produce."""

from __future__ import annotations

import httpx
import pytest

from toolpost import APIConnectionError, APITimeoutError, RateLimitError, ServiceUnavailableError, Toolpost, ToolpostError
from toolpost._transport import backoff

CALL = {"id": "1", "call_id": "1", "name": "echo", "status": "SUCCESS", "output": "ok"}


class Gateway:
    """Answers with the given faults, and then with success."""

    def __init__(self, *faults: int | type[httpx.TransportError]) -> None:
        self.faults = list(faults)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self.faults:
            return httpx.Response(200, json=CALL)
        fault = self.faults.pop(0)
        if isinstance(fault, int):
            return httpx.Response(fault, headers={"retry-after": "0"}, html="<h1>no</h1>")
        raise fault("lost")

    def client(self, retries: int = 2) -> Toolpost:
        return Toolpost("http://gateway", max_retries=retries, http_client=httpx.Client(transport=httpx.MockTransport(self)))


@pytest.mark.parametrize("fault", [429, 502, 503, 504, httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError])
def test_call_is_repeated_with_the_same_key(fault: int | type[httpx.TransportError]) -> None:
    gateway = Gateway(fault)
    assert gateway.client().call("echo").output == "ok"
    keys = {request.headers["idempotency-key"] for request in gateway.requests}
    assert len(gateway.requests) == 2 and len(keys) == 1


@pytest.mark.parametrize(("fault", "tries"), [(502, 1), (429, 2), (503, 2), (500, 1), (httpx.ConnectError, 2), (httpx.ReadError, 1)])
def test_request_without_a_key_is_repeated_only_if_it_was_not_accepted(
    fault: int | type[httpx.TransportError], tries: int
) -> None:
    gateway = Gateway(fault)
    try:
        gateway.client().request("POST", "/sessions", json={})
    except ToolpostError:
        assert tries == 1
    assert len(gateway.requests) == tries


@pytest.mark.parametrize(("fault", "kind"), [
    (429, RateLimitError), (503, ServiceUnavailableError), (httpx.ConnectError, APIConnectionError),
    (httpx.ReadTimeout, APITimeoutError),
])
def test_last_fault_is_raised(fault: int | type[httpx.TransportError], kind: type[ToolpostError]) -> None:
    with pytest.raises(kind):
        Gateway(fault).client(retries=0).call("echo")


def test_waits_grow_up_to_a_limit() -> None:
    assert backoff(0) <= 0.5 < backoff(2) <= 2.0
    assert backoff(20) <= 8.0
    assert backoff(0, retry_after=3.0) == 3.0 and backoff(0, retry_after=9999.0) == 60.0


def test_address_must_be_one() -> None:
    with pytest.raises(ToolpostError, match="http://"):
        Toolpost("127.0.0.1:8080")
