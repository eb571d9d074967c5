import { Backoff, pause } from "./backoff.js";
import { RequestError, ToolpostError } from "./errors.js";
import { ResultSender } from "./results.js";
import { failureOf, type Invocation, invoke, Reporter, type ResultBody } from "./run.js";
import { onStopSignal } from "./stop_signal.js";
import { byName, type Tool, type ToolDefinition } from "./tool.js";
import { type ConnectionOptions, isTransient, Transport } from "./transport.js";

/** Options of `serve`. */
export interface ServeOptions extends ConnectionOptions {
  /** The queue that this worker takes calls from. */
  queue: string;
  tools: readonly Tool[];
  /** The maximum number of tools that run at the same time. At most twice as many calls run or deliver their results. Default: 8. */
  concurrency?: number;
  /** The name of this worker, unique in the queue. Default: a random name. */
  worker?: string;
  /** The time after which a call of a lost worker is given to another one. Default: 30 s. */
  leaseMs?: number;
  /** How long one request for calls waits, at most 60 s. Also how long `stop` may take without calls. Default: 5 s. */
  waitMs?: number;
  /** Whether the definitions of the tools are registered. Default: `true`; needs the scope `tools`. */
  register?: boolean;
  /** How long running calls may continue after `stop`. Default: 20 s. */
  drainMs?: number;
  /** Whether SIGINT and SIGTERM stop the worker. Default: `true`, in programs that have signals. */
  stopOnSignal?: boolean;
  /** Stops the worker. */
  signal?: AbortSignal;
  /** Receives errors that the worker recovers from. Default: they are written to standard error. */
  onError?: (error: unknown) => void;
}

/** A running worker. */
export interface Worker {
  readonly worker: string;
  /** Resolves when the tools are registered and the worker takes calls. Rejects if the service refuses it. */
  readonly ready: Promise<void>;
  /** Resolves when the worker has stopped. Rejects if the service refuses it. */
  readonly finished: Promise<void>;
  /** Takes no new calls, lets the running ones end, and returns when they have ended. */
  stop(): Promise<void>;
}

/** A call that this worker has taken. */
interface TakenCall extends Invocation {
  lease_ms: number;
  token: string;
}

interface RunningCall {
  readonly abort: AbortController;
  /** Resolves when its result was delivered or is of no use anymore. */
  readonly ended: Promise<void>;
  /** Whether the call ended elsewhere, so that its result is of no use. */
  isGone: boolean;
}

/** How long a result waits whose time is up: the clock of the service may be a little behind. */
const LATE_MS = 2_000;
/** The maximum number of calls of a heartbeat. */
const MAX_HEARTBEAT = 1000;
/** How often the delivery of a result is repeated, over about two minutes. */
const DELIVERIES = 12;

/** Runs tools as a worker: takes calls from a queue, runs them and delivers their results, over outgoing requests only. */
export function serve(url: string | URL, options: ServeOptions): Worker {
  return new QueueWorker(url, options);
}

class QueueWorker implements Worker {
  readonly worker: string;
  readonly #ready: Promise<void>;
  readonly #finished: Promise<void>;
  #isWatched = false;
  readonly #options: ServeOptions;
  readonly #path: string;
  readonly #transport: Transport;
  readonly #results: ResultSender;
  readonly #tools: Map<string, Tool>;
  readonly #running = new Map<string, RunningCall>();
  readonly #stopping = new AbortController();
  #leaseMs: number;
  #runningTools = 0;
  /** Called when a tool or a call has ended, and when the worker stops. */
  #onEnd = () => {};

