"""The official Python SDK and tools with unusual schemas: `mcp_schemas.py MODE URL`.

MODE is `modern` or `legacy`. Prints `ok` if nothing was raised and every result was as expected.
"""

import sys

import anyio
from mcp.client.client import Client


async def main() -> None:
    mode, url = sys.argv[1:]
    async with Client(url, mode="2026-07-28" if mode == "modern" else "legacy") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name in ["either", "union", "flags", "query"]:
            assert tools[name].input_schema["type"] == "object", tools[name]
            result = await client.call_tool(name, {"a": "x"})
            assert not result.is_error and result.structured_content == {"a": "x"}, result
        for name in ["promise", "old_promise", "letters"]:
            fits = await client.call_tool(name, {"n": 5, "word": "ab"})
            assert fits.structured_content == {"n": 5, "word": "ab"} and not fits.is_error, fits
            odd = await client.call_tool(name, {"n": "five"})
            assert odd.is_error and "The tool has run" in odd.content[0].text, odd
            assert odd.content[1].text == '{"n":"five"}', odd
        text = await client.call_tool("text", {})
        assert text.is_error and text.content[1].text == "plain words", text
        items = await client.call_tool("items", {"n": 1})
        assert not items.is_error, items
    print("ok")


anyio.run(main)
