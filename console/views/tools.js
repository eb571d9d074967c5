// @ts-check
// The tools with their last hour; and one tool: what it is, how models see it, and a form to try it.
import { sparkline } from "../components/chart.js";
import { DefinitionEditor, editable } from "../components/editor.js";
import { act, ago, api, button, can, choice, confirmed, currentRoute, duration, empty, html, keyed, loaded, missing, navigate, onText, parseJson, path, percent, prevent, Resource, send, setQuery, short, table, tabs, time, update } from "../components/parts.js";
import { about, policyStack, presets, RecentCalls, schema, VendorViews } from "../components/tool-parts.js";
import { TryIt } from "../components/try-it.js";
import { pointsOf } from "../lib/series.js";

const HOUR_MS = 3600e3;
const STEP_MS = 120e3;
const REFRESH_MS = 10_000;
const SHOWN = 300;
const ANY = { any: "Any" };
const EXAMPLE = { name: "get_weather", description: "Returns the weather of a city.", input_schema: { type: "object", properties: { city: { type: "string", description: "Name of the city." } }, required: ["city"], additionalProperties: false }, executor: { type: "http", url: "http://127.0.0.1:9000/weather" } };

/** @typedef {Api.StatsAnswer & { window?: Api.ToolStats | null }} Stats `window` has the last hour where the service reports it. */
/** @typedef {{ tools: Api.ListedTool[], stats: Map<string, Stats>, groups: Api.ToolGroup[] }} ToolsData */

/** @returns {import("../lib/kit.js").View} */
export function toolsView() {
  const resource = new Resource(load);
  const timer = setInterval(() => resource.load(), REFRESH_MS);
  /** @type {DefinitionEditor | null} */ let editor = null;
  let all = false;
  return {
    title: "Tools",
    render() {
      const { query } = currentRoute();
      if (query.has("register")) return (editor ??= new DefinitionEditor(null, EXAMPLE)).render();
      editor = null;
      return html`<section class="tools"><header class="page-head"><h1 tabindex="-1">Tools</h1>
        <div class="actions"><a class="button primary" href="tools?register=1" aria-disabled=${missing("tools") && "true"}>Register a tool</a></div></header>
        ${loaded(resource, (data) => list(data, query, resource, all, () => { all = true; update(); }))}</section>`;
    },
    destroy: () => clearInterval(timer),
  };
}

/** @returns {Promise<ToolsData>} */
async function load() {
  const [tools, stats, groups] = await Promise.all([
    /** @type {Promise<Api.ToolList>} */ (api.get(["tools"], { include_inactive: true })),
    /** @type {Promise<Api.AllStats>} */ (api.get(["stats"], { window: "1h" })),
    /** @type {Promise<Api.ToolGroupList>} */ (api.get(["tool-groups"])),
  ]);
  return { tools: tools.tools, stats: new Map(stats.tools.map((one) => [one.tool_name, one])), groups: groups.groups };
}

