// @ts-check
// The parts of a tool: its definition, how models see it, and its last calls.
import { api, badge, choice, duration, durationBar, html, keyed, loaded, loading, path, pretty, problem, Resource, table, time, update } from "./parts.js";
import { Rows } from "../lib/rows.js";
import { subscribe } from "../lib/stream.js";
import { jsonTree, schemaTree } from "./trees.js";

/** @param {Api.ListedTool} tool */
export function about(tool) {
  const { annotations = {} } = tool;
  const hints = [
    annotations.read_only ? "read-only" : annotations.destructive ? "may destroy" : "changes something",
    annotations.idempotent ? "idempotent" : null, annotations.open_world ? "open world" : null, tool.async ? "asynchronous" : null,
  ].filter(Boolean);
  return html`<p class="description">${tool.description}</p>
    <p class="chips"><span class="chip">${tool.source}</span><span class="chip">${executorText(tool)}</span>${tool.version ? html`<span class="chip">version ${tool.version}</span>` : null}${hints.map((hint) => html`<span class="chip">${hint}</span>`)}${(tool.groups ?? []).map((group) => html`<a class="chip" href="tools?group=${encodeURIComponent(group)}">${group}</a>`)}${(tool.tags ?? []).map((tag) => html`<span class="chip">#${tag}</span>`)}</p>`;
}

/** @param {Api.ListedTool} tool */
function executorText(tool) {
  const executor = /** @type {any} */ (tool.executor);
  if (executor.type === "http") return `http ${executor.method ?? "POST"} ${executor.url}`;
  if (executor.type === "process") return `process ${(executor.argv ?? []).join(" ")}`;
  if (executor.type === "mcp") return `mcp ${executor.server} ${executor.tool ?? ""}`;
  return executor.type;
}

/** @param {Api.ListedTool} tool */
export function schema(tool) {
  return html`<div class="columns"><div><h2>Arguments</h2>${schemaTree(/** @type {any} */ (tool.input_schema ?? {}))}
      ${tool.output_schema ? html`<h2>Result <span class="muted">checked: ${tool.output_check}</span></h2>${schemaTree(/** @type {any} */ (tool.output_schema))}` : null}</div>
    <div>${(tool.examples ?? []).length ? html`<h2>Examples</h2>${(tool.examples ?? []).map((/** @type {any} */ example) => html`<pre class="code" tabindex="0">${pretty(example.arguments)}${example.output === undefined ? "" : `\n→ ${typeof example.output === "string" ? example.output : pretty(example.output)}`}</pre>`)}` : null}
      <h2>JSON Schema</h2>${jsonTree(tool.input_schema)}</div></div>`;
}

/** @param {Api.ListedTool} tool */
export function presets(tool) {
  const entries = Object.entries(tool.presets ?? {});
  if (!entries.length) return html`<p class="muted">No presets. A preset is an argument that the operator supplies and the model does not see.</p>`;
  return html`${table("Presets", "Argument|Kind|Model", entries.map(
    ([name, preset]) => html`<tr><th scope="row"><code>${name}</code></th><td>${preset.kind ?? ""}${preset.secret ? html` <code>${preset.secret}</code>` : null}</td><td>${preset.overridable ? "sees it, with the preset as default" : "does not see it"}</td></tr>`,
  ))}<p class="muted">Values are never shown.</p>`;
}

/**
 * Lists what a call of the tool passes on its way, in order.
 * @param {Api.ListedTool} tool
 */
export function policyStack(tool) {
  const limits = /** @type {Record<string, any>} */ (tool.limits ?? {});
  const retry = /** @type {Record<string, any>} */ (tool.retry ?? {});
  const { approval } = tool;
  const orServer = (/** @type {unknown} */ value, /** @type {(value: any) => string} */ show) => (value === null || value === undefined ? "server default" : show(value));
  const safe = tool.concurrency_safe ?? tool.annotations?.read_only ?? false;
  /** @type {[string, string][]} */
  const steps = [
    ["Coercion", tool.coerce === false ? "off: wrong types are errors" : "on: types that the model got wrong are converted"],
    ["Presets", `${Object.keys(tool.presets ?? {}).length} arguments supplied by the operator`],
    ["Context", (tool.context ?? []).join(", ") || "receives no context objects"],
    ["Approval", approval ? `${approval.required === false ? "where a policy asks for it" : "every call"}, by ${approval.min_approvals ?? 1}, within ${duration(approval.expires_ms ?? 3600e3)}` : "only where a policy asks for it"],
    ["Cache", tool.cache ? `${duration(tool.cache.ttl_ms)}, per ${tool.cache.scope ?? "session"}` : "off"],
    ["Concurrency", `${orServer(limits.max_concurrency, (value) => `at most ${value} at once`)}; ${safe ? "runs next to other safe calls of a batch" : "runs alone in a batch"}`],
    ["Queue timeout", orServer(limits.queue_timeout_ms, duration)],
    ["Timeout", `${orServer(limits.timeout_ms, duration)} per attempt`],
    ["Idle timeout", orServer(limits.idle_timeout_ms, duration)],
    ["Attempts", retry.max_attempts > 1 ? `${retry.max_attempts}, backoff ${duration(retry.initial_backoff_ms)} to ${duration(retry.max_backoff_ms)}, factor ${retry.backoff_multiplier}` : "1: no retry"],
    ["Pause", tool.paused ? "paused now" : "after three timeouts in a row"],
    ["Output", `${orServer(limits.max_output_bytes, (value) => `${value} bytes`)}, ${orServer(limits.max_output_lines, (value) => `${value} lines`)}, keeps ${limits.truncate ?? "server default"}`],
    ["Output schema", tool.output_schema ? `${tool.output_check}` : "none"],
  ];
  return html`<ol class="stack">${steps.map(([name, text]) => html`<li><strong>${name}</strong><span>${text}</span></li>`)}</ol>`;
}

