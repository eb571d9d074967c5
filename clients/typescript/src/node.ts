/** Serves a fetch handler with Node's HTTP server. Deno, Bun and workers serve it themselves. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Readable } from "node:stream";

/** A fetch handler, as `httpApp` returns it. */
export type Handler = (request: Request) => Promise<Response> | Response;

/** A running server. */
export interface Listener {
  /** The URL with the port that was picked. */
  readonly url: string;
  /** Stops accepting requests, and returns when the running ones have ended. */
  close(): Promise<void>;
}

/** Listens on a port; 0 picks a free one. */
export async function listen(handler: Handler, port = 0, hostname = "127.0.0.1"): Promise<Listener> {
  const server = createServer((incoming, outgoing) => {
    respond(handler, incoming, outgoing).catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  const address = server.address();
  const picked = typeof address === "object" && address ? address.port : port;
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  return { url: `http://${host}:${picked}`, close: () => closed(server) };
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
}

async function respond(handler: Handler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const abort = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) abort.abort(new Error("the client has disconnected"));
  });
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one);
  }
  const method = incoming.method ?? "GET";
  const init: RequestInit & { duplex?: "half" } = { method, headers, signal: abort.signal };
  if (method !== "GET" && method !== "HEAD") {
    init.body = Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
    init.duplex = "half";
  }
  const response = await handler(new Request(new URL(incoming.url ?? "/", "http://localhost"), init));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  const reader = response.body?.getReader();
  abort.signal.addEventListener("abort", () => void reader?.cancel().catch(() => {}));
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) outgoing.write(part.value);
  outgoing.end();
}
