"""What Schemathesis cannot know when it makes up requests."""

import os
import re

import schemathesis

# TEST-NET-1 (RFC 5737), which the service's egress guard refuses.
NOWHERE = "http://192.0.2.1"
ORIGIN = re.compile(r"^https?://[^/?#]*")

# The key that everything is asked with.
OWN_KEY = os.environ.get("TOOLPOST_TEST_KEY_ID")
OWN_SECRET = os.environ.get("TOOLPOST_TEST_KEY")
NO_KEY = "00000000-0000-0000-0000-000000000000"


def nowhere(value):
    """Whatever is asked to be reached is nowhere: a test must not knock at the doors of others."""
    if isinstance(value, str):
        return ORIGIN.sub(NOWHERE, value)
    if isinstance(value, list):
        return [nowhere(item) for item in value]
    if isinstance(value, dict):
        return {name: nowhere(item) for name, item in value.items()}
    return value


def registrable(tool, name):
    """Lets a definition name what there is, so that it is registered now and then."""
    tool["groups"] = ["mail"][: len(tool.get("groups") or [])]
    if "name" in tool and name is not None:
        tool["name"] = name
    if tool["executor"].get("type") == "builtin":
        tool["executor"]["name"] = "echo"


def importable(body):
    """Lets a document be one now and then: what is made up never is."""
    operation = {"operationId": "ping", "responses": {"200": {"description": "It is there"}}}
    body["document"] = {"openapi": "3.1.0", "info": {"title": "Ping", "version": "1"}, "paths": {"/ping": {"get": operation}}}
    body["server"] = NOWHERE
    body["auth"], body["only"] = [], []


def once(body, case_id):
    """A call is another one than all before, and has its id for itself."""
    calls = body.get("calls", [body]) if isinstance(body, dict) else []
    for place, call in enumerate(calls):
        if isinstance(call.get("id"), str) and call["id"]:
            call["id"] = f"{call['id']}-{case_id}-{place}"[-512:]


# `Json` as the service takes it. The description says it in words: generators of clients know no type that contains itself.
JSON = "#/components/schemas/Json"
ANY_JSON = {
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "integer", "format": "int64"},
        {"type": "number", "format": "double"},
        {"type": "array", "items": {"$ref": JSON}},
        {"type": "object", "additionalProperties": {"$ref": JSON}},
    ]
}


def harmless(body):
    """Made-up expressions never compile, and a policy must not deny the calls of other tests."""
    policies = body.get("policies")
    for policy in [body, body.get("policy"), *(policies if isinstance(policies, list) else [])]:
        if isinstance(policy, dict) and isinstance(policy.get("when"), str) and policy["when"]:
            policy["when"] = "false"


def triable(body):
    """One policy is tried, or several, and not both."""
    if body.get("policies") is None and body.get("policy") is None:
        body["policies"] = []
    elif body.get("policies") is not None:
        body.pop("policy", None)


def distant(body):
    """A made-up budget must not count the calls of other tests."""
    match = body.setdefault("match", {})
    if isinstance(match, dict):
        match["keys"] = [NO_KEY]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    raw_schema["components"]["schemas"]["Json"] = ANY_JSON


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw.get("operationId")
    if isinstance(case.body, (dict, list)):
        case.body = nowhere(case.body)
    if case.query:
        case.query = nowhere(case.query)
    if isinstance(case.body, dict) and "policies" in (case.path or ""):
        harmless(case.body)
    if operation in ("create_budget", "put_budget") and isinstance(case.body, dict):
        distant(case.body)
    if operation == "claim_calls" and isinstance(case.body, dict) and case.body.get("wait_ms") in range(1, 60_001):
        case.body["wait_ms"] = 1  # no call comes
    if operation == "revoke_key" and case.path_parameters and case.path_parameters.get("id") == OWN_KEY:
        case.path_parameters["id"] = NO_KEY
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # A key stands for one request: another request has another one.
    key = "Idempotency-Key"
    if case.headers and key in case.headers:
        case.headers[key] = f"{case.headers[key]}{case.id}"[-512:]
    if operation == "execute_tool_calls":
        once(case.body, case.id)
    if operation in ("create_tool", "put_tool"):
        registrable(case.body, (case.path_parameters or {}).get("name"))
    if operation == "test_policies" and isinstance(case.body, dict):
        triable(case.body)
    if operation in ("put_policy", "put_budget") and isinstance(case.body, dict):
        case.body["name"] = case.path_parameters["name"]
    if operation == "import_openapi" and isinstance(case.body, dict) and case.body.get("document") is not None:
        importable(case.body)
    # A made-up key signs nobody in.
    if operation == "login" and OWN_SECRET and isinstance(case.body, dict):
        case.body["key"] = OWN_SECRET