const FORMATS = /** @type {const} */ ([["openai", "OpenAI Chat"], ["openai-responses", "OpenAI Responses"], ["openai-strict", "OpenAI strict"], ["anthropic", "Anthropic"], ["gemini", "Gemini"], ["mcp", "MCP"], ["prompt", "Prompt"]]);

/** @typedef {{ text: string | null, losses: Api.Loss[], leftOut: Api.LeftOut | null }} VendorView */

export class VendorViews {
  /** @type {Map<string, Resource<VendorView>>} */ #resources = new Map();

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  /** @param {string} format */
  #resource(format) {
    let resource = this.#resources.get(format);
    if (!resource) {
      resource = new Resource(() => (format === "prompt" ? this.#prompt() : this.#definition(format)));
      this.#resources.set(format, resource);
    }
    return resource;
  }

  /** @returns {Promise<VendorView>} */
  async #prompt() {
    const text = await api.text(["tools"], { format: "prompt", q: this.name });
    const sections = text.split(/^(?=## )/m);
    const own = sections.find((section) => section.startsWith(`## ${this.name}\n`));
    return { text: (own ?? text).trim(), losses: [], leftOut: null };
  }

  /** @param {string} format @returns {Promise<VendorView>} */
  async #definition(format) {
    const answer = await api.get(["tools"], { format, losses: true, q: this.name });
    const alias = this.name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 50);
    const tools = answer.tools.flatMap((/** @type {any} */ tool) => tool.functionDeclarations ?? tool.function_declarations ?? [tool]);
    const nameOf = (/** @type {any} */ tool) => String(tool.function?.name ?? tool.name ?? "");
    // A name that the vendor would refuse is shown as an alias: with underscores, and a hash at its end.
    const isAlias = (/** @type {string} */ name) => name === this.name.replaceAll(".", "__") || (name.startsWith(alias) && /_[0-9a-f]{8}$/.test(name));
    const tool = tools.find((/** @type {any} */ one) => nameOf(one) === this.name) ?? tools.find((/** @type {any} */ one) => isAlias(nameOf(one)));
    const losses = (answer.losses ?? []).find((/** @type {Api.ToolLosses} */ one) => one.name === this.name || one.name === nameOf(tool ?? {}))?.losses ?? [];
    const leftOut = (answer.left_out ?? []).find((/** @type {Api.LeftOut} */ one) => one.name === this.name) ?? null;
    return { text: tool ? pretty(tool) : null, losses, leftOut };
  }

  /** @param {string | null} selected */
  render(selected) {
    const format = FORMATS.some(([name]) => name === selected) ? String(selected) : "openai";
    return html`${choice("format", "Format", FORMATS, format, { className: "inline" })}
      ${loaded(this.#resource(format), view)}`;
  }
}

/** @param {VendorView} view */
function view({ text, losses, leftOut }) {
  return html`${leftOut ? html`<p class="note">This vendor cannot use the tool: <code>${leftOut.pointer}</code> ${leftOut.reason}</p>` : null}
    ${losses.length ? html`<h3>Lost in the conversion</h3><ul class="violations">${losses.map((loss) => html`<li><code>${loss.pointer || "/"}</code> <code>${loss.keyword}</code> ${loss.message}${loss.widens ? html` <span class="muted">the model may send what the tool rejects</span>` : null}</li>`)}</ul>` : leftOut ? null : html`<p class="muted">Nothing is lost in the conversion.</p>`}
    ${text ? html`<pre class="code" tabindex="0">${text}</pre>` : leftOut ? null : html`<p class="muted">The tool is inactive, so models do not see it.</p>`}`;
}

const SHOWN = 30;

export class RecentCalls {
  /** @type {unknown} */ error = undefined;
  loaded = false;

  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.rows = new Rows({ name });
    this.close = subscribe(["events"], { name }, {
      onEvent: (event) => {
        if (event.data.id) this.rows.apply(event);
        update();
      },
      onGap: () => this.load(),
    });
  }

  async load() {
    try {
      /** @type {Api.ToolCallPage} */
      const page = await api.get(["tool-calls"], { name: this.name, limit: SHOWN });
      this.rows.addPage(page.tool_calls);
      this.error = undefined;
    } catch (error) {
      this.error = error;
    }
    this.loaded = true;
    update();
  }

  render() {
    const rows = Array.from({ length: Math.min(SHOWN, this.rows.length) }, (_, index) => this.rows.at(index));
    const all = html`<p><a href="calls?name=${encodeURIComponent(this.name)}">All calls of this tool</a></p>`;
    if (this.error) return problem(this.error, () => this.load());
    if (!rows.length) return this.loaded ? html`<p class="muted">No calls yet. Make one under “Try it”.</p>` : loading();
    return html`${table("Recent calls", "Status|Arguments|Duration|Time", rows.map(
      (row) => keyed(row.id, html`<tr><td>${badge(row.status, row.phase)}</td><td class="mono one-line"><a href=${path("calls", row.id)}>${row.code ?? (row.arguments || "no arguments")}</a></td><td>${durationBar(row.duration_ms)}</td><td class="num">${time(row.created_at)}</td></tr>`),
    ))}${all}`;
  }
}
