// @ts-check
// The sessions, newest first; and one session as a conversation, with its tree, prompt and messages.
import { act, ago, api, apiUrl, badge, button, choice, clip, confirmed, copy, currentRoute, debounced, duration, empty, html, keyed, loaded, navigate, path, pretty, prevent, Resource, shortArguments, table, tabs, time, update } from "../components/parts.js";
import { jsonTree } from "../components/trees.js";
import { subscribe } from "../lib/stream.js";

const REFRESH_MS = 10_000;
const STATES = ["ACTIVE", "COMPLETED", "ABORTED"];

/** @typedef {{ sessions: Api.Session[], cursor: string | null }} Page */

/** @returns {import("../lib/kit.js").View} */
export function sessionsView() {
  let state = currentRoute().query.get("state");
  /** @type {Api.Session[]} */ let older = [];
  /** @type {string | null | undefined} */ let olderCursor;
  const resource = new Resource(async () => {
    /** @type {Api.SessionPage} */
    const page = await api.get(["sessions"], { state, limit: 100 });
    return { sessions: page.sessions, cursor: page.next_cursor ?? null };
  });
  const timer = setInterval(() => resource.load(), REFRESH_MS);
  const more = async (/** @type {string} */ cursor) => {
    /** @type {Api.SessionPage | undefined} */
    const page = await act("cannot load more sessions", () => api.get(["sessions"], { state, limit: 100, cursor }));
    if (!page) return;
    older = [...older, ...page.sessions];
    olderCursor = page.next_cursor ?? null;
    update();
  };
  return {
    title: "Sessions",
    render: () => html`<section class="sessions"><header class="page-head"><h1 tabindex="-1">Sessions</h1></header>
      <form class="filters" role="search" aria-label="Filter sessions" onSubmit=${prevent}>${choice("state", "State", STATES, state, { any: "Any state" })}</form>
      ${loaded(resource, (page) => list(page, older, olderCursor === undefined ? page.cursor : olderCursor, more))}</section>`,
    changed({ query }) {
      state = query.get("state");
      older = [];
      olderCursor = undefined;
      resource.load();
    },
    destroy: () => clearInterval(timer),
  };
}

/** @type {(page: Page, older: Api.Session[], cursor: string | null, more: (cursor: string) => void) => unknown} */
function list(page, older, cursor, more) {
  const known = new Set(page.sessions.map(({ id }) => id));
  const sessions = [...page.sessions, ...older.filter(({ id }) => !known.has(id))];
  if (!sessions.length) return empty("No sessions", "A session is a conversation with its calls. It is created by its first call:", ["tool-calls", { session: "chat-1", name: "current_time", arguments: {} }]);
  return html`${table("Sessions", "Session|State|Task|Parent|Created|Changed", sessions.map((session) => keyed(session.id, row(session))))}
    ${cursor ? html`<p><button type="button" onClick=${() => more(cursor)}>Load older sessions</button></p>` : null}`;
}

/** @param {Api.Session} session */
function row(session) {
  return html`<tr><th scope="row"><a href=${path("sessions", session.id)}>${session.id}</a></th><td>${stateBadge(session.state)}</td><td class="one-line">${session.task ? `${session.task.agent_name}: ${session.task.task_name}` : ""}</td>
    <td>${session.parent ? html`<a href=${path("sessions", session.parent)}>${session.parent}</a>` : null}</td><td class="num">${ago(session.created_at)}</td><td class="num">${ago(session.updated_at)}</td></tr>`;
}

/** @param {Api.SessionState} state */
export const stateBadge = (state) => html`<span class="state ${{ ACTIVE: "", COMPLETED: "done", ABORTED: "warn" }[state]}">${state.toLowerCase()}</span>`;

const SHOWN_TEXT = 4000;

/** @param {Api.SessionDetail} detail */
export function conversation(detail) {
  if (!detail.tool_calls.length) return empty("No calls in this session", "A call that names this session appears here at once.");
  const results = new Map(detail.tool_results.map((result) => [result.id, result]));
  const pending = new Map(detail.pending.map((call) => [call.id, call]));
  return html`<ol class="conversation">${detail.tool_calls.map((call) => keyed(call.id, turn(call, results.get(call.id), pending.get(call.id))))}</ol>`;
}

