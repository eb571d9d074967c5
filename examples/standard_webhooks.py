"""Verifies that a request was sent by Toolpost (https://www.standardwebhooks.com), with the standard library only."""
import base64
import hashlib
import hmac
import os
import time

OLDEST_S = 300


def secret():
    """Returns the key that `toolpost keys signing-secret` prints."""
    text = os.environ.get("TOOLPOST_SIGNING_SECRET", "")
    if not text.startswith("whsec_"):
        raise SystemExit("set TOOLPOST_SIGNING_SECRET to what `toolpost keys signing-secret` prints")
    return base64.b64decode(text.strip().removeprefix("whsec_"))


def is_genuine(key, headers, body):
    """Verifies a request. `body` is the received bytes: JSON that was parsed and serialized again has another signature."""
    event, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > OLDEST_S:
        return False  # reject old requests, which may be replays
    signed = f"{event}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    signatures = headers.get("webhook-signature", "").encode().split()  # several while a secret is being changed
    return any(hmac.compare_digest(expected, signature) for signature in signatures)
