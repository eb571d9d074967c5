/** Models of all vendors: each calls the tool `weather` for Paris, and then answers with the result that it has read. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

type Body = Record<string, any>;

interface Vendor {
  path: RegExp;
  /** The result of the tool in the conversation. */
  result: (body: Body) => unknown;
  call: object;
  answer: (text: string) => object;
}

const args = { city: "Paris" };
const json = JSON.stringify(args);
const chat = (message: object, finish_reason: string) => ({
  id: finish_reason, object: "chat.completion", created: 1, model: "gpt-5", choices: [{ index: 0, finish_reason, message }],
});
const response = (output: (Body & { id: string })[]) => ({
  id: `resp_${output[0]?.id}`, object: "response", created_at: 1, model: "gpt-5", status: "completed", output,
  usage: {
    input_tokens: 1, input_tokens_details: { cached_tokens: 0 },
    output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2,
  },
});
const message = (content: object, stop_reason: string) => ({
  id: "m", type: "message", role: "assistant", model: "claude", content: [content], stop_reason,
  usage: { input_tokens: 1, output_tokens: 1 },
});
const candidate = (part: object) => ({ candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }] });

const VENDORS: Vendor[] = [
  {
    path: /\/chat\/completions$/,
    result: ({ messages }) => messages.find(({ role }: Body) => role === "tool")?.content,
    call: chat({
      role: "assistant", content: null,
      tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: json } }],
    }, "tool_calls"),
    answer: (content) => chat({ role: "assistant", content }, "stop"),
  },
  {
    path: /\/responses$/,
    result: ({ input }) => input.find(({ type }: Body) => type === "function_call_output")?.output,
    call: response([{ type: "function_call", id: "fc_1", call_id: "call_1", name: "weather", arguments: json, status: "completed" }]),
    answer: (text) => response([{
      type: "message", id: "msg_1", role: "assistant", status: "completed",
      content: [{ type: "output_text", text, annotations: [] }],
    }]),
  },
  {
    path: /\/messages$/,
    result: ({ messages }) => messages.flatMap(({ content }: Body) => content).find(({ type }: Body) => type === "tool_result")?.content,
    call: message({ type: "tool_use", id: "toolu_1", name: "weather", input: args }, "tool_use"),
    answer: (text) => message({ type: "text", text }, "end_turn"),
  },
  {
    path: /:generateContent$/,
    result: ({ contents }) => contents.flatMap(({ parts }: Body) => parts).find((part: Body) => part.functionResponse)?.functionResponse,
    call: candidate({ functionCall: { id: "fc-1", name: "weather", args } }),
    answer: (text) => candidate({ text }),
  },
];

/** Starts the models, and returns the environment variables that point the SDKs of the vendors to them. */
export async function startModels(): Promise<Record<string, string>> {
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
    const path = (incoming.url ?? "").replace(/\?.*/, "");
    const vendor = VENDORS.find((one) => one.path.test(path));
    if (!vendor || !JSON.stringify(body["tools"]).includes('"weather"')) {
      outgoing.writeHead(400).end(`unexpected request to ${path}`);
      return;
    }
    if (body["stream"]) {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      for (const chunk of chunksOfCall()) outgoing.write(`data: ${chunk}\n\n`);
      outgoing.end();
      return;
    }
    const result = vendor.result(body);
    const answer = result === undefined ? vendor.call : vendor.answer(`Answer: ${JSON.stringify(result)}`);
    outgoing.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  server.unref();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "none", OPENAI_AGENTS_DISABLE_TRACING: "1",
    ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "none",
    GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "none",
  };
}

/** The chunks of a Chat Completions stream. */
function chunksOfCall(): string[] {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
  const piece = (more: object) => ({ tool_calls: [{ index: 0, ...more }] });
  return [
    chunk(piece({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } })),
    ...[...json].map((letter) => chunk(piece({ function: { arguments: letter } }))),
    chunk({}, "tool_calls"),
    "[DONE]",
  ];
}
