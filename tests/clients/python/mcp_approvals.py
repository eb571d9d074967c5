"""The official Python SDK and calls that wait for an approval: `mcp_approvals.py MODE URL`.

MODE is `modern`, `legacy`, or `tasks` for a client that knows tasks. Prints `ok` if everything was as expected.
"""

import sys
from typing import Literal

import anyio
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result


class TaskParams(RequestParams):
    task_id: str


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class CreatedTask(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class TaskState(Result):
    task_id: str
    status: str
    result: dict | None = None


class Tasks(ClientExtension):
    """Polls a task to its end (SEP-2663)."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.created = 0

    def claims(self) -> list[ResultClaim]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        assert created.status == "working", created
        self.created += 1
        while True:
            request = GetTask(params=TaskParams(task_id=created.task_id))
            state = await context.session.send_request(request, TaskState)
            if state.status != "working":
                assert state.status == "completed", state
                return CallToolResult.model_validate(state.result)
            await anyio.sleep(0.05)


async def main() -> None:
    mode, url = sys.argv[1:]
    tasks = Tasks()
    extensions = [tasks] if mode == "tasks" else None
    async with Client(url, mode="legacy" if mode == "legacy" else "2026-07-28", extensions=extensions) as client:
        # The names say what the approver does.
        for name, text in [
            ("approve_me", '{"amount":5}'),
            ("reject_me", 'Error: Tool call "reject_me" was rejected: not today'),
            ("expire_me", 'Error: Tool call "expire_me" was not approved in time'),
            ("policy_approves_me", '{"amount":5}'),
        ]:
            result = await client.call_tool(name, {"amount": 5})
            assert result.content[0].text == text, result
            assert bool(result.is_error) == text.startswith("Error: "), result
        free = await client.call_tool("calculate", {"expression": "6 * 7"})
        assert free.content[0].text == "42", free
    assert tasks.created == (4 if mode == "tasks" else 0), tasks.created
    print("ok")


anyio.run(main)