/** @type {(data: ToolsData, query: URLSearchParams, resource: Resource<ToolsData>, all: boolean, showAll: () => void) => unknown} */
function list(data, query, resource, all, showAll) {
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const group = query.get("group");
  const source = query.get("source");
  const found = data.tools.filter((tool) => {
    const text = `${tool.name} ${tool.title} ${tool.description} ${(tool.tags ?? []).join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!group || tool.groups?.includes(group)) && (!source || tool.source === source);
  });
  const shown = all ? found : found.slice(0, SHOWN);
  return html`<form class="filters" role="search" aria-label="Filter tools" onSubmit=${prevent}>
      <label class="filter-q"><span>Search</span><input type="search" value=${query.get("q") ?? ""} placeholder="name, description or tag" onInput=${onText((q) => setQuery({ q }))} /></label>
      ${choice("group", "Group", data.groups.map(({ name }) => name), group, ANY)}${choice("source", "Source", ["builtin", "mcp", "file", "api"], source, ANY)}</form>
    ${data.groups.length ? groups(data.groups, resource) : null}
    ${found.length ? listing(shown, data) : empty("No tool matches", "Clear the search, or register a tool:", ["tools", EXAMPLE])}
    ${found.length > shown.length ? html`<p><button type="button" onClick=${showAll}>Show all ${found.length} tools</button></p>` : null}`;
}

/** @type {(groups: Api.ToolGroup[], resource: Resource<ToolsData>) => unknown} */
function groups(groups, resource) {
  const toggle = (/** @type {Api.ToolGroup} */ group) => async () => {
    await act("cannot change the group", () => api.patch(["tool-groups", group.name], { active: !group.active }), () => `${group.active ? "Deactivated" : "Activated"} the group ${group.name}.`);
    resource.load();
  };
  return html`<details class="card"><summary>Groups <span class="count">${groups.length}</span></summary><ul class="plain">${groups.map((group) => html`<li><label class="check"><input type="checkbox" role="switch" checked=${group.active} disabled=${!can("tools")} onChange=${toggle(group)} /> ${group.name}</label>
    <span class="muted">${group.description} · ${group.tools.length} ${group.tools.length === 1 ? "tool" : "tools"}</span></li>`)}</ul></details>`;
}

/** @type {(tools: Api.ListedTool[], data: ToolsData) => unknown} */
function listing(tools, { stats }) {
  return html`${table("Tools", "Tool|Source|Groups|Last hour|>Calls|>Errors|>p95|State", tools.map((tool) => keyed(tool.name, row(tool, stats.get(tool.name)))), "tools-table")}`;
}

/** @type {(tool: Api.ListedTool, stats: Stats | undefined) => any} */
function row(tool, stats) {
  const now = Math.ceil(Date.now() / STEP_MS) * STEP_MS;
  const points = pointsOf(stats?.series ?? [], now - HOUR_MS, now, STEP_MS);
  const sum = (/** @type {"success" | "failure" | "rejected"} */ kind) => points.reduce((total, point) => total + point[kind], 0);
  const calls = sum("success") + sum("failure") + sum("rejected");
  const recent = stats?.window ?? stats;
  const bad = sum("failure") + sum("rejected");
  return html`<tr><th scope="row"><a href=${path("tools", tool.name)}>${tool.name}</a>${tool.title && tool.title !== tool.name ? html` <span class="muted">${tool.title}</span>` : null}<div class="muted one-line">${tool.description}</div></th>
    <td>${tool.source}</td><td>${(tool.groups ?? []).map((group) => html`<span class="chip">${group}</span> `)}</td>
    <td>${sparkline(points, `${calls} calls in the last hour, ${bad} failed or rejected`)}</td><td class="num right">${short(calls)}</td><td class="num right ${bad ? "bad" : ""}">${percent(bad, calls)}</td>
    <td class="num right">${recent?.execution_count ? duration(recent.p95_duration_ms) : "–"}</td>
    <td>${tool.paused ? html`<span class="state warn">paused</span>` : tool.active ? html`<span class="state">active</span>` : html`<span class="state off">inactive</span>`}</td></tr>`;
}

/** @typedef {{ tool: Api.ListedTool, etag: string }} ToolData */

/**
 * @param {string} name
 * @returns {import("../lib/kit.js").View}
 */
export function toolView(name) {
  const resource = new Resource(async () => {
    const response = await send("GET", ["tools", name]);
    return /** @type {ToolData} */ ({ tool: parseJson(await response.text()), etag: response.headers.get("etag") ?? "" });
  });
  const parts = new ToolParts(name, resource);
  return {
    title: name,
    render: () => html`<section class="tool">${resource.value ? null : html`<h1 tabindex="-1">${name}</h1>`}${loaded(resource, (data) => body(data, parts))}</section>`,
    destroy: () => parts.close(),
  };
}

/** The parts of the screen that have a state, created when they are first shown. */
class ToolParts {
  /** @type {TryIt | null} */ tryIt = null;
  /** @type {VendorViews | null} */ vendors = null;
  /** @type {RecentCalls | null} */ calls = null;
  /** @type {{ etag: string, editor: DefinitionEditor } | null} */ edit = null;

  /**
   * @param {string} name
   * @param {Resource<ToolData>} resource
   */
  constructor(name, resource) {
    this.name = name;
    this.resource = resource;
  }

  /** @param {ToolData} data */
  editor({ tool, etag }) {
    if (this.edit?.etag !== etag) {
      const editor = new DefinitionEditor(tool.name, editable(tool), { etag, saved: () => this.resource.load().then(() => (this.tryIt = null)) });
      this.edit = { etag, editor };
    }
    return this.edit.editor.render();
  }

  close() {
    this.tryIt?.close();
    this.calls?.close();
  }
}

/** @type {(data: ToolData, parts: ToolParts) => unknown} */
function body(data, parts) {
  const { tool } = data;
  const { query } = currentRoute();
  const list = [
    { name: "try", label: "Try it", content: () => (parts.tryIt ??= new TryIt(tool)).render() },
    { name: "schema", label: "Schema", content: () => schema(tool) },
    { name: "vendors", label: "As models see it", content: () => (parts.vendors ??= new VendorViews(tool.name)).render(query.get("format")) },
    { name: "calls", label: "Recent calls", content: () => (parts.calls ??= new RecentCalls(tool.name)).render() },
    { name: "policy", label: "Limits and policies", content: () => policyStack(tool) },
    { name: "presets", label: "Presets", note: Object.keys(tool.presets ?? {}).length || "", content: () => presets(tool) },
    { name: "edit", label: "Definition", content: () => parts.editor(data) },
  ];
  return html`<header class="page-head"><h1 tabindex="-1">${tool.name}</h1>
      ${tool.paused ? html`<span class="state warn">paused</span>` : tool.active ? null : html`<span class="state off">inactive</span>`}${actions(tool, parts.resource)}</header>
    ${tool.paused ? html`<p class="note">${pausedText(tool)} ${button("tools", "Resume now", () => resume(tool, parts.resource))}</p>` : null}
    ${about(tool)}${tabs("Parts of the tool", list, query.get("tab"))}`;
}

/** @param {Api.ListedTool} tool */
function pausedText(tool) {
  const paused = /** @type {any} */ (tool.paused);
  const until = typeof paused === "object" && paused?.until ? ` until ${time(paused.until)}` : "";
  return `Paused after repeated timeouts${until}. Calls end with TOOL_PAUSED meanwhile.`;
}

/** @type {(tool: Api.ListedTool, resource: Resource<ToolData>) => unknown} */
function actions(tool, resource) {
  const where = { api: null, builtin: "a built-in tool cannot be deleted", file: "declared in a file on the server", mcp: "offered by an upstream server" }[tool.source];
  return html`<div class="actions"><span class="muted">revision ${tool.revision}${tool.source === "builtin" ? "" : `, changed ${ago(tool.updated_at)}`}</span>
    ${button("tools", "Delete", () => remove(tool, resource), "danger", where)}</div>`;
}

/** @type {(tool: Api.ListedTool, resource: Resource<ToolData>) => Promise<void>} */
async function remove(tool, resource) {
  const text = "Models no longer see it, and its stored presets are deleted. Calls that run finish. A tool of this name from another source takes its place.";
  if (await confirmed(`Delete the tool ${tool.name}?`, text, "Delete the tool", () => api.delete(["tools", tool.name]).then(() => true), () => `Deleted ${tool.name}.`)) navigate("tools");
  else resource.load();
}

/** @type {(tool: Api.ListedTool, resource: Resource<ToolData>) => Promise<void>} */
async function resume(tool, resource) {
  await act("cannot resume the tool", () => api.post(["tools", tool.name, "resume"]), () => `Resumed ${tool.name}.`);
  await resource.load();
  update();
}
