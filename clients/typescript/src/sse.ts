import { ConnectionError } from "./errors.js";

/** The service sends a comment every 15 s. A connection that is silent for longer is broken. */
const SILENCE_MS = 50_000;

/** One server-sent event as it was received. */
export interface ServerSentEvent {
  id: string;
  event: string;
  data: string;
}

/** Parses a body of `text/event-stream`. A partial event at the end is dropped. */
export async function* parseEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent, void, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const fields = new EventFields();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader.read());
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A final "\r" may be the first half of "\r\n".
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const event = fields.add(line);
        if (event) yield event;
      }
    }
  } finally {
    // Also reached if the consumer stops early: the connection must not stay open.
    await reader.cancel().catch(() => {});
  }
}

/** Waits for a chunk, and fails if none arrives in time or the connection breaks. */
async function withinSilence<T>(chunk: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no data for ${SILENCE_MS} ms`)), SILENCE_MS);
  });
  try {
    return await Promise.race([chunk, silence]);
  } catch (cause) {
    throw new ConnectionError(`the event stream broke: ${(cause as Error).message}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** The fields of the event that is being received. */
class EventFields {
  #id = "";
  #event = "";
  #data: string[] = [];

  /** Adds a line, and returns the event that it ends. */
  add(line: string): ServerSentEvent | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #end(): ServerSentEvent | undefined {
    const event = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") };
    const isEvent = this.#data.length > 0;
    this.#event = "";
    this.#data = [];
    return isEvent ? event : undefined;
  }
}
