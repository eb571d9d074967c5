"""The code of the README and of the cookbook runs as it is written, with the vendors' SDKs and a fake model.

    ```python          runs to its end
    ```python worker   runs in the background until the page ends
    ```python app      is served by uvicorn, at a free port in place of 9000
    ```text output     is what the block before prints
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolpost import Toolpost

from .conftest import ENVIRONMENT, PACKAGE, ROOT, Service, wait_until
from .fake_models import fake_models

PAGES = [PACKAGE / "README.md", ROOT / "docs" / "guide" / "python.md"]
MAX_AGENT_LINES = 25
#: Lines of a tool that are not its function.
MAX_TOOL_LINES = 5


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Yields the language, the remaining words and the code of each block."""
    for found in re.finditer(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S):
        yield found[1], found[2], found[3]


class Page:
    """The programs of one page."""

    def __init__(self, folder: Path, service: Service, variables: dict[str, str]) -> None:
        self.folder = folder
        self.client = Toolpost(service.url, variables["TOOLPOST_API_KEY"])
        self.environment = {**ENVIRONMENT, **variables, "PYTHONPATH": str(PACKAGE / "src")}
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, code: str) -> str:
        """Runs a program in this process, where the frameworks are imported already. Returns what it prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
        return printed.getvalue()

    def start(self, command: list[str], code: str) -> None:
        """Starts a program that offers tools, and waits until the service knows them."""
        log = (self.folder / "log").open("ab")
        self.started.append(subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log))
        name = re.findall(r"def (\w+)\(", code)[0]
        wait_until(lambda: self.started[-1].poll() is not None or name in [tool.name for tool in self.client.tools()])
        assert self.started[-1].poll() is None, (self.folder / "log").read_text()

    def serve(self, code: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        (self.folder / "times.py").write_text(code.replace("9000", port))
        self.start([sys.executable, "-m", "uvicorn", "times:app", "--port", port], code)

    def stop(self) -> None:
        for program in self.started:
            program.kill()
        for program in self.started:
            program.wait(60)
        self.client.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs_as_written(
    page: Path, tmp_path: Path, own_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = own_service("--egress-allow", "127.0.0.0/8")
    keys = {
        "TOOLPOST_API_KEY": service.key("call", "read", "tools", "work", "admin"),
        "APPROVER_KEY": service.key("approve", "read"),
    }
    service.stop()
    service.start()
    monkeypatch.syspath_prepend(PACKAGE / "tests" / "stand_ins")
    with fake_models() as variables:
        variables |= {**keys, "TOOLPOST_URL": service.url}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        programs, printed, count = Page(tmp_path, service, variables), None, 0
        try:
            for language, words, code in blocks(page):
                if language == "text" and words == "output":
                    assert printed is not None
                    for line in code.splitlines():
                        assert line in printed.splitlines(), f"not printed: {line}\n{printed}"
                if language != "python":
                    continue
                printed, count = None, count + 1
                if words == "worker":
                    programs.start([sys.executable, "-c", code], code)
                elif words == "app":
                    programs.serve(code)
                else:
                    printed = programs.run(code)
        finally:
            programs.stop()
        assert count == page.read_text().count("```python")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_is_short(page: Path) -> None:
    for language, words, code in blocks(page):
        lines = [line for line in code.splitlines() if line.strip()]
        if language == "python":
            assert len(lines) <= MAX_AGENT_LINES, code
        if words == "worker":
            functions = re.findall(r"^def .*?(?=^\S|\Z)", code, re.M | re.S)
            inside = [line for function in functions for line in function.splitlines() if line.strip()]
            assert len(lines) - len(inside) <= MAX_TOOL_LINES, code