/** @type {(call: Api.SessionToolCall, result: Api.SessionToolResult | undefined, pending: Api.SessionPendingCall | undefined) => any} */
function turn(call, result, pending) {
  return html`<li class="turn"><div class="turn-call"><p class="turn-head"><a href=${path("calls", call.id)}>${call.name}</a> <span class="muted num">${time(call.created_at)}</span></p>
      <details><summary class="mono">${shortArguments(call.arguments) || "no arguments"}</summary><pre class="code" tabindex="0">${typeof call.arguments === "string" ? call.arguments : pretty(call.arguments)}</pre></details></div>
    <div class=${result?.is_error ? "turn-result failed" : "turn-result"}><p class="turn-head">${badge(result?.status ?? pending?.status ?? call.status, pending?.phase ?? "done")} <span class="muted num">${result ? duration(result.duration_ms) : (pending?.tip ?? pending?.progress?.message ?? "")}</span>${result?.error ? html` <code class="bad">${result.error.code}</code>` : null}</p>
      ${result ? content(call, result) : html`<p class="muted">Pending…</p>`}</div></li>`;
}

/** @type {(call: Api.SessionToolCall, result: Api.SessionToolResult) => unknown} */
function content(call, result) {
  return result.content.map((/** @type {any} */ block, index) => {
    if (block.type === "image") return html`<img src=${apiUrl("tool-calls", call.id, "content", String(index))} alt="Image ${index + 1} of the output" loading="lazy" />`;
    return html`<pre class="text">${clip(block.type === "text" ? String(block.text) : pretty(block), SHOWN_TEXT)}</pre>`;
  });
}

const MAX_DEPTH = 6;
const MAX_SESSIONS = 200;

/** @typedef {{ session: Api.Session, children: TreeItem[] }} TreeItem */

export class SessionTree {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
  }

  resource = new Resource(() => this.#load());

  async #load() {
    /** @type {Api.Session} */ let root = await api.get(["sessions", this.id], { limit: 1 });
    for (let depth = 0; root.parent && depth < MAX_DEPTH; depth++) root = await api.get(["sessions", root.parent], { limit: 1 });
    let left = MAX_SESSIONS;
    /** @type {(session: Api.Session, depth: number) => Promise<TreeItem>} */
    const grow = async (session, depth) => {
      if (depth >= 2 * MAX_DEPTH || left <= 0) return { session, children: [] };
      /** @type {Api.SessionPage} */
      const page = await api.get(["sessions"], { parent: session.id, limit: 100 });
      left -= page.sessions.length;
      return { session, children: await Promise.all(page.sessions.map((child) => grow(child, depth + 1))) };
    };
    return grow(root, 0);
  }

  reload() {
    if (this.resource.value) this.resource.load();
  }

  render() {
    return loaded(this.resource, (root) => html`<ul class="tree">${this.#item(root)}</ul>${root.children.length ? null : html`<p class="muted">No child sessions. The tool <code>new_task</code> creates them.</p>`}`);
  }

  /** @param {TreeItem} item @returns {unknown} */
  #item({ session, children }) {
    const own = session.id === this.id;
    return html`<li>${own ? html`<strong aria-current="true">${session.id}</strong>` : html`<a href=${path("sessions", session.id)}>${session.id}</a>`} <span class="muted">${session.state.toLowerCase()}${session.task ? ` · ${session.task.agent_name}: ${session.task.task_name}` : ""}</span>
      ${children.length ? html`<ul class="tree">${children.map((child) => this.#item(child))}</ul>` : null}</li>`;
  }
}

const FORMATS = ["openai", "openai-responses", "anthropic", "gemini"];
const RELOAD_MS = 300;
const CALLS = 200;

/** The parts of a session, loaded when they are shown and again after events. */
class SessionParts {
  shown = CALLS;
  format = "openai";

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.detail = new Resource(() => this.#loadDetail());
    this.messages = new Resource(() => /** @type {Promise<Api.SessionMessages>} */ (api.get(["sessions", id, "messages"], { format: this.format })));
    this.prompt = new Resource(() => api.text(["sessions", id, "prompt"]));
    this.tree = new SessionTree(id);
    const reload = debounced(RELOAD_MS, () => this.reload());
    this.close = subscribe(["sessions", id, "events"], {}, { onEvent: reload, onGap: reload });
  }

  /** Loads the calls in order; pages are read until enough are known. */
  async #loadDetail() {
    /** @type {Api.SessionDetail} */
    const detail = await api.get(["sessions", this.id], { limit: CALLS });
    while (detail.next_cursor && detail.tool_calls.length < this.shown) {
      /** @type {Api.SessionDetail} */
      const page = await api.get(["sessions", this.id], { limit: CALLS, cursor: detail.next_cursor });
      detail.tool_calls.push(...page.tool_calls);
      detail.tool_results.push(...page.tool_results);
      detail.next_cursor = page.next_cursor;
    }
    return detail;
  }

  reload() {
    this.detail.load();
    if (this.messages.value) this.messages.load();
    if (this.prompt.value !== undefined) this.prompt.load();
    this.tree.reload();
  }
}

