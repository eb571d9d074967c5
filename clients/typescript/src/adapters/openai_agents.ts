/** Toolpost's tools as function tools of the OpenAI Agents SDK. */
import { type FunctionTool, tool as functionTool } from "@openai/agents";
import type { Toolpost } from "../client.js";
import type { ToolCall } from "../types.js";
import { type AdapterOptions, finishCall, isImage, isText, type OfferedTool, offeredTools } from "./offered.js";

export type { AdapterOptions } from "./offered.js";

type Parameters = Extract<FunctionTool["parameters"], { type: "object" }>;

/**
 * Returns the tools of the service. A tool with approval has `needsApproval`, with an approver: the run is then
 * interrupted until its state approves the call. Agents receive no progress from tools; `onEvent` does.
 */
export async function toolpostTools(client: Toolpost, options: AdapterOptions = {}): Promise<FunctionTool<any, any, any>[]> {
  const offered = await offeredTools(client, options);
  return offered.map((tool) => agentTool(client, options, tool));
}

function agentTool(client: Toolpost, options: AdapterOptions, tool: OfferedTool): FunctionTool<any, any, any> {
  return functionTool({
    name: tool.name,
    description: tool.description,
    parameters: { properties: {}, required: [], additionalProperties: true, ...tool.schema } as unknown as Parameters & {
      additionalProperties: true;
    },
    // The service validates and coerces the arguments, and its message tells the model what is wrong.
    strict: false,
    needsApproval: tool.needsApproval,
    // A request that the service rejects is an error of the program, not of the model.
    errorFunction: null,
    execute: async (args, _context, details) => {
      const id = details?.toolCall?.callId;
      return outputOf(await finishCall(client, options, { tool, args, id, signal: details?.signal }));
    },
  });
}

/** Returns the text, or the parts if the result has images. */
function outputOf({ content, output }: ToolCall): unknown {
  if (!content.some(isImage)) return output ?? "";
  return content.flatMap((block): object[] => {
    if (isText(block)) return [{ type: "text", text: block.text }];
    if (!isImage(block)) return [];
    return [{ type: "image", image: { data: block.data, mediaType: block.mime_type } }];
  });
}
