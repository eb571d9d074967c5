/** What the adapters share: the tools of the service, and the run of a call on behalf of a framework. */
import type { Toolpost, ToolsOptions } from "../client.js";
import { NotFoundError } from "../errors.js";
import type { Agent, ContentBlock, JsonObject, ListedTool, ToolCall, ToolpostEvent } from "../types.js";

/** Options of the adapters. */
export interface AdapterOptions extends ToolsOptions {
  /** The names of the tools to offer. Default: all that the client sees. */
  tools?: string[];
  /** Context objects by name, for tools that request them. */
  context?: Record<string, JsonObject>;
  agent?: Agent;
  /**
   * Decides about calls of tools with `approval.required`: the framework asks its user first, and this client approves
   * the call in the service. Its key needs the scope `approve`, and must not be the key that makes the calls. Without an
   * approver, such a call waits until it is decided in the service, for example in the console.
   */
  approver?: Toolpost;
  /** Receives every event of the calls: their states, progress and results. */
  onEvent?: (event: ToolpostEvent) => void;
}

/** A tool as a framework is offered it. */
export interface OfferedTool {
  /** The name for the model: an alias, if vendors would refuse the name of the tool. */
  readonly name: string;
  readonly description: string;
  /** The schema of the arguments that the model supplies, without presets. */
  readonly schema: JsonObject;
  readonly definition: ListedTool;
  /** Whether the framework must ask its user before a call. */
  readonly needsApproval: boolean;
}

/** The part of a call that is known at one time. */
export type CallState = Pick<ToolCall, "id" | "status" | "phase" | "tip" | "progress">;

interface OpenAiTool {
  function: { name: string; description?: string; parameters: JsonObject };
}

/** Lists the tools that a framework is offered. A session that does not exist yet is created by its first call. */
export async function offeredTools(client: Toolpost, options: AdapterOptions): Promise<OfferedTool[]> {
  try {
    return await listedTools(client, options);
  } catch (error) {
    if (!(error instanceof NotFoundError) || options.session === undefined) throw error;
    return listedTools(client, { ...options, session: undefined });
  }
}

async function listedTools(client: Toolpost, options: AdapterOptions): Promise<OfferedTool[]> {
  for (let attempt = 1; ; attempt++) {
    const [definitions, vendor] = await Promise.all([
      client.tools("native", options),
      client.tools("openai", options) as Promise<OpenAiTool[]>,
    ]);
    // Both lists have the same order. A tool may have been registered between the two requests.
    const isConsistent = definitions.length === vendor.length &&
      definitions.every(({ name }, index) => isPlain(name) ? name === vendor[index]?.function.name : true);
    if (!isConsistent && attempt < 5) continue;
    const tools = definitions.map((definition, index) => offered(definition, vendor[index]!, options));
    return tools.filter(({ definition }) => options.tools?.includes(definition.name) ?? true);
  }
}

function offered(definition: ListedTool, { function: vendor }: OpenAiTool, options: AdapterOptions): OfferedTool {
  return {
    name: vendor.name,
    description: vendor.description ?? "",
    schema: vendor.parameters,
    definition,
    needsApproval: options.approver !== undefined && definition.approval?.required === true,
  };
}

function isPlain(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

/** A call of a framework. */
export interface FrameworkCall {
  tool: OfferedTool;
  args: unknown;
  /** The id that the model assigned. */
  id?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Runs a call, yields its states and returns its end. An abort by the framework cancels the call. */
export async function* runCall(
  client: Toolpost,
  options: AdapterOptions,
  { tool, args, id, signal }: FrameworkCall,
): AsyncGenerator<CallState, ToolCall, void> {
  const { session, context, agent, approver, onEvent } = options;
  const item = { name: tool.definition.name, arguments: args, id };
  const wait = "result" as const;
  let own: string | undefined;
  let isApproved = false;
  try {
    for await (const event of client.stream(item, { session, context, agent, wait, signal })) {
      onEvent?.(event);
      if (event.type === "tool_call") own = event.data.id;
      if (event.type === "batch") return event.data.results[0]!;
      if (event.type !== "status") continue;
      const { approval } = event.data;
      if (approver && tool.needsApproval && !isApproved && approval?.status === "pending" && approval.required_by === "tool") {
        // The framework runs the tool only after its user has approved the call.
        isApproved = true;
        await approver.approvals.approve({ id: event.data.id, digest: approval.digest });
      }
      yield event.data;
    }
  } catch (error) {
    // The service must not continue, or wait for a decision about, what the framework has given up.
    if (own) await client.cancel(own).catch(() => {});
    throw error;
  }
  throw new Error(`the call of "${tool.name}" ended without a result`);
}

/** Runs a call to its end. */
export async function finishCall(client: Toolpost, options: AdapterOptions, call: FrameworkCall): Promise<ToolCall> {
  const running = runCall(client, options, call);
  for (;;) {
    const step = await running.next();
    if (step.done) return step.value;
  }
}

/** Returns whether a block is an image. */
export function isImage(block: ContentBlock): block is { type: "image"; data: string; mime_type: string } {
  return block.type === "image" && typeof (block as JsonObject)["data"] === "string";
}

/** Returns whether a block is a text. */
export function isText(block: ContentBlock): block is { type: "text"; text: string } {
  return block.type === "text";
}
