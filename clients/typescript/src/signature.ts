/** Signatures of requests, as Standard Webhooks defines them (https://www.standardwebhooks.com). */

/** The maximum age of a signed request. */
const TOLERANCE_S = 300;

/** Returns whether a request has a valid signature of this secret, `whsec_…`. */
export async function isSigned(secret: string, headers: Headers, body: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const [id, timestamp] = [headers.get("webhook-id"), headers.get("webhook-timestamp")];
  const age = Math.abs(Date.now() / 1000 - Number(timestamp ?? NaN));
  if (!id || !(age <= TOLERANCE_S)) return false;
  const bytes = decoded(secret.replace(/^whsec_/, ""));
  if (!bytes) throw new TypeError("signingSecret: it is not base64; `toolpost keys signing-secret` prints it");
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const message = new Uint8Array(head.length + body.length);
  message.set(head);
  message.set(body, head.length);
  for (const signature of (headers.get("webhook-signature") ?? "").split(" ")) {
    const own = signature.startsWith("v1,") ? decoded(signature.slice(3)) : undefined;
    // `verify` compares in constant time.
    if (own && (await crypto.subtle.verify("HMAC", key, own, message))) return true;
  }
  return false;
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}