/** @type {(id: string) => import("../lib/kit.js").View} */
export function sessionView(id) {
  const parts = new SessionParts(id);
  return {
    title: `Session ${id}`,
    render: () => html`<section class="session">${parts.detail.value ? null : html`<h1 tabindex="-1">${id}</h1>`}${loaded(parts.detail, (detail) => body(detail, parts))}</section>`,
    destroy: parts.close,
  };
}

/** @type {(detail: Api.SessionDetail, parts: SessionParts) => unknown} */
function body(detail, parts) {
  const { query } = currentRoute();
  const { counts } = detail;
  const list = [
    { name: "conversation", label: "Conversation", note: counts.total, content: () => conversationTab(detail, parts) },
    { name: "tree", label: "Tree", content: () => parts.tree.render() },
    { name: "messages", label: "Messages", content: () => messagesTab(parts, query.get("format")) },
    { name: "prompt", label: "Prompt", content: () => promptTab(parts) },
    { name: "settings", label: "Settings", content: () => settings(detail) },
  ];
  return html`<header class="page-head"><h1 tabindex="-1">${detail.id}</h1>${stateBadge(detail.state)}<span class="muted">${counts.succeeded} succeeded, ${counts.failed} failed, ${counts.pending} pending</span>
      <div class="actions"><a class="button" href="calls?session=${encodeURIComponent(detail.id)}">Live calls</a>
      ${button("call", "Abort", () => abort(parts), "danger", detail.state === "ACTIVE" ? null : "")}${button("call", "Delete", () => remove(parts), "danger")}</div></header>
    <p class="muted">Created ${time(detail.created_at)}${detail.parent ? html`, child of <a href=${path("sessions", detail.parent)}>${detail.parent}</a>` : null}${detail.parent_call ? html` by <a href=${path("calls", detail.parent_call)}>its call</a>` : null}</p>
    ${detail.task ? html`<p class="note"><strong>${detail.task.agent_name}</strong>: ${detail.task.task_name}</p>` : null}
    ${detail.completion ? html`<div class="note"><strong>Completed</strong>${jsonTree(detail.completion)}</div>` : null}
    ${tabs("Parts of the session", list, query.get("tab"))}`;
}

/** @type {(detail: Api.SessionDetail, parts: SessionParts) => unknown} */
function conversationTab(detail, parts) {
  const more = () => {
    parts.shown += CALLS;
    parts.detail.load();
  };
  return html`${conversation(detail)}${detail.next_cursor ? html`<p><button type="button" disabled=${parts.detail.loading} onClick=${more}>Show more calls</button></p>` : null}`;
}

/** @type {(parts: SessionParts, format: string | null) => unknown} */
function messagesTab(parts, format) {
  const chosen = FORMATS.includes(format ?? "") ? String(format) : "openai";
  if (parts.format !== chosen) Object.assign(parts, { format: chosen }).messages.load();
  return html`${choice("format", "Format", FORMATS, chosen, { className: "inline" })}
    ${loaded(parts.messages, (answer) => html`${answer.truncated ? html`<p class="note">Only the newest messages are shown.</p>` : null}
      <div class="tools-right"><button type="button" class="quiet small" onClick=${() => copy(pretty(answer.messages), "the messages")}>Copy JSON</button></div><pre class="code" tabindex="0">${pretty(answer.messages)}</pre>`)}`;
}

/** @param {SessionParts} parts */
function promptTab(parts) {
  return loaded(parts.prompt, (text) => html`<pre class="code" tabindex="0">${text}</pre>`);
}

/** @param {Api.SessionDetail} detail */
function settings(detail) {
  const { context, groups, limits, tools, callback_url } = detail;
  return html`<p class="muted">Values of context objects are never shown.</p>${jsonTree({ context, groups, limits, tools, callback_url, tool_definitions: detail.tool_definitions.map(({ name }) => name) })}`;
}

/** @param {SessionParts} parts */
async function abort(parts) {
  await confirmed(`Abort the session ${parts.id}?`, "Every call of it that runs, waits or is queued is cancelled.", "Abort the session", () => api.post(["sessions", parts.id, "abort"]), () => `Aborted ${parts.id}.`);
  parts.reload();
}

/** @param {SessionParts} parts */
async function remove(parts) {
  const done = await confirmed(`Delete the session ${parts.id}?`, "It is aborted, and its conversation is removed.", "Delete the session", () => api.delete(["sessions", parts.id]).then(() => true), () => `Deleted ${parts.id}.`);
  if (done) navigate("sessions");
}
