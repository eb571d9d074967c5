/** A gateway in front of a service that loses answers and cuts streams where a test says so. */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What happens to a request. */
export type Fault =
  /** The request is forwarded, and its answer is lost. */
  | { kind: "lose" }
  /** The request is answered by the gateway. */
  | { kind: "answer"; status: number; headers?: Record<string, string> }
  /** The connection breaks after this many blank lines, which end events. */
  | { kind: "cut"; events: number };

/** A request as the gateway has seen it. */
export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
}

export class Proxy {
  readonly url: string;
  /** Faults of the next requests. Then requests are passed on. */
  readonly faults: Fault[] = [];
  readonly seen: Seen[] = [];
  /** Chooses the fault of a request, if `faults` is empty. */
  faultOf: (seen: Seen) => Fault | undefined = () => undefined;
  #waiting: (() => void)[] = [];

  private constructor(url: string) {
    this.url = url;
  }

  static async before(target: string): Promise<Proxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    server.unref();
    const proxy = new Proxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on("request", (incoming, outgoing) => proxy.#pass(target, incoming, outgoing));
    return proxy;
  }

  /** Returns after the next request. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #pass(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method = "GET", url: path = "/", headers } = incoming;
    const seen = { method, path, headers };
    this.seen.push(seen);
    for (const resolve of this.#waiting.splice(0)) resolve();
    const fault = this.faults.shift() ?? this.faultOf(seen);
    if (fault?.kind === "answer") {
      outgoing.writeHead(fault.status, fault.headers).end();
      return;
    }
    const forwarded = request(target + path, { method, headers }, (answer) => {
      if (fault?.kind === "lose") {
        answer.resume().on("end", () => outgoing.destroy());
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      if (fault?.kind === "cut") cutAfter(fault.events, answer, outgoing);
      else answer.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  }
}

function cutAfter(events: number, answer: IncomingMessage, outgoing: ServerResponse): void {
  let left = events;
  answer.on("data", (data: Buffer) => {
    const parts = data.toString().split(/(?<=\n\n)/);
    const passed = parts.slice(0, left + 1);
    // The connection breaks within the next event.
    left -= passed.filter((part) => part.endsWith("\n\n")).length;
    const isCut = passed.length > 0 && left < 0;
    outgoing.write(isCut ? passed.join("").slice(0, -20) : passed.join(""), () => isCut && outgoing.destroy());
  });
}
