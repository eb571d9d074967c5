/** Client, tools and workers for Toolpost. */
export * from "./errors.js";
export type * from "./types.js";
export { Toolpost } from "./client.js";
export type { CallItem, CallOptions, CallsOptions, RunOptions, RunResult, ToolsOptions } from "./client.js";
export type { Approvals, Decidable } from "./approvals.js";
export type { Sessions } from "./sessions.js";
export type { ConnectionOptions } from "./transport.js";
export type { EventStream, WatchOptions } from "./watch.js";
export { tool } from "./tool.js";
export type { Tool, ToolDefinition, ToolOptions, ToolSpec } from "./tool.js";
export type { Arguments, JsonSchema, Schema, StandardSchema } from "./schema.js";
export type { ToolRun } from "./run.js";
export { serve } from "./worker.js";
export type { ServeOptions, Worker } from "./worker.js";
export { httpApp } from "./http_app.js";
export type { HttpApp, HttpAppOptions } from "./http_app.js";
