"""Asks for approvals in Slack, and sends the answers back: docs/guide/slack.md."""
import json
from os import environ

from flask import Flask, abort, request
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from toolpost import APIStatusError, Toolpost

app = Flask(__name__)
approvals, webhook = Toolpost().approvals, Webhook(environ["TOOLPOST_SIGNING_SECRET"])
slack = WebClient(environ["SLACK_TOKEN"], base_url=environ.get("SLACK_API", WebClient.BASE_URL))
is_from_slack = SignatureVerifier(environ["SLACK_SIGNING_SECRET"]).is_valid_request


def blocks(text, *more):
    return [{"type": "section", "text": {"type": "plain_text", "text": text[:3000], "emoji": False}}, *more]


@app.post("/toolpost")
def ask():
    try:
        event = webhook.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError:
        abort(401)
    if event["type"] == "approval.requested":
        call = event["data"]
        text = f"{call['name']} {json.dumps(call['effective_arguments'], ensure_ascii=False, indent=1)}"
        value = json.dumps({"id": call["id"], "digest": call["approval"]["digest"]})
        buttons = [{"type": "button", "action_id": decision, "value": value, "style": style,
                    "text": {"type": "plain_text", "text": decision.title()}}
                   for decision, style in (("approve", "primary"), ("reject", "danger"))]
        shown = blocks(text, {"type": "actions", "elements": buttons})
        if len(text) > 2500:  # people must see everything that they approve, and Slack shows 3,000 characters
            shown = blocks(f"{call['name']} {call['id']}: too long to be shown here, decide in the console")
        # If this fails, Toolpost gets a 500 and sends the event again.
        slack.chat_postMessage(channel=environ["SLACK_CHANNEL"], text="Approval", blocks=shown)
    return "", 204


@app.post("/slack")
def decide():
    if not is_from_slack(request.get_data(), request.headers):
        abort(401)
    click = json.loads(request.form["payload"])
    decision, asked, by = click["actions"][0]["action_id"], click["message"], click["user"]["id"]
    value = json.loads(click["actions"][0]["value"])
    try:
        decide = approvals.approve if decision == "approve" else approvals.reject
        decide(value["id"], digest=value["digest"], reason=f"decided in Slack by {by}")
        outcome = f"{decision} by {by}"
    except APIStatusError as problem:
        outcome = f"not decided: {problem.detail}"
    shown = blocks(f"{asked['blocks'][0]['text']['text']}\n{outcome}")
    slack.chat_update(channel=click["channel"]["id"], ts=asked["ts"], text="Approval", blocks=shown)
    return ""
