/** The objects of the API. Their members keep the names of the API reference. */
import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** A JSON object. */
export type JsonObject = Record<string, unknown>;

/** A tool call with its status, arguments and result. */
export type ToolCall = Omit<Schemas["ToolCall"], "content" | "structured" | "arguments"> & {
  arguments: unknown;
  content: ContentBlock[];
  structured?: unknown;
};
/** A block of content for the model: text, an image, or a block of the tool's own. */
export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mime_type: string }
  | ({ type: string } & JsonObject);
/** The reason of a failed call. */
export type Failure = Schemas["Failure"];
/** The approval that a call waits for or has received. */
export type Approval = Schemas["Approval"];
/** The state of an approval. */
export type ApprovalStatus = Schemas["ApprovalStatus"];
/** Progress as the tool reports it. */
export type ProgressReport = Schemas["ProgressReport"];
/** A tool as the service lists it. */
export type ListedTool = Schemas["ListedTool"];
/** Hints about the effects of a tool. */
export type Annotations = Schemas["Annotations"];
/** Limits of calls. */
export type LimitsSpec = Schemas["LimitsSpec"];
/** Retries of failed attempts. */
export type RetrySpec = Schemas["RetrySpec"];
/** The approval that calls of a tool need. */
export type ApprovalSpec = Schemas["ApprovalSpec"];
/** The program that asks for a call. */
export type Agent = Schemas["Agent"];
/** The body of every 4xx and 5xx response (RFC 9457). */
export type Problem = Schemas["Problem"];
/** An invalid field of a request. */
export type FieldError = Schemas["FieldError"];
/** A session without its calls. */
export type Session = Schemas["Session"];
/** A session with its calls. */
export type SessionDetail = Schemas["SessionDetail"];
/** The members of a new session. */
export type NewSession = Schemas["NewSession"];

/** The formats in which `GET /tools` lists tools as JSON. */
export type ToolFormat = "native" | "openai" | "openai-responses" | "openai-strict" | "anthropic" | "gemini" | "mcp";
/** The formats of models' messages. */
export type MessageFormat = "openai" | "openai-responses" | "anthropic" | "gemini";

/** The results of a batch or of a model's message. */
export interface BatchResult {
  batch_id: string | null;
  results: ToolCall[];
  messages?: JsonObject[] | null;
}

interface EventData {
  tool_call: Schemas["ToolCallEvent"];
  status: Schemas["StatusEvent"];
  progress: Omit<Schemas["ProgressEvent"], "content"> & { content: ContentBlock[] };
  tool_result: Omit<Schemas["ToolResultEvent"], "content"> & { content: ContentBlock[] };
  hook_error: Schemas["HookErrorEvent"];
  session: Schemas["SessionEvent"];
  batch: BatchResult;
}

/** An event of a stream. `type` tells what `data` is; `id` resumes any stream. */
export type ToolpostEvent = {
  [Type in keyof EventData]: { type: Type; id: string; data: EventData[Type] };
}[keyof EventData];
