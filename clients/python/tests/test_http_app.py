"""Tools served over HTTP, called by a real service."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from toolpost import ToolFunction, Toolpost, ToolpostError, http_app

from . import tools
from .conftest import ENVIRONMENT, PROGRAM, Service, wait_until

TOOLS: list[ToolFunction[Any, Any]] = [
    tools.get_weather, tools.greet, tools.count, tools.fail, tools.nothing, tools.draw, tools.explain,
    tools.sleep_async, tools.sleep_sync,
]


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    """The address of the tools, which are registered."""
    secret = subprocess.run(
        [PROGRAM, "keys", "signing-secret", "--database-url", service.database],
        check=True, capture_output=True, text=True, env=ENVIRONMENT,
    ).stdout.split()[-1]
    app = http_app(TOOLS, signing_secret=secret)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/tools"
    with Toolpost(service.url) as client:
        for definition in app.definitions(url):
            client.register(definition)
    yield url
    server.should_exit = True
    thread.join()


@pytest.mark.usefixtures("url")
class TestCalls:
    """Calls of the tools by way of the service."""

    def test_result_has_text_and_data(self, client: Toolpost) -> None:
        call = client.call("get_weather", {"city": "Oslo", "days": "2"})
        assert call.structured == {"celsius": 20.0, "sky": "cloudy"}
        assert call.coerced[0].pointer == "/days"

    def test_tool_error_is_for_the_model(self, client: Toolpost) -> None:
        call = client.call("get_weather", {"city": "Atlantis"})
        assert call.output == 'Error executing tool "get_weather": no weather for Atlantis'
        call = client.call("fail")
        assert call.error is not None and call.error.code == "TOOL_EXECUTION_ERROR"
        assert call.output == "Error executing tool \"fail\": KeyError: 'inventory'"

    def test_invalid_arguments_do_not_reach_the_tool(self, client: Toolpost) -> None:
        call = client.call("get_weather", {"town": "Oslo"})
        assert call.error is not None and call.error.code == "TOOL_VALIDATION_ERROR"

    def test_context_is_given(self, client: Toolpost) -> None:
        assert client.call("greet", {}, context={"user": {"name": "Ada"}}).output == "Hello, Ada"

    def test_progress_is_streamed(self, client: Toolpost) -> None:
        events = list(client.stream("count", {"to": 3}))
        steps = [event.progress.message for event in events if event.event == "status" and event.progress]
        assert steps[-1] == "at 3"
        assert [event.details for event in events if event.event == "progress"] == [{"to": 3}]
        last = events[-1]
        assert last.event == "batch" and last.results[0].output == "counted to 3"

    def test_results_of_all_kinds_are_converted(self, client: Toolpost) -> None:
        assert client.call("nothing").output == "Done"
        assert [block["type"] for block in client.call("draw").content] == ["text", "image"]
        call = client.call("explain")
        assert (call.output, call.structured) == ("short", {"n": 1})
        assert call.details is not None and call.details["long"] == "story"

    @pytest.mark.parametrize("name", ["sleep_async", "sleep_sync"])
    def test_cancelled_call_stops_its_function(self, client: Toolpost, name: str) -> None:
        call = client.call(name, wait="accepted")
        wait_until(lambda: f"begun {call.id}" in tools.noticed)
        client.cancel(call)
        wait_until(lambda: f"cancelled {call.id}" in tools.noticed)
        assert client.wait_for(call).error.code == "CANCELLED"  # type: ignore[union-attr]


def test_request_without_a_signature_is_refused(url: str) -> None:
    body = {"name": "nothing", "arguments": {}}
    assert httpx.post(url, json=body).status_code == 401
    assert httpx.get(url).status_code == 405
    headers = {"webhook-id": "m", "webhook-timestamp": "1614265330", "webhook-signature": "v1,AAAA"}
    assert httpx.post(url, json=body, headers=headers).status_code == 401


def test_signing_secret_must_have_its_form() -> None:
    with pytest.raises(ToolpostError, match="whsec_"):
        http_app(TOOLS, signing_secret="secret")
