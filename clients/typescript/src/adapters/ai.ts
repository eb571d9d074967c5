/** Toolpost's tools as tools of the Vercel AI SDK 7. */
import { dynamicTool, jsonSchema, type JSONSchema7, type ToolSet } from "ai";
import type { Toolpost } from "../client.js";
import type { ToolCall } from "../types.js";
import { type AdapterOptions, type CallState, isImage, isText, type OfferedTool, offeredTools, runCall } from "./offered.js";

export type { AdapterOptions } from "./offered.js";

/** What `generateText`, `streamText` and agents receive: spread it into their options. */
export interface AiTools {
  tools: ToolSet;
  /** Makes the SDK ask its user before the calls that need approval. */
  toolApproval: Record<string, "user-approval">;
}

/** The output of a tool: first its states, then the whole call. The model receives the text and images of the latter. */
export type AiOutput = CallState | ToolCall;

/** Returns the tools of the service. Progress arrives as preliminary tool results. */
export async function toolpostTools(client: Toolpost, options: AdapterOptions = {}): Promise<AiTools> {
  const offered = await offeredTools(client, options);
  const asked = offered.filter((tool) => tool.needsApproval);
  return {
    tools: Object.fromEntries(offered.map((tool) => [tool.name, aiTool(client, options, tool)])),
    toolApproval: Object.fromEntries(asked.map((tool) => [tool.name, "user-approval" as const])),
  };
}

function aiTool(client: Toolpost, options: AdapterOptions, tool: OfferedTool): ToolSet[string] {
  return dynamicTool({
    description: tool.description,
    inputSchema: jsonSchema(tool.schema as JSONSchema7),
    async *execute(args, { toolCallId, abortSignal }): AsyncGenerator<AiOutput, void, void> {
      const running = runCall(client, options, { tool, args, id: toolCallId, signal: abortSignal });
      for (;;) {
        const step = await running.next();
        yield step.value;
        if (step.done) return;
      }
    },
    toModelOutput: ({ output }) => modelOutput(output as ToolCall),
  });
}

function modelOutput({ content, output, is_error }: ToolCall): ModelOutput {
  if (is_error) return { type: "error-text", value: output ?? "" };
  if (!content.some(isImage)) return { type: "text", value: output ?? "" };
  const parts = content.flatMap((block): ContentPart[] => {
    if (isText(block)) return [{ type: "text", text: block.text }];
    if (!isImage(block)) return [];
    return [{ type: "file", mediaType: block.mime_type, data: { type: "data", data: block.data } }];
  });
  return { type: "content", value: parts };
}

type ModelOutput = Awaited<ReturnType<NonNullable<ToolSet[string]["toModelOutput"]>>>;
type ContentPart = Extract<ModelOutput, { type: "content" }>["value"][number];
