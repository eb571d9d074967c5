"""Results that share requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from toolpost import APIStatusError, AsyncToolpost, tool
from toolpost._results import MAX_BYTES, MAX_REQUESTS, ResultSender
from toolpost._worker import Worker
from toolpost.params import Limits

from .conftest import Service


class Receiver:
    """Receives requests, and answers each when the test says so."""

    def __init__(self) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.answers: list[asyncio.Future[list[str]]] = []

    async def __call__(self, body: bytes) -> list[str]:
        self.requests.append(json.loads(body)["results"])
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    @property
    def sizes(self) -> list[int]:
        return [len(results) for results in self.requests]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_results_that_end_meanwhile_share_a_request() -> None:
    receiver = Receiver()
    sender = ResultSender(receiver, "w")
    sending = []
    for number in range(70 + MAX_REQUESTS):
        sending.append(asyncio.create_task(sender.send(f"c{number}", "t", b"1")))
        await settle()
    assert receiver.sizes == [1] * MAX_REQUESTS
    receiver.answers[0].set_result(["ignored"])
    await settle()
    assert receiver.sizes == [1] * MAX_REQUESTS + [64]
    receiver.answers[1].set_result(["recorded"])
    await settle()
    assert receiver.sizes == [1] * MAX_REQUESTS + [64, 6]
    receiver.answers[2].set_result(["recorded"] * 63 + ["retry"])
    receiver.answers[3].set_result(["refused"] * 6)
    assert await asyncio.gather(*sending) == ["ignored"] + ["recorded"] * 64 + ["retry"] + ["refused"] * 6


async def test_large_results_do_not_share_much() -> None:
    receiver = Receiver()
    sender = ResultSender(receiver, "w")
    first = []
    for number in range(MAX_REQUESTS):
        first.append(asyncio.create_task(sender.send(f"a{number}", "t", b"1")))
        await settle()
    large = b'"' + b"x" * (MAX_BYTES // 2) + b'"'
    tasks = [asyncio.create_task(sender.send(f"b{number}", "t", large)) for number in range(3)]
    await settle()
    for answer in receiver.answers:
        answer.set_result(["recorded"])
    await settle()
    assert sorted(receiver.sizes[-2:]) == [1, 2]
    for answer, request in zip(receiver.answers[-2:], receiver.requests[-2:], strict=True):
        answer.set_result(["recorded"] * len(request))
    assert await asyncio.gather(*first, *tasks) == ["recorded"] * (MAX_REQUESTS + 3)


async def test_error_reaches_every_result_of_the_request() -> None:
    receiver = Receiver()
    sender = ResultSender(receiver, "w")
    abandoned = asyncio.create_task(sender.send("a", "t", b""))
    await settle()
    assert receiver.requests == [[{"id": "a", "token": "t"}]]
    abandoned.cancel()
    receiver.answers[0].set_exception(ConnectionError("lost"))
    kept = asyncio.create_task(sender.send("b", "t", b"null"))
    await settle()
    receiver.answers[1].set_exception(ConnectionError("lost"))
    with pytest.raises(ConnectionError):
        await kept
    assert receiver.requests[1] == [{"id": "b", "token": "t", "result": None}]


async def test_result_that_no_request_can_share_is_sent_alone(service: Service, unique: str) -> None:
    """A service without shared results, and a request that is rejected for another result, change nothing."""

    async def give(size: int) -> str:
        return "x" * size

    worker = Worker(service.url, unique, tools=[tool(name=unique)(give)], poll_ms=100)
    tried = []

    async def reject(body: bytes) -> list[str]:
        tried.append(json.loads(body))
        raise APIStatusError(404, {"code": "NOT_FOUND", "detail": "no such path"})

    worker._results = ResultSender(reject, "w")
    running = asyncio.create_task(worker.run())
    async with AsyncToolpost(service.url) as client:
        for size in (5, 80_000):
            limits: Limits = {"max_output_bytes": 200_000}
            while (result := await client.call(unique, {"size": size}, limits=limits)).is_error:
                assert result.error and result.error.code == "TOOL_NOT_FOUND"
                await asyncio.sleep(0.05)
            assert result.output == "x" * size
    worker.stop()
    await running
    assert len(tried) == 1


async def test_calls_whose_results_are_sent_keep_no_place(service: Service, unique: str) -> None:
    begun: asyncio.Queue[int] = asyncio.Queue()

    async def note(n: int) -> int:
        begun.put_nowait(n)
        return n

    worker = Worker(service.url, unique, tools=[tool(name=unique)(note)], poll_ms=100, concurrency=1)
    accepts = asyncio.Event()
    post = worker._post_results

    async def post_later(body: bytes) -> list[str]:
        await accepts.wait()
        return await post(body)

    worker._results = ResultSender(post_later, worker.name)
    running = asyncio.create_task(worker.run())
    async with AsyncToolpost(service.url) as client:
        while unique not in [tool.name for tool in await client.tools()]:
            await asyncio.sleep(0.01)
        calls = [asyncio.create_task(client.call(unique, {"n": n})) for n in range(3)]
        # The second call runs although the result of the first is not recorded. The third waits for one of the two.
        first = {await asyncio.wait_for(begun.get(), 60) for _ in range(2)}
        assert worker._free() == 0 and worker.running == 2
        accepts.set()
        assert first | {await asyncio.wait_for(begun.get(), 60)} == {0, 1, 2}
        assert [(await call).output for call in calls] == ["0", "1", "2"]
    worker.stop()
    await running
