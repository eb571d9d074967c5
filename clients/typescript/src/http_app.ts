import { type Invocation, invoke, Reporter, type ResultBody } from "./run.js";
import { isSigned } from "./signature.js";
import { byName, type Tool, type ToolDefinition } from "./tool.js";
import type { ProgressReport } from "./types.js";

/** Options of `httpApp`. */
export interface HttpAppOptions {
  tools: readonly Tool[];
  /** The signing secret of the service, `whsec_…`. `toolpost keys signing-secret` prints it. */
  signingSecret?: string;
  /** Accepts requests without a signature: only where no other program can reach this one. */
  allowUnsigned?: boolean;
}

/** A fetch handler: for `Deno.serve`, `Bun.serve`, workers, and for Node with `listen` of `toolpost/node`. */
export interface HttpApp {
  (request: Request): Promise<Response>;
  /** Returns the definitions of the tools, whose `http` executors send their calls to this URL. */
  definitions(url: string | URL): ToolDefinition[];
}

/** Serves tools to the `http` executor of the service. */
export function httpApp(options: HttpAppOptions): HttpApp {
  const tools = byName(options.tools);
  const { signingSecret, allowUnsigned = false } = options;
  if (!signingSecret && !allowUnsigned) {
    throw new TypeError(
      "signingSecret: required, because anyone who reaches the URL could run the tools; " +
        "`toolpost keys signing-secret` prints it, and `allowUnsigned: true` does without",
    );
  }
  const handle = async (request: Request): Promise<Response> => {
    if (request.method !== "POST") return refusal(405, "use POST", { allow: "POST" });
    const body = new Uint8Array(await request.arrayBuffer());
    if (signingSecret && !(await isSigned(signingSecret, request.headers, body))) {
      return refusal(401, "the signature is missing, too old or not of this secret");
    }
    let call: Invocation;
    try {
      call = JSON.parse(new TextDecoder().decode(body)) as Invocation;
    } catch {
      return refusal(400, "the body is not JSON");
    }
    const tool = tools.get(call?.name);
    if (!tool) return refusal(404, `this program has no tool "${call?.name}"`);
    return answer(tool, call, request.signal);
  };
  const definitions = (url: string | URL): ToolDefinition[] =>
    [...tools.values()].map((tool) => ({ ...tool.definition, executor: { type: "http", url: String(url) } }));
  return Object.assign(handle, { definitions });
}

/** Answers with the result, or, from the first report of the tool on, with a stream of its reports and the result. */
async function answer(tool: Tool, call: Invocation, disconnected: AbortSignal): Promise<Response> {
  const abort = new AbortController();
  const stop = () => abort.abort(new Error("the service has closed the connection"));
  if (disconnected.aborted) stop();
  disconnected.addEventListener("abort", stop);
  const stream = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 64 });
  const writer = stream.writable.getWriter();
  const send = (event: string, data: string) => writer.write(new TextEncoder().encode(`event: ${event}\ndata: ${data}\n\n`));
  let first = () => {};
  const reported = new Promise<"reported">((resolve) => (first = () => resolve("reported")));
  const reporter = new Reporter((report: ProgressReport) => send("progress", JSON.stringify(report)));
  const running = invoke(tool, call, abort.signal, (report) => {
    first();
    return reporter.add(report);
  });
  const result = await Promise.race([reported, running.then((body) => ({ body }))]);
  if (result !== "reported") {
    disconnected.removeEventListener("abort", stop);
    return resultOf(result.body);
  }
  // The reader closes the stream if the service does, which ends the run.
  writer.closed.catch(stop);
  void running.then(async (body) => {
    await reporter.flush();
    await send("result", body ?? "");
    await writer.close();
  }).catch(() => {});
  return new Response(stream.readable, { headers: { "content-type": "text/event-stream", "cache-control": "no-store" } });
}

function resultOf(body: ResultBody): Response {
  if (body === undefined) return new Response(null, { status: 204 });
  return new Response(body, { headers: { "content-type": "application/json" } });
}

function refusal(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
