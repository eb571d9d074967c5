"""Calls tools through the client that openapi-python-client has generated: python client.py URL."""

import sys

from toolpost_client import Client
from toolpost_client.api.tool_calls import execute_tool_calls
from toolpost_client.api.tools import list_tools
from toolpost_client.models import BatchAnswer, BatchItem, BatchOfCalls, SingleCall, Status, ToolCall, ToolList

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)

tools = list_tools.sync(client=client)
assert isinstance(tools, ToolList), tools
print("tools:", ", ".join(tool.name for tool in tools.tools))

call = execute_tool_calls.sync(client=client, body=SingleCall(name="echo", arguments={"city": "Paris"}))
assert isinstance(call, ToolCall), call
assert call.status == Status.SUCCESS, call
assert isinstance(call.arguments, dict) and call.structured == {"city": "Paris"}, call
print(f"{call.status.value}: {call.structured['city']}")

unknown = execute_tool_calls.sync(client=client, body=SingleCall(name="nobody"))
assert isinstance(unknown, ToolCall) and unknown.error, unknown
print(unknown.error.code.value)

calls = [BatchItem(name="echo", id="a", arguments={"n": 1}), BatchItem(name="calculate", arguments={"expression": "6 * 7"})]
batch = execute_tool_calls.sync(client=client, body=BatchOfCalls(calls=calls))
assert isinstance(batch, BatchAnswer), batch
assert batch.results[1].output == "42", batch
print("batch:", ", ".join(call.status.value for call in batch.results))
