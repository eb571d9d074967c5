import type { Transport } from "./transport.js";
import type { ApprovalStatus, JsonObject, ToolCall } from "./types.js";
import { EventStream } from "./watch.js";

/** What a decision is about: a call as it was read, or its id and the digest that the decider has seen. */
export type Decidable = Pick<ToolCall, "id" | "approval"> | { id: string; digest: string };

/** Calls that wait for the decision of a person. Decisions need a key with the scope `approve`. */
export class Approvals {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists calls with an approval, oldest first; pending ones by default. */
  list(
    options: { status?: ApprovalStatus; session?: string; name?: string; limit?: number; cursor?: string } = {},
  ): Promise<{ approvals: ToolCall[]; next_cursor: string | null }> {
    return this.#transport.json("GET", "/approvals", { query: { ...options } });
  }

  /** Approves a call with exactly the arguments that `call` has, or with other `arguments`. */
  approve(
    call: Decidable,
    options: { reason?: string; arguments?: JsonObject; remember?: "session" } = {},
  ): Promise<ToolCall> {
    return this.#decide(call, { decision: "approve", ...options });
  }

  /** Rejects a call. The model reads the reason. */
  reject(call: Decidable, options: { reason?: string } = {}): Promise<ToolCall> {
    return this.#decide(call, { decision: "reject", ...options });
  }

  /** Follows what happens to calls with an approval, from now on. */
  watch(options: { after?: string; signal?: AbortSignal } = {}): EventStream {
    return new EventStream(this.#transport, "/approvals/events", options);
  }

  async #decide(call: Decidable, decision: JsonObject): Promise<ToolCall> {
    const digest = "digest" in call ? call.digest : call.approval?.digest;
    if (!digest) throw new TypeError(`approval: the call ${call.id} has no approval to decide; read it again`);
    const path = `/tool-calls/${encodeURIComponent(call.id)}/approval`;
    return this.#transport.json("POST", path, { json: { ...decision, digest } });
  }
}
