"""The client against a real service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from toolpost import (
    AsyncToolpost, InvalidRequestError, NotFoundError, PermissionDeniedError, Toolpost, ToolpostError,
)

from .conftest import WAITS, Service, are_two_steps, echo_tool


def test_call_returns_its_result(client: Toolpost) -> None:
    call = client.call("calculate", {"expression": "6 * 7"}, id="call_1")
    assert (call.status, call.output, call.call_id, call.is_done) == ("SUCCESS", "42", "call_1", True)
    assert client.get(call.id) == call


def test_failed_call_is_a_value_with_a_reason(client: Toolpost) -> None:
    call = client.call("calculate", {"expresion": "1"})
    assert call.is_error and call.error is not None
    assert call.error.code == "TOOL_VALIDATION_ERROR"
    assert call.output is not None and "expression" in call.output


def test_rejected_request_raises_an_error_with_its_fields(client: Toolpost) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        client.call("echo", {}, limits={"timeout_sm": 5})  # type: ignore[arg-type]
    assert caught.value.status == 422 and caught.value.request_id
    assert "/limits" in caught.value.errors[0]["pointer"] and "timeout_sm" in str(caught.value)
    with pytest.raises(NotFoundError):
        client.get("01a21406-4954-7774-85c3-83660e96b000")


def test_arguments_of_a_model_are_given_as_text(client: Toolpost) -> None:
    assert client.call("echo", '{"text": "\\ud83d\\ude00"}').structured == {"text": "😀"}
    assert client.call("echo", '{"text": ').error.code == "ARGUMENTS_MALFORMED"  # type: ignore[union-attr]


def test_equal_idempotency_keys_run_once(client: Toolpost, unique: str) -> None:
    first, second = (client.call("echo", {}, idempotency_key=unique) for _ in range(2))
    assert first.id == second.id
    assert client.call("echo", {}).id != client.call("echo", {}).id


def test_batch_has_results_in_order(client: Toolpost) -> None:
    batch = client.batch([{"name": "wait", "arguments": {"ms": 50}}, {"name": "echo", "arguments": {"n": 1}}])
    assert [call.name for call in batch.results] == ["wait", "echo"]
    assert batch.messages is None


def test_tools_are_listed_in_every_format(client: Toolpost, unique: str) -> None:
    client.register(echo_tool(unique, approval={"required": True}, groups=[]))
    native = {tool.name: tool for tool in client.tools()}
    assert native[unique]["approval"]["required"] and native["wait"]["annotations"]["read_only"]
    assert unique in [tool["function"]["name"] for tool in client.tools("openai")]
    assert unique in [tool["name"] for tool in client.tools("anthropic")]
    assert "calculate" in client.tools("prompt")
    assert client.tools(q="arithmetic expression", limit=1)[0].name == "calculate"
    client.unregister(unique)
    assert unique not in [tool.name for tool in client.tools()]


def test_arguments_are_validated_without_a_run(client: Toolpost) -> None:
    assert client.validate("wait", {"ms": "5"}).coerced[0].pointer == "/ms"
    assert not client.validate("wait", {}).valid


def test_watch_yields_the_history_and_the_end(client: Toolpost) -> None:
    for ms in WAITS:
        call = client.call("wait", {"ms": ms, "steps": 2}, wait="accepted")
        events = list(client.watch(call.id))
        assert events[0].event == "tool_call" and events[-1].event == "tool_result"
        if are_two_steps([event.progress.current for event in events if event.event == "status" and event.progress]):
            break
    else:
        pytest.fail("no call shows both steps")
    assert [event.event_id for event in client.watch(call.id, after=events[2].event_id)] == [
        event.event_id for event in events[3:]
    ]
    assert list(client.watch(call.id, after=events[-1].event_id)) == []


def test_watch_of_a_session_sees_its_calls(client: Toolpost, unique: str) -> None:
    client.call("echo", {}, session=unique)
    seen = []
    for event in client.watch(session=unique):
        seen.append(event.event)
        if event.event == "tool_result":
            break
    assert "tool_call" in seen


def test_stream_ends_with_the_result(client: Toolpost) -> None:
    events = list(client.stream("wait", {"ms": 40, "steps": 1}))
    assert events[0].event == "tool_call"
    last = events[-1]
    assert last.event == "batch" and last.results[0].output == "Waited 40 ms"


def test_watch_resumes_after_a_restart(own_service: Callable[..., Service]) -> None:
    service = own_service()
    with Toolpost(service.url) as client:
        client.register({"name": "ask", "executor": {"type": "external"}, "input_schema": {"type": "object"}})
        call = client.call("ask", {}, wait="accepted")
        seen: list[str] = []
        has_begun = threading.Event()

        def watch() -> None:
            for event in client.watch(call.id):
                seen.append(event.event_id or "")
                has_begun.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert has_begun.wait(30)
        service.kill()
        service.start()
        client.cancel(call.id)
        watcher.join(60)
        assert not watcher.is_alive()
        assert seen == [event.event_id for event in client.watch(call.id)]


def test_call_survives_a_restart_of_the_service(own_service: Callable[..., Service]) -> None:
    service = own_service()
    with Toolpost(service.url, max_retries=8) as client:
        client.call("echo", {})
        service.stop()
        starter = threading.Timer(0.3, service.start)
        starter.start()
        assert client.call("echo", {"n": 1}).structured == {"n": 1}
        starter.join()


def test_cancel_ends_a_call(client: Toolpost, unique: str) -> None:
    call = client.call("wait", {"ms": 60_000}, wait="accepted", session=unique)
    client.cancel(call)
    assert client.wait_for(call).error.code == "CANCELLED"  # type: ignore[union-attr]
    other = client.call("wait", {"ms": 60_000}, wait="accepted", session=unique)
    assert client.cancel_all(session=unique) == 1
    assert client.wait_for(other).is_error


def test_calls_are_listed_over_pages(client: Toolpost, unique: str) -> None:
    ids = [client.call("echo", {"n": number}, session=unique).id for number in range(5)]
    assert [call.id for call in client.calls(session=unique, limit=2)] == ids[::-1]


def test_sessions_have_context_messages_and_an_end(client: Toolpost, unique: str) -> None:
    created = client.sessions.create(unique, context={"user": {"name": "Ada"}}, tools=["echo"])
    assert created.id == unique and created.context == ["user"]
    client.call("echo", {"n": 1}, session=unique, id="call_1")
    assert client.sessions.get(unique).tool_calls[0].call_id == "call_1"
    assert client.sessions.messages(unique, "openai").messages[-1]["role"] == "tool"
    assert "echo" in client.sessions.prompt(unique)
    assert unique in [session.id for session in client.sessions.list()]
    client.sessions.abort(unique)
    client.sessions.delete(unique)
    with pytest.raises(NotFoundError):
        client.sessions.get(unique)


def test_approval_decides_a_waiting_call(client: Toolpost, unique: str) -> None:
    client.register(echo_tool(unique, approval={"required": True}))
    call = client.call(unique, {"n": 1})
    assert call.is_waiting_for_approval and not call.is_done
    assert [waiting.id for waiting in client.approvals.list(name=unique)] == [call.id]
    client.approvals.approve(call, arguments={"n": 2}, reason="fine")
    assert client.wait_for(call).structured == {"n": 2}
    rejected = client.call(unique, {})
    client.approvals.reject(rejected, reason="no")
    assert client.wait_for(rejected).output == f'Error: Tool call "{unique}" was rejected: no'
    with pytest.raises(ToolpostError, match="digest"):
        client.approvals.approve(rejected.id)


def test_key_without_a_scope_is_refused(own_service: Callable[..., Service]) -> None:
    service = own_service()
    key = service.key("call")
    service.stop()
    with Toolpost(service.start().url, key) as caller:
        assert caller.call("echo", {}).status == "SUCCESS"
        with pytest.raises(PermissionDeniedError):
            caller.register(echo_tool("mine"))


async def test_async_client_does_the_same(aclient: AsyncToolpost, unique: str) -> None:
    calls = await asyncio.gather(*(aclient.call("echo", {"n": number}) for number in range(20)))
    assert [call.structured["n"] for call in calls] == list(range(20))
    events = [event async for event in aclient.stream("wait", {"ms": 20, "steps": 1})]
    assert events[-1].event == "batch"
    call = await aclient.call("wait", {"ms": 20}, wait="accepted", session=unique)
    assert [event.event async for event in aclient.watch(call.id)][-1] == "tool_result"
    assert (await aclient.wait_for(call)).output == "Waited 20 ms"
    assert [found.id async for found in aclient.calls(session=unique)] == [call.id]
    assert (await aclient.sessions.get(unique)).counts is not None


def test_responses_keep_unknown_members_and_reject_changes(client: Toolpost) -> None:
    call = client.call("echo", {})
    assert call.to_dict()["node"] == call.node == call["node"]
    assert type(call)({**call.to_dict(), "new_member": 1})["new_member"] == 1
    with pytest.raises(AttributeError, match="no member 'outptu'"):
        _ = call.outptu
    with pytest.raises(AttributeError, match="cannot be changed"):
        call.output = "x"
