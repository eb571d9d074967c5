import { type Arguments, jsonSchemaOf, type Schema } from "./schema.js";
import type { Annotations, ApprovalSpec, JsonObject, LimitsSpec, RetrySpec } from "./types.js";
import type { ToolRun } from "./run.js";

/** The members of a definition that are passed on as they are. Their names are those of the API reference. */
export interface ToolOptions {
  /** Display name for people. */
  title?: string;
  category?: string;
  tags?: string[];
  version?: string;
  examples?: { arguments: JsonObject; output?: unknown }[];
  annotations?: Annotations;
  groups?: string[];
  /** Whether calls are queued and the caller does not wait. */
  async?: boolean;
  concurrency_safe?: boolean;
  limits?: LimitsSpec;
  retry?: Partial<RetrySpec>;
  cache?: { ttl_ms: number; scope?: "session" | "global" };
  coerce?: boolean;
  presets?: JsonObject;
  /** The context objects that `run` receives. */
  context?: string[];
  approval?: Partial<ApprovalSpec>;
  output_check?: "warn" | "strict";
  cost?: number;
}

/** A tool: what the model reads, and the function that runs. */
export interface ToolSpec<Input extends Schema> extends ToolOptions {
  /** The name, matching `^[A-Za-z0-9_.-]{1,128}$`. */
  name: string;
  /** The description for the model. */
  description?: string;
  /** The arguments: a zod type or another Standard Schema, or a JSON Schema. */
  input: Input;
  /** The result as data, checked by the service. */
  output?: Schema;
  /** Runs a call. A text is the output for the model; an object becomes JSON; an exception is a failed call. */
  run: (args: Arguments<Input>, run: ToolRun) => unknown;
}

/** A tool that `serve` and `httpApp` offer. */
export interface Tool {
  readonly name: string;
  readonly input: Schema;
  /** The definition without its executor. */
  readonly definition: ToolDefinitionBase;
  readonly run: (args: any, run: ToolRun) => unknown;
}

/** A definition without its executor. */
export interface ToolDefinitionBase extends ToolOptions {
  name: string;
  description?: string;
  input_schema?: JsonObject;
  output_schema?: JsonObject;
}

/** A definition of a tool, as `PUT /tools/{name}` receives it. */
export interface ToolDefinition extends ToolDefinitionBase {
  executor: { type: string } & JsonObject;
}

/** Declares a tool. The arguments of `run` have the type that `input` describes. */
export function tool<const Input extends Schema>(spec: ToolSpec<Input>): Tool {
  const { name, input, output, run, ...options } = spec;
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
    throw new TypeError(`name: "${name}" is not a name of a tool; use 1 to 128 of A-Z, a-z, 0-9, "_", "." and "-"`);
  }
  const definition: ToolDefinitionBase = { name, ...options, input_schema: jsonSchemaOf(name, "input", input) };
  if (output) definition.output_schema = jsonSchemaOf(name, "output", output);
  return { name, input, definition, run };
}

/** Returns the tools by name. Throws if a name occurs twice. */
export function byName(tools: readonly Tool[]): Map<string, Tool> {
  const named = new Map<string, Tool>();
  for (const tool of tools) {
    if (named.has(tool.name)) throw new TypeError(`tools: "${tool.name}" is declared twice`);
    named.set(tool.name, tool);
  }
  if (named.size === 0) throw new TypeError("tools: at least one tool is required");
  return named;
}
