"""A running service for all tests, started from the program that `TOOLPOST_BIN` names."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolpost import AsyncToolpost, Toolpost

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "clients" / "python"
PROGRAM = Path(os.environ.get("TOOLPOST_BIN") or ROOT / "target" / "debug" / "toolpost")
#: Settings and options of the service, without those of the machine.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TOOLPOST_")}


class Service:
    """A running service. Its database is a file, so that it can be stopped and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.listen = "127.0.0.1:0"
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> Service:
        if not PROGRAM.exists():
            pytest.fail(f"{PROGRAM} does not exist: set TOOLPOST_BIN to the program of the service", pytrace=False)
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", self.listen, "--database-url", self.database, *self.options],
            stdout=subprocess.PIPE, stderr=(self.folder / "log").open("a"), text=True, env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "listening on" not in line:
            pytest.fail("the service did not start:\n" + (self.folder / "log").read_text()[-2000:], pytrace=False)
        self.url = line.split()[-1]
        # The next start is at the same address.
        self.listen = self.url.removeprefix("http://")
        return self

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    @property
    def database(self) -> str:
        return f"sqlite://{self.folder / 'toolpost.db'}"

    def key(self, *scopes: str) -> str:
        """Creates an API key. From then on the service requires one."""
        options = [option for scope in scopes for option in ("--scope", scope)]
        command = [str(PROGRAM), "keys", "create", "--database-url", self.database, *options]
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
        return run.stdout.split()[-1]


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Waits for a fact that nothing announces."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"), "--egress-allow", "127.0.0.0/8").start()
    yield running
    running.stop()


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services of one test, which it may stop, kill or give keys."""
    started: list[Service] = []

    def start(*options: str) -> Service:
        started.append(Service(tmp_path, *options).start())
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def client(service: Service) -> Iterator[Toolpost]:
    with Toolpost(service.url) as client:
        yield client


@pytest.fixture
async def aclient(service: Service) -> AsyncIterator[AsyncToolpost]:
    async with AsyncToolpost(service.url) as client:
        yield client


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


#: Times of a call of `wait` with two steps, in milliseconds. Reports that arrive while one is written are merged, so on a
#: busy machine the first call may show its last step only. Then a longer one has to show both.
WAITS = (60, 600, 6000, 20_000)


def are_two_steps(steps: list[Any]) -> bool:
    """Returns whether the steps of a call are both there. The last one always is, and the end of the call may repeat it."""
    assert list(dict.fromkeys(steps)) in ([1, 2], [2])
    return 1 in steps


def echo_tool(name: str, **definition: Any) -> dict[str, Any]:
    """Returns the definition of a tool whose result is its arguments."""
    return {"name": name, "description": "Echoes.", "executor": {"type": "builtin", "name": "echo"}, **definition}
