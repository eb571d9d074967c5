import type { Transport } from "./transport.js";
import type { JsonObject, MessageFormat, NewSession, Session, SessionDetail } from "./types.js";
import { type EventStream, watch } from "./watch.js";

/** Sessions: calls that belong together, with their own context, groups and limits. */
export class Sessions {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a session. Without an `id`, the service generates one. */
  create(session: NewSession = {}): Promise<Session> {
    return this.#transport.json("POST", "/sessions", { json: session });
  }

  /** Reads a session with its calls. */
  get(id: string): Promise<SessionDetail> {
    return this.#transport.json("GET", pathOf(id));
  }

  /** Lists sessions. */
  list(options: { limit?: number; cursor?: string } = {}): Promise<{ sessions: Session[]; next_cursor: string | null }> {
    return this.#transport.json("GET", "/sessions", { query: { ...options } });
  }

  /** Cancels every call of a session that has not ended. */
  async abort(id: string): Promise<void> {
    await this.#transport.send("POST", `${pathOf(id)}/abort`, { repeatable: true });
  }

  /** Aborts a session and removes it. */
  async delete(id: string): Promise<void> {
    await this.#transport.send("DELETE", pathOf(id));
  }

  /** Completes a session that a `new_task` call waits for. */
  async complete(id: string, completion: { success: boolean; summary: string; error?: string }): Promise<void> {
    await this.#transport.send("POST", `${pathOf(id)}/complete`, { json: completion });
  }

  /** Returns the calls and results of a session as messages of a vendor. */
  async messages(id: string, format: MessageFormat = "openai"): Promise<any[]> {
    const path = `${pathOf(id)}/messages`;
    return (await this.#transport.json<{ messages: JsonObject[] }>("GET", path, { query: { format } })).messages;
  }

  /** Returns the tools and the pending calls of a session as a prompt. */
  async prompt(id: string): Promise<string> {
    return (await this.#transport.send("GET", `${pathOf(id)}/prompt`)).text();
  }

  /** Follows the events of a session. */
  watch(id: string, options: { after?: string; signal?: AbortSignal } = {}): EventStream {
    return watch(this.#transport, { ...options, session: id });
  }
}

function pathOf(id: string): string {
  return `/sessions/${encodeURIComponent(id)}`;
}