  constructor(url: string | URL, options: ServeOptions) {
    this.#options = options;
    this.#tools = byName(options.tools);
    this.#leaseMs = options.leaseMs ?? 30_000;
    this.#path = `/workers/${encodeURIComponent(options.queue)}`;
    // The loops of the worker repeat requests themselves, for as long as it runs.
    this.#transport = new Transport(url, { ...options, maxRetries: 0 });
    this.worker = options.worker ?? `ts-${crypto.randomUUID()}`;
    this.#results = new ResultSender(this.#transport, this.#path, this.worker);
    const { concurrency = 8 } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new TypeError(`concurrency: ${concurrency} is not an integer of 1 or more`);
    }
    this.#stopping.signal.addEventListener("abort", () => this.#onEnd());
    let isReady = () => {};
    const started = new Promise<void>((resolve) => (isReady = resolve));
    this.#finished = this.#run(() => isReady());
    this.#ready = Promise.race([started, this.#finished]);
    this.#ready.catch(() => {});
    this.#finished.catch((error) => {
      // A program that looks at neither promise must not end as if all were well: the error is an unhandled rejection.
      if (!this.#isWatched) throw error;
    });
  }

  get ready(): Promise<void> {
    this.#isWatched = true;
    return this.#ready;
  }

  get finished(): Promise<void> {
    this.#isWatched = true;
    return this.#finished;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.finished.catch(() => {});
  }

  async #run(isReady: () => void): Promise<void> {
    const { signal, stopOnSignal = true } = this.#options;
    const stop = () => this.#stopping.abort();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop);
    const forgetSignals = stopOnSignal ? onStopSignal(stop) : () => {};
    const beating = new AbortController();
    const heartbeats = this.#sendHeartbeats(beating.signal);
    try {
      await this.#takeCalls(isReady);
    } finally {
      await this.#drain();
      beating.abort();
      await heartbeats;
      signal?.removeEventListener("abort", stop);
      forgetSignals();
    }
  }

  /** Takes calls until the worker stops. Registers the tools before, and again after a lost connection. */
  async #takeCalls(isReady: () => void): Promise<void> {
    const backoff = new Backoff(250, 15_000);
    let isRegistered = false;
    while (!this.#stopping.signal.aborted) {
      try {
        if (!isRegistered) await this.#register();
        isRegistered = true;
        isReady();
        const calls = await this.#claim();
        for (const call of calls) this.#start(call);
        backoff.reset();
      } catch (error) {
        if (!isRecoverable(error)) throw error;
        this.#report(error);
        // The service may have been replaced while it could not be reached.
        isRegistered = false;
        await pause(backoff.next((error as RequestError).retryAfterMs), this.#stopping.signal);
      }
    }
  }

  async #register(): Promise<void> {
    if (this.#options.register === false) return;
    const executor = { type: "worker", queue: this.#options.queue, lease_ms: this.#leaseMs };
    const tools = [...this.#tools.values()].map((tool): ToolDefinition => ({ ...tool.definition, executor }));
    await this.#transport.json("PUT", `${this.#path}/tools`, { json: { worker: this.worker, tools } });
  }

  /** Asks for calls. The request is not aborted by `stop`: its answer may have calls, which would be lost. */
  async #claim(): Promise<TakenCall[]> {
    const { waitMs = 5_000 } = this.#options;
    const { signal } = this.#stopping;
    while (this.#free() <= 0 && !signal.aborted) await new Promise<void>((resolve) => (this.#onEnd = resolve));
    if (signal.aborted) return [];
    const json = { worker: this.worker, max: Math.min(this.#free(), 64), wait_ms: waitMs };
    return (await this.#transport.json<{ calls: TakenCall[] }>("POST", `${this.#path}/claim`, { json })).calls;
  }

  /** Returns how many calls may start. At most twice as many as `concurrency` run or deliver their results. */
  #free(): number {
    const { concurrency = 8 } = this.#options;
    return Math.min(concurrency - this.#runningTools, 2 * concurrency - this.#running.size);
  }

  #start(call: TakenCall): void {
    this.#leaseMs = Math.min(this.#leaseMs, call.lease_ms || this.#leaseMs);
    const abort = new AbortController();
    let hasEnded = () => {};
    const ended = new Promise<void>((resolve) => (hasEnded = resolve));
    const running: RunningCall = { abort, ended, isGone: false };
    this.#running.set(call.id, running);
    this.#runningTools++;
    void this.#handle(call, running).catch((error) => this.#report(error)).finally(() => {
      // A call that was lost may have been taken again in the meantime.
      if (this.#running.get(call.id) === running) this.#running.delete(call.id);
      hasEnded();
      this.#onEnd();
    });
  }

  async #handle(call: TakenCall, running: RunningCall): Promise<void> {
    const headers = { authorization: `Bearer ${call.token}` };
    const path = `/tool-calls/${encodeURIComponent(call.id)}`;
    const reporter = new Reporter(async (report) => {
      if (!running.isGone) await this.#transport.json("POST", `${path}/progress`, { json: report, headers });
    });
    const { signal } = running.abort;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isLate = false;
    const timeIsUp = () => {
      isLate = true;
      running.abort.abort(new Error("the time of the call is up"));
    };
    if (call.deadline_ms) timer = setTimeout(timeIsUp, call.deadline_ms);
    const tool = this.#tools.get(call.name);
    const body = tool
      ? await invoke(tool, call, signal, (report) => reporter.add(report))
      : failureOf(`the worker ${this.worker} has no tool "${call.name}"`);
    clearTimeout(timer);
    this.#runningTools--;
    this.#onEnd();
    await reporter.flush();
    // The service ends the call, so that it ends as a timeout. This result counts only if it does not.
    if (isLate) await pause(LATE_MS, this.#stopping.signal);
    await this.#deliver(call, body, running);
  }

  /** Delivers a result. The heartbeats keep the call until this returns. */
  async #deliver({ id, token }: TakenCall, body: ResultBody, running: RunningCall): Promise<void> {
    const backoff = new Backoff(250, 15_000);
    for (let attempt = 1; !running.isGone; attempt++) {
      try {
        return await this.#results.send(id, token, body);
      } catch (error) {
        if (!isTransient(error) || attempt === DELIVERIES) throw error;
        await pause(backoff.next((error as RequestError).retryAfterMs));
      }
    }
  }

  /** Renews the leases of the running calls, and ends cancelled and lost ones. */
  async #sendHeartbeats(end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      await pause(this.#leaseMs / 3, end);
      const calls = [...this.#running.keys()];
      for (let start = 0; start < calls.length && !end.aborted; start += MAX_HEARTBEAT) {
        await this.#renew(calls.slice(start, start + MAX_HEARTBEAT));
      }
    }
  }

  async #renew(calls: string[]): Promise<void> {
    const json = { worker: this.worker, calls };
    try {
      // A heartbeat that takes longer than a lease is of no use.
      const signal = AbortSignal.timeout(this.#leaseMs);
      const answer = await this.#transport.json<Heartbeat>("POST", `${this.#path}/heartbeat`, { json, signal });
      this.#end(answer.cancelled, "the call was cancelled");
      this.#end(answer.lost, "the call was given to another worker");
    } catch (error) {
      this.#report(error);
    }
  }

  #end(ids: string[], reason: string): void {
    for (const id of ids) {
      const call = this.#running.get(id);
      if (!call) continue;
      call.isGone = true;
      call.abort.abort(new Error(reason));
    }
  }

  /** Waits for the running calls, and aborts the slow ones. */
  async #drain(): Promise<void> {
    const all = () => Promise.all([...this.#running.values()].map((call) => call.ended));
    const patience = new AbortController();
    const ended = all().finally(() => patience.abort());
    await Promise.race([ended, pause(this.#options.drainMs ?? 20_000, patience.signal)]);
    for (const { abort } of this.#running.values()) abort.abort(new Error("the worker is shutting down"));
    // A tool that ignores its signal must not keep the worker.
    await Promise.race([ended, pause(2_000, patience.signal)]);
  }

  #report(error: unknown): void {
    const { onError } = this.#options;
    if (onError) onError(error);
    else console.error(`toolpost worker ${this.worker}:`, error instanceof ToolpostError ? error.message : error);
  }
}

interface Heartbeat {
  cancelled: string[];
  lost: string[];
}

/** Returns whether the worker should try again: the service or a gateway cannot be reached, or failed. */
function isRecoverable(error: unknown): boolean {
  return isTransient(error) || (error instanceof RequestError && error.status >= 500);
}
