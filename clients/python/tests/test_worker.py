"""Workers of a real service."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolpost import ConflictError, PermissionDeniedError, Toolpost, ToolFunction, ToolpostError, Worker
from toolpost.__main__ import load

from . import tools
from .conftest import ENVIRONMENT, PACKAGE, Service, wait_until

TOOLS: list[ToolFunction[Any, Any]] = [
    tools.get_weather, tools.greet, tools.count, tools.fail, tools.nothing, tools.draw, tools.explain,
    tools.sleep_async, tools.sleep_sync,
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of these tests only: a tool belongs to one queue."""
    running = Service(tmp_path_factory.mktemp("workers")).start()
    yield running
    running.stop()


def renamed(function: ToolFunction[Any, Any], name: str) -> ToolFunction[Any, Any]:
    """Returns the tool under a name of its own."""
    return ToolFunction(function.function, {"name": name})


class Running:
    """A worker in a thread of its own."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        self.error: BaseException | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(url, queue, options)))
        self._thread.start()
        assert self._begun.wait(30)

    async def _run(self, url: str, queue: str, options: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self.worker = Worker(url, queue, **{"tools": TOOLS, "poll_ms": 200, **options})
        self._begun.set()
        try:
            await self.worker.run()
        except ToolpostError as error:
            self.error = error

    def ask_to_stop(self) -> None:
        self._loop.call_soon_threadsafe(self.worker.stop)

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(service: Service, queue: str, **options: Any) -> Running:
        running.append(Running(service.url, queue, **options))
        return running[-1]

    yield start
    for one in running:
        if one._thread.is_alive():
            one.ask_to_stop()
            one.ask_to_stop()
    for one in running:
        one.join()


@pytest.fixture(scope="module")
def worker(service: Service) -> Iterator[Running]:
    """A worker that several tests share, with a short lease so that it learns of cancellations soon."""
    running = Running(service.url, "shared", lease_ms=3000)
    with Toolpost(service.url) as client:
        wait_until(lambda: "count" in [tool.name for tool in client.tools()])
    yield running
    running.ask_to_stop()
    running.join()


def is_registered(client: Toolpost, queue: str) -> bool:
    found = client.request("GET", "/workers").json()["workers"]
    return any(worker["queue"] == queue for worker in found)


@pytest.mark.usefixtures("worker")
class TestCalls:
    """Calls that a worker runs."""

    def test_result_has_text_and_data(self, client: Toolpost) -> None:
        call = client.call("get_weather", {"city": "Oslo", "days": "2"})
        assert call.structured == {"celsius": 20.0, "sky": "cloudy"}
        definition = next(tool for tool in client.tools() if tool.name == "get_weather")
        assert definition.executor["type"] == "worker" and definition.executor["queue"] == "shared"

    def test_errors_are_for_the_model(self, client: Toolpost) -> None:
        assert str(client.call("get_weather", {"city": "Atlantis"}).output).endswith("no weather for Atlantis")
        assert "KeyError: 'inventory'" in str(client.call("fail").output)

    def test_context_is_given(self, client: Toolpost) -> None:
        assert client.call("greet", {}, context={"user": {"name": "Ada"}}).output == "Hello, Ada"

    def test_progress_is_reported(self, client: Toolpost) -> None:
        events = list(client.stream("count", {"to": 3}))
        steps = [event.progress.message for event in events if event.event == "status" and event.progress]
        assert steps[-1] == "at 3"
        assert [event.details for event in events if event.event == "progress"] == [{"to": 3}]

    def test_results_of_all_kinds_are_converted(self, client: Toolpost) -> None:
        assert client.call("nothing").output == "Done"
        assert [block["type"] for block in client.call("draw").content] == ["text", "image"]
        assert client.call("explain").structured == {"n": 1}

    def test_calls_run_side_by_side(self, client: Toolpost) -> None:
        batch = client.batch([{"name": "get_weather", "arguments": {"city": str(n)}} for n in range(20)])
        assert all(call.status == "SUCCESS" for call in batch.results)

    @pytest.mark.parametrize("name", ["sleep_async", "sleep_sync"])
    def test_cancelled_call_stops_its_function(self, client: Toolpost, worker: Running, name: str) -> None:
        call = client.call(name, wait="accepted")
        wait_until(lambda: f"begun {call.id}" in tools.noticed)
        client.cancel(call)
        wait_until(lambda: f"cancelled {call.id}" in tools.noticed)
        assert client.wait_for(call).error.code == "CANCELLED"  # type: ignore[union-attr]
        wait_until(lambda: worker.worker.running == 0)


def test_no_more_calls_than_allowed_run_at_once(
    service: Service, client: Toolpost, start_worker: Callable[..., Running], unique: str
) -> None:
    start_worker(service, unique, tools=[renamed(tools.sleep_sync, unique)], concurrency=2)
    wait_until(lambda: is_registered(client, unique))
    calls = [client.call(unique, wait="accepted", session=unique).id for _ in range(3)]

    def noticed(what: str) -> list[str]:
        return [found for found in tools.noticed if found.startswith(what) and found.split()[1] in calls]

    wait_until(lambda: len(noticed("begun")) == 2)
    client.cancel(noticed("begun")[0].split()[1])
    wait_until(lambda: len(noticed("begun")) == 3)
    # The third call began after the first had ended.
    order = [found for found in tools.noticed if found.split()[1] in calls]
    assert [found.split()[0] for found in order] == ["begun", "begun", "cancelled", "begun"]
    client.cancel_all(session=unique)


def test_stop_lets_running_calls_finish(
    service: Service, client: Toolpost, start_worker: Callable[..., Running], unique: str
) -> None:
    running = start_worker(service, unique, tools=[renamed(tools.count, unique)])
    wait_until(lambda: is_registered(client, unique))
    call = client.call(unique, {"to": 20}, wait="accepted")
    wait_until(lambda: running.worker.running == 1)
    running.ask_to_stop()
    running.join()
    assert client.wait_for(call).output == "counted to 20"


def test_worker_survives_a_restart_of_the_service(
    own_service: Callable[..., Service], start_worker: Callable[..., Running], unique: str
) -> None:
    service = own_service()
    start_worker(service, unique, tools=[tools.get_weather])
    with Toolpost(service.url, max_retries=8) as client:
        wait_until(lambda: is_registered(client, unique))
        service.kill()
        service.start()
        assert client.call("get_weather", {"city": "Oslo"}).status == "SUCCESS"


def test_key_without_the_scope_ends_the_worker(
    own_service: Callable[..., Service], start_worker: Callable[..., Running], unique: str
) -> None:
    service = own_service()
    key = service.key("call")
    service.stop()
    running = start_worker(service.start(), unique, api_key=key)
    running.join()
    assert isinstance(running.error, PermissionDeniedError)


def test_tool_of_another_queue_ends_the_worker(
    service: Service, worker: Running, start_worker: Callable[..., Running], unique: str
) -> None:
    running = start_worker(service, unique, tools=[tools.count])
    running.join()
    assert isinstance(running.error, ConflictError) and '"count"' in str(running.error)


def test_module_is_served_until_a_signal(own_service: Callable[..., Service]) -> None:
    service = own_service()
    command = [sys.executable, "-m", "toolpost", "serve", "tests.tools:get_weather", "--queue", "q", "--url", service.url]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(PACKAGE / "src")}
    program = subprocess.Popen(command, cwd=PACKAGE, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        with Toolpost(service.url) as client:
            wait_until(lambda: program.poll() is not None or is_registered(client, "q"))
            assert client.call("get_weather", {"city": "Oslo"}).status == "SUCCESS"
        program.send_signal(signal.SIGTERM)
        _, log = program.communicate(timeout=60)
        assert program.returncode == 0 and "serves queue q: get_weather" in log
    finally:
        program.kill()


def test_wrong_module_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PACKAGE)
    assert load("tests.tools:get_weather") == [tools.get_weather]
    for target, message in {
        "no_such_module": "not found", "tests.tools:missing": "has no 'missing'", "tests.tools:DOT": "must be a tool",
    }.items():
        with pytest.raises(ToolpostError, match=message):
            load(target)


def test_worker_needs_tools_and_a_slot() -> None:
    async def make(**options: Any) -> None:
        Worker("http://127.0.0.1:1", "q", **options)

    with pytest.raises(ToolpostError, match="no tools"):
        asyncio.run(make(tools=[]))
    with pytest.raises(ToolpostError, match="concurrency"):
        asyncio.run(make(tools=[tools.count], concurrency=0))


def test_heartbeat_names_any_number_of_calls(service: Service, unique: str) -> None:
    class Run:
        """A call that the service does not know, so that its heartbeat says that it is lost."""

        lease_ms = 30
        is_abandoned = False

        def abandon(self) -> None:
            self.is_abandoned = True

    async def beat() -> list[Run]:
        worker = Worker(service.url, unique, tools=[tools.count])
        runs = {str(uuid.uuid4()): Run() for _ in range(1001)}
        worker._running = runs  # type: ignore[assignment]
        beating = asyncio.create_task(worker._keep_leases())
        for _ in range(6000):
            if all(run.is_abandoned for run in runs.values()):
                break
            await asyncio.sleep(0.01)
        beating.cancel()
        await worker._client.close()
        return list(runs.values())

    assert all(run.is_abandoned for run in asyncio.run(beat()))
