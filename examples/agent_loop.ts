// An agent loop, without dependencies: npx --yes tsx@4 agent_loop.ts [http://127.0.0.1:8080]
//
// The model's message is sent to Toolpost unchanged, and the returned `messages` are appended to the conversation
// unchanged. The model is a script. Its first call has wrong arguments; it reads the error and corrects them: once with
// OpenAI's Chat Completions, and once with Anthropic's Messages.

const service = process.argv[2] ?? "http://127.0.0.1:8080";

const forecast = {
  name: "forecast",
  description: "The weather of the next days.",
  input_schema: {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
    required: ["city", "days"],
    additionalProperties: false,
  },
  annotations: { read_only: true },
  executor: { type: "builtin", name: "echo" },
};
const attempts: object[] = [{ town: "Zürich", days: "many" }, { city: "Zürich", days: 3 }];

type Block =
  | { type: "text"; text: string }
  | { type: "tool_use"; id: string; name: string; input: object }
  | { type: "tool_result"; tool_use_id: string; content: unknown; is_error?: boolean };
type Message = {
  role: "user" | "assistant" | "tool";
  content: string | Block[] | null;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
};
type Tool = { name?: string; function?: { name: string } };
type Batch = { results: { status: string; output: string }[]; messages: Message[] };

/** The answer. A request that is refused is a problem document (RFC 9457). */
async function request<T>(method: string, path: string, body?: object): Promise<T> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(service + path, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

const blocks = (message: Message): Block[] => (Array.isArray(message.content) ? message.content : []);

/** In place of POST /v1/chat/completions: the assistant's message. */
function openaiModel(conversation: Message[], _tools: Tool[]): Message {
  const results = conversation.filter((message) => message.role === "tool").map((message) => String(message.content));
  const last = results.at(-1);
  if (last && !last.startsWith("Error")) return { role: "assistant", content: `The forecast is: ${last}` };
  const call = { name: "forecast", arguments: JSON.stringify(attempts[results.length]) };
  const tool_calls = [{ id: `call_${results.length}`, type: "function" as const, function: call }];
  return { role: "assistant", content: null, tool_calls };
}

/** In place of POST /v1/messages: the assistant's message. */
function anthropicModel(conversation: Message[], _tools: Tool[]): Message {
  const results = conversation.flatMap(blocks).filter((block) => block.type === "tool_result");
  const last = results.at(-1);
  if (last?.type === "tool_result" && !last.is_error) {
    return { role: "assistant", content: [{ type: "text", text: `The forecast is: ${JSON.stringify(last.content)}` }] };
  }
  const id = `toolu_${results.length}`;
  return { role: "assistant", content: [{ type: "tool_use", id, name: "forecast", input: attempts[results.length] }] };
}

/** Whether the model waits for results. */
function wantsTools(message: Message): boolean {
  return Boolean(message.tool_calls?.length) || blocks(message).some((block) => block.type === "tool_use");
}

/** The loop, which is the same for every vendor. */
async function run(vendor: string, model: (conversation: Message[], tools: Tool[]) => Message): Promise<void> {
  console.log(vendor);
  const all = (await request<{ tools: Tool[] }>("GET", `/tools?format=${vendor}`)).tools;
  const tools = all.filter((tool) => (tool.name ?? tool.function?.name) === "forecast");
  const conversation: Message[] = [{ role: "user", content: "How will the weather be in Zürich?" }];
  let said = model(conversation, tools);
  conversation.push(said);
  while (wantsTools(said)) {
    const answer = await request<Batch>("POST", "/tool-calls", said);
    for (const call of answer.results) console.log(" ", call.status, call.output.split("\n")[0]);
    conversation.push(...answer.messages);
    said = model(conversation, tools);
    conversation.push(said);
  }
  const [block] = blocks(said);
  console.log(" ", block?.type === "text" ? block.text : said.content);
}

async function main(): Promise<void> {
  await request("PUT", "/tools/forecast", forecast);
  await run("openai", openaiModel);
  await run("anthropic", anthropicModel);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

export {}; // makes this file a module with its own names
