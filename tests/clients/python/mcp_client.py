"""The official Python SDK against a server: `mcp_client.py MODE URL`, or `mcp_client.py MODE -- COMMAND ARGS…`.

MODE is `modern` or `legacy`. Prints `ok` if everything was as a user of the SDK expects.
"""

import os
import re
import sys

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters


async def main() -> None:
    mode, target, *command = sys.argv[1:]
    server = target
    if target == "--":
        server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(server, mode="2026-07-28" if mode == "modern" else "legacy") as client:
        tools = (await client.list_tools()).tools
        assert any(tool.name == "calculate" and tool.annotations.read_only_hint for tool in tools), tools
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools), tools
        dotted = await client.call_tool("client__echo", {"a": 1})
        assert dotted.structured_content == {"a": 1}, dotted

        good = await client.call_tool("calculate", {"expression": "6 * 7"})
        assert good.content[0].text == "42" and not good.is_error, good
        assert good.structured_content == {"result": 42}, good

        bad = await client.call_tool("calculate", {"expresion": "1"})
        assert bad.is_error and bad.content[0].text.startswith("Error: Invalid parameters"), bad

        steps = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append((progress, total))

        waited = await client.call_tool("wait", {"ms": 300, "steps": 3}, progress_callback=step)
        assert waited.content[0].text == "Waited 300 ms", waited
        assert steps[-1] == (3, 3), steps

        with anyio.CancelScope() as scope:
            # As soon as it is known to run.
            async def stop(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await client.call_tool("wait", {"ms": 60_000, "steps": 100}, progress_callback=stop)
        assert scope.cancelled_caught
    print("ok")


anyio.run(main)
