/** Toolpost's tools as structured tools of LangChain. */
import { dispatchCustomEvent } from "@langchain/core/callbacks/dispatch/web";
import { ToolMessage } from "@langchain/core/messages";
import { DynamicStructuredTool } from "@langchain/core/tools";
import type { Toolpost } from "../client.js";
import type { ToolCall } from "../types.js";
import { type AdapterOptions, isImage, isText, type OfferedTool, offeredTools, runCall } from "./offered.js";

export type { AdapterOptions } from "./offered.js";

/** The decisions that a person can make about a call. */
const DECISIONS: ("approve" | "edit" | "reject")[] = ["approve", "edit", "reject"];

/** What agents of LangChain receive. */
export interface LangChainTools {
  /** The tools, whose messages have the `ToolCall` as artifact. */
  tools: DynamicStructuredTool[];
  /** The option of `humanInTheLoopMiddleware`, for the calls that need approval. */
  interruptOn: Record<string, { allowedDecisions: ("approve" | "edit" | "reject")[] }>;
}

/** Returns the tools of the service. Progress arrives as custom events `toolpost` and, in LangGraph, in its `custom` stream. */
export async function toolpostTools(client: Toolpost, options: AdapterOptions = {}): Promise<LangChainTools> {
  const offered = await offeredTools(client, options);
  const asked = offered.filter((tool) => tool.needsApproval);
  return {
    tools: offered.map((tool) => structuredTool(client, options, tool)),
    interruptOn: Object.fromEntries(asked.map((tool) => [tool.name, { allowedDecisions: DECISIONS }])),
  };
}

function structuredTool(client: Toolpost, options: AdapterOptions, tool: OfferedTool): DynamicStructuredTool {
  return new DynamicStructuredTool({
    name: tool.name,
    description: tool.description,
    schema: tool.schema,
    func: async (args: unknown, _manager, config: Config = {}) => {
      const running = runCall(client, options, { tool, args, id: config.toolCall?.id, signal: config.signal });
      for (;;) {
        const step = await running.next();
        if (step.done) return messageOf(step.value, tool.name, config.toolCall?.id);
        config.writer?.(step.value);
        // Without callbacks, the event has no receiver and cannot be sent.
        if (config.callbacks) await dispatchCustomEvent("toolpost", step.value, config as object);
      }
    },
  }) as DynamicStructuredTool;
}

/** The configuration of a run, with what LangGraph adds to it. */
interface Config {
  toolCall?: { id?: string };
  signal?: AbortSignal;
  callbacks?: unknown;
  writer?: (chunk: unknown) => void;
}

/** Returns the message of a call that a model has made, or the output of any other call. */
function messageOf(call: ToolCall, name: string, id: string | undefined): unknown {
  const content = call.content.some(isImage) ? call.content.flatMap(partOf) : (call.output ?? "");
  if (id === undefined) return content;
  const status = call.is_error ? "error" : "success";
  return new ToolMessage({ content, name, status, artifact: call, tool_call_id: id });
}

function partOf(block: ToolCall["content"][number]): { type: string }[] {
  if (isText(block)) return [{ type: "text", text: block.text } as { type: string }];
  if (!isImage(block)) return [];
  const url = `data:${block.mime_type};base64,${block.data}`;
  return [{ type: "image_url", image_url: { url } } as { type: string }];
}
