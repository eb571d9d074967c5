import { ServiceError, ToolpostError } from "./errors.js";
import type { ResultBody } from "./run.js";
import { isTransient, type Transport } from "./transport.js";

/** The maximum number of results of a request. */
const MAX_RESULTS = 64;
/** The length after which a request gets no further result, in UTF-16 units. */
const MAX_LENGTH = 256 * 1024;
/** The requests at the same time. A second one is prepared while the service commits the first. */
const MAX_REQUESTS = 2;
/** The length up to which a result shares a request. */
const MAX_SHARED_LENGTH = 64 * 1024;

/** What became of a result. */
type Outcome = "recorded" | "ignored" | "retry" | "refused";

interface Waiting {
  /** The result as JSON, with the id and the token of its call. */
  readonly member: string;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

/** Sends the results of a worker. Those that end while a request is under way share the next one. */
export class ResultSender {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #worker: string;
  #waiting: Waiting[] = [];
  #requests = 0;

  constructor(transport: Transport, path: string, worker: string) {
    this.#transport = transport;
    this.#path = `${path}/results`;
    this.#worker = JSON.stringify(worker);
  }

  /** Sends a result once. Rejects if the service did not accept it; `isTransient` tells whether it may later. */
  async send(id: string, token: string, body: ResultBody): Promise<void> {
    if ((body?.length ?? 0) <= MAX_SHARED_LENGTH) {
      const outcome = await this.#shared(id, token, body).catch((error: unknown) => {
        if (isTransient(error)) throw error;
        // One result of the request may be invalid, or the service does not know shared results.
        return undefined;
      });
      if (outcome === "retry") throw new ServiceError(503, { detail: "the result cannot be accepted now" });
      if (outcome === "refused") throw new ToolpostError(`the service refused the token of the call ${id}`);
      if (outcome !== undefined) return;
    }
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const path = `/tool-calls/${encodeURIComponent(id)}/result`;
    const response = await this.#transport.once("POST", path, { headers, body });
    await response.body?.cancel();
  }

  #shared(id: string, token: string, body: ResultBody): Promise<Outcome> {
    const result = body === undefined ? "" : `,"result":${body}`;
    const member = `{"id":${JSON.stringify(id)},"token":${JSON.stringify(token)}${result}}`;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ member, resolve, reject });
      if (this.#requests < MAX_REQUESTS) void this.#sendWaiting();
    });
  }

  /** Sends requests until nothing waits. */
  async #sendWaiting(): Promise<void> {
    this.#requests++;
    // Results of the same turn share a request.
    await Promise.resolve();
    for (let results = this.#next(); results.length > 0; results = this.#next()) {
      try {
        const outcomes = await this.#post(results);
        results.forEach(({ resolve }, index) => resolve(outcomes[index] as Outcome));
      } catch (error) {
        for (const { reject } of results) reject(error);
      }
    }
    this.#requests--;
  }

  /** Takes the results of the next request. */
  #next(): Waiting[] {
    let [length, count] = [0, 0];
    for (const { member } of this.#waiting) {
      if (count === MAX_RESULTS || length > MAX_LENGTH) break;
      length += member.length;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #post(results: Waiting[]): Promise<Outcome[]> {
    const body = `{"worker":${this.#worker},"results":[${results.map(({ member }) => member).join(",")}]}`;
    const headers = { "content-type": "application/json" };
    const answer = await this.#transport.json<{ results: { outcome: Outcome }[] }>("POST", this.#path, { body, headers });
    const { results: outcomes } = answer;
    if (outcomes.length !== results.length) {
      throw new ToolpostError(`the service answered ${outcomes.length} of ${results.length} results`);
    }
    return outcomes.map(({ outcome }) => outcome);
  }
}
