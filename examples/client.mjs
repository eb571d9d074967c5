// Registers a tool, calls it and watches a call, without dependencies (Node 20): client.mjs [http://127.0.0.1:8080]
const service = process.argv[2] ?? "http://127.0.0.1:8080";

/** The response. A request that is refused is a problem document (RFC 9457). */
async function request(method, path, body, accept = "application/json") {
  const headers = { "content-type": "application/json", accept };
  const response = await fetch(service + path, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}

/** The events of a text/event-stream. */
async function* events(response) {
  let text = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").map((line) => line.match(/^(\w+): ?(.*)$/)).filter(Boolean);
      const event = Object.fromEntries(lines.map(([, field, value]) => [field, value]));
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}

await request("PUT", "/tools/shout", {
  name: "shout",
  description: "Answers with its arguments.",
  input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  executor: { type: "builtin", name: "echo" },
});
const { tools } = await (await request("GET", "/tools")).json();
console.log("tools:", tools.map((tool) => tool.name).join(", "));

for (const args of [{ text: "hello" }, { txt: "hello" }]) {
  const call = await (await request("POST", "/tool-calls", { name: "shout", arguments: args })).json();
  console.log(call.status, call.output); // an ERROR is also an answer for the model
}

const wait = { name: "wait", arguments: { ms: 600, steps: 3 } };
for await (const { id, event, data } of events(await request("POST", "/tool-calls", wait, "text/event-stream"))) {
  console.log(id ?? "", event, data.status ?? "", data.progress ?? data.output ?? "");
}
