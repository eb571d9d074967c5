"""What the adapters share, against a service with keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolpost import AsyncToolpost, PermissionDeniedError, Toolpost, ToolpostError
from toolpost.adapters._bridge import Bridge, match

from .conftest import Service, echo_tool


@pytest.fixture
def keys(own_service: Callable[..., Service]) -> tuple[str, str, str, str]:
    """The address of a service, and the keys of an operator, an agent and an approver."""
    service = own_service()
    operator, agent, approver = service.key("admin"), service.key("call", "read", "approve"), service.key("approve")
    service.stop()
    url = service.start().url
    with Toolpost(url, operator) as client:
        client.register(echo_tool("pay", approval={"required": True}))
        client.register({"name": "ask", "executor": {"type": "external"}, "input_schema": {"type": "object"}})
    return url, operator, agent, approver


async def test_approval_is_recorded_with_the_key_of_the_approver(keys: tuple[str, str, str, str]) -> None:
    url, _, agent, approver = keys
    bridge = Bridge(AsyncToolpost(url, agent), approver=Toolpost(url, approver))
    call = await bridge.call("pay", {"n": 1}, approved=True)
    assert call.structured == {"n": 1} and call.approval is not None
    assert call.approval.decisions[0].by != call.approval.requested_by


async def test_caller_that_cannot_approve_leaves_no_call_behind(keys: tuple[str, str, str, str]) -> None:
    url, _, agent, _ = keys
    with pytest.raises(PermissionDeniedError) as caught:
        await Bridge(AsyncToolpost(url, agent)).call("pay", {"n": 1}, approved=True)
    assert caught.value.code == "APPROVAL_SELF"
    async with AsyncToolpost(url, agent) as client:
        assert [call.is_error async for call in client.calls(name="pay")] == [True]


async def test_long_output_is_complete(keys: tuple[str, str, str, str]) -> None:
    url, _, agent, _ = keys
    call = await Bridge(AsyncToolpost(url, agent)).call("echo", {"text": "x" * 20_000})
    assert len(call.output or "") > 20_000


def test_tools_are_called_in_threads_without_a_loop(keys: tuple[str, str, str, str]) -> None:
    url, _, agent, _ = keys
    bridge = Bridge(Toolpost(url, agent))
    assert [bridge.call_sync("echo", {"n": number}).structured["n"] for number in range(3)] == [0, 1, 2]
    with pytest.raises(TypeError, match="begins with `a`"):
        Bridge(AsyncToolpost(url, agent)).list_tools()


def test_lists_that_differ_are_refused() -> None:
    native = {"tools": [{"name": "a"}, {"name": "b"}]}
    assert [tool.name for tool in match(native, {"tools": [{"function": {"name": "b"}}], "left_out": [{"name": "a"}]})] == ["b"]
    with pytest.raises(ToolpostError, match="list them again"):
        match(native, {"tools": [{"function": {"name": "a"}}, {"function": {"name": "c"}}]})
