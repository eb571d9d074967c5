// Pipes a model's stream into Toolpost and prints the cards as they fill: npx --yes tsx@4 stream_cards.ts [http://127.0.0.1:8080]
//
// The stream is Anthropic's, from a script, and is sent in chunks of any size. A card opens with the name of its tool, its
// parameters fill in while the model writes them, and each call starts when its own block is complete. No dependencies.

const service = process.argv[2] ?? "http://127.0.0.1:8080";

const forecast = {
  name: "forecast",
  description: "The weather of the next days.",
  input_schema: {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "integer" }, note: { type: "string" } },
    required: ["city", "days"],
  },
  annotations: { read_only: true },
  executor: { type: "builtin", name: "echo" },
};

/** What every event of a call has, and what some have. */
type Card = { call_id: string; name: string; status?: string; params?: object; output?: string; messages?: object[] };

/** The bytes of a model's answer with two calls, a few at a time. */
async function* model(): AsyncGenerator<Uint8Array> {
  const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
  let text = event("message_start", { message: { id: "msg_1", type: "message", role: "assistant", content: [] } });
  for (const [index, city] of ["Zürich", "北京"].entries()) {
    const letters = JSON.stringify({ city, days: 3, note: "with wind and rain" });
    const block = { type: "tool_use", id: `toolu_${index}`, name: "forecast", input: {} };
    text += event("content_block_start", { index, content_block: block });
    for (let at = 0; at < letters.length; at += 8) {
      const delta = { type: "input_json_delta", partial_json: letters.slice(at, at + 8) };
      text += event("content_block_delta", { index, delta });
    }
    text += event("content_block_stop", { index });
  }
  text += event("message_delta", { delta: { stop_reason: "tool_use" } }) + event("message_stop", {});
  const stream = new TextEncoder().encode(text);
  for (let at = 0; at < stream.length; at += 50) {
    yield stream.subarray(at, at + 50);
    await new Promise((resolve) => setTimeout(resolve, 10)); // a model is slow
  }
}

/** The response. A request that is refused is a problem document (RFC 9457). */
async function request(method: string, path: string, type: string, body: BodyInit): Promise<Response> {
  const headers = { "content-type": type };
  // A streamed body requires `duplex`, which the types do not declare yet.
  const init: RequestInit & { duplex: "half" } = { method, headers, body, duplex: "half" };
  const response = await fetch(service + path, init);
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}

/** The events of a text/event-stream. */
async function* events(response: Response): AsyncGenerator<[string, Card]> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    const parts = (text + decoder.decode(bytes, { stream: true })).split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const field = (name: string) => part.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];
      const data = field("data");
      if (data) yield [field("event") ?? "", JSON.parse(data) as Card];
    }
  }
}

async function main(): Promise<void> {
  await request("PUT", "/tools/forecast", "application/json", JSON.stringify(forecast));
  const iterator = model();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
  const response = await request("POST", "/tool-calls/stream?format=anthropic", "text/event-stream", body);
  for await (const [name, data] of events(response)) {
    if (name === "tool_call") console.log(`[${data.call_id}] ${data.name}`);
    else if (name === "status") console.log(`[${data.call_id}] ${data.status} ${JSON.stringify(data.params)}`);
    else if (name === "tool_result") console.log(`[${data.call_id}] => ${data.output}`);
    else if (name === "batch") console.log("for the next turn:", JSON.stringify(data.messages));
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

export {}; // makes this file a module with its own names
