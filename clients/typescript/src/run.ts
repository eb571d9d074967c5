import { validated } from "./schema.js";
import type { Tool } from "./tool.js";
import type { Agent, JsonObject, ProgressReport } from "./types.js";

/** A call as an executor receives it. */
export interface Invocation {
  id: string;
  call_id: string;
  name: string;
  arguments: unknown;
  context?: Record<string, JsonObject> | null;
  agent?: Agent | null;
  session?: string | null;
  attempt?: number;
  deadline_ms?: number | null;
}

/** The second argument of a tool's function: what it knows about its call, and how it reports. */
export interface ToolRun {
  /** The id of the service. It is the same for every attempt. */
  readonly id: string;
  /** The id of the caller, as the model assigned it. */
  readonly callId: string;
  readonly name: string;
  readonly attempt: number;
  readonly session: string | undefined;
  readonly agent: Agent | undefined;
  /** The context objects that the definition names. */
  readonly context: Record<string, any>;
  /** Aborted if the call is cancelled, its time is up or the program stops. Pass it to `fetch`. */
  readonly signal: AbortSignal;
  /** Reports how far the work is. */
  progress(current: number, total?: number, message?: string): Promise<void>;
  /** Reports anything else: a `tip` for people, `content`, `details`, `params`, `metadata`. */
  report(report: ProgressReport): Promise<void>;
}

/** The result of a run as JSON, or `undefined` if the tool returned nothing. */
export type ResultBody = string | undefined;

/** Runs a call. Never rejects: an exception becomes a failed call, without its stack trace. */
export async function invoke(
  tool: Tool,
  call: Invocation,
  signal: AbortSignal,
  report: (report: ProgressReport) => Promise<void>,
): Promise<ResultBody> {
  const run: ToolRun = {
    id: call.id,
    callId: call.call_id,
    name: call.name,
    attempt: call.attempt ?? 1,
    session: call.session ?? undefined,
    agent: call.agent ?? undefined,
    context: call.context ?? {},
    signal,
    report,
    progress: (current, total, message) => report({ progress: { current, total, message } }),
  };
  try {
    const args = await validated(tool.input, call.arguments ?? {});
    return jsonOf(await tool.run(args, run));
  } catch (error) {
    return failureOf(error);
  }
}

/** Returns the body of a failed call. */
export function failureOf(error: unknown): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return JSON.stringify({ output: message, is_error: true });
}

function jsonOf(result: unknown): ResultBody {
  if (result === undefined) return undefined;
  const text = JSON.stringify(result) as string | undefined;
  if (text === undefined) throw new Error(`the tool returned a ${typeof result}, which is not JSON`);
  return text;
}

/** Sends reports one after another. Reports of progress that wait are replaced by newer ones. */
export class Reporter {
  readonly #send: (report: ProgressReport) => Promise<void>;
  readonly #waiting: ProgressReport[] = [];
  #sending: Promise<void> | undefined;

  constructor(send: (report: ProgressReport) => Promise<void>) {
    this.#send = send;
  }

  /** Adds a report, and returns when it was sent. Never rejects: a lost report must not end the work. */
  add(report: ProgressReport): Promise<void> {
    const last = this.#waiting.at(-1);
    if (last && isReplaceable(last) && isReplaceable(report)) Object.assign(last, report);
    else this.#waiting.push({ ...report });
    this.#sending ??= this.#drain();
    return this.#sending;
  }

  /** Returns when all reports were sent. */
  async flush(): Promise<void> {
    await this.#sending;
  }

  async #drain(): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      await this.#send(next).catch(() => {});
    }
    this.#sending = undefined;
  }
}

function isReplaceable(report: ProgressReport): boolean {
  return Object.keys(report).every((member) => member === "progress" || member === "tip");
}
