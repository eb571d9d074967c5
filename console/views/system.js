// @ts-check
// The service as a whole: its figures and settings, workers, upstream servers, keys and hooks.
import { act, ago, api, button, can, closeDialog, confirmed, copy, count, duration, failures, figures, html, keyed, loaded, openDialog, Resource, table, time } from "../components/parts.js";
import { WorkersPanel } from "./workers.js";

/** @typedef {{ id: string, is_this: boolean, last_heartbeat_at: string, is_lost: boolean, running: number, waiting: number }} SystemNode */
/** @typedef {Record<string, number | boolean | null>} Figures */
/** @typedef {{ version?: string, node?: string, started_at?: string, database?: string, nodes?: SystemNode[], queue?: Figures, journal?: Figures, retention?: Figures, settings?: { name: string, value: unknown }[] }} SystemInfo */

export class ServicePanel {
  resource = new Resource(() => /** @type {Promise<SystemInfo>} */ (can("admin") ? api.get(["system"]) : Promise.resolve({})));

  render() {
    return html`<section class="card"><h2>Service</h2>${loaded(this.resource, state)}</section>`;
  }

  renderSettings() {
    const { settings } = this.resource.value ?? {};
    if (!settings) return null;
    const rows = settings.map(({ name, value }) => html`<tr><th scope="row"><code>${name}</code></th><td><code>${JSON.stringify(value)}</code></td></tr>`);
    return html`<section class="card"><h2>Settings in force</h2>${table("Settings", "Setting|Value", rows)}</section>`;
  }
}

/** @param {SystemInfo} system */
function state({ version, started_at, database, nodes, queue = {}, journal = {}, retention = {} }) {
  if (!can("admin")) return html`<p class="muted">The state of the service is shown to callers with the scope admin.</p>`;
  const up = started_at && duration(Date.now() - Date.parse(started_at));
  return html`${figures({ Version: version, Up: up, Database: database, ...members("Queue", queue), ...members("Journal", journal), ...members("Keep", retention, "no limit") })}${nodes ? table("Nodes", "Node|Heartbeat|>Running|>Waiting|State", nodes.map(node)) : null}`;
}

/**
 * Names figures after their members: `oldest_ms` of the queue is "Queue, oldest".
 * @param {string} group
 * @param {Figures} values
 * @param {string} [none] How zero milliseconds are shown.
 * @returns {Record<string, string>}
 */
const members = (group, values, none) =>
  Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value === null ? [] : [[`${group}, ${name.replace(/_ms$/, "").replaceAll("_", " ")}`, typeof value === "boolean" ? (value ? "yes" : "no") : name.endsWith("_ms") ? ((!value && none) || duration(value)) : count(value)]])));

/** @param {SystemNode} node */
const node = ({ id, is_this, last_heartbeat_at, is_lost, running, waiting }) =>
  html`<tr><th scope="row"><code>${id}</code> <span class="muted">${is_this ? "this one" : ""}</span></th><td>${ago(last_heartbeat_at)}</td><td class="num right">${count(running)}</td><td class="num right">${count(waiting)}</td><td><span class=${is_lost ? "state warn" : "state"}>${is_lost ? "lost" : "running"}</span></td></tr>`;

const SCOPES = ["call", "read", "tools", "approve", "work", "admin"];

export class KeysPanel {
  resource = new Resource(() => /** @type {Promise<Api.ApiKeyPage>} */ (api.get(["keys"], { limit: 200 })));

  render() {
    return html`<section class="card"><header class="row-head"><h2>Keys</h2><span class="actions"><button type="button" class="small" onClick=${this.#create}>Create a key</button></span></header>${loaded(this.resource, (page) => this.#table(page))}</section>`;
  }

  /** @param {Api.ApiKeyPage} page */
  #table({ keys, next_cursor: more }) {
    if (!keys.length) return html`<p class="muted">No keys: anyone on this machine may use the service. Creating the first key closes it.</p>`;
    return html`${table("Keys", "Name|Key|Tenant|Scopes|Tools|Created|Last used|Expires|!Actions", keys.map((key) => keyed(key.id, this.#row(key))))}${more ? html`<p class="muted">Only the newest 200 keys are shown.</p>` : null}`;
  }

  /** @param {Api.ApiKey} key */
  #row(key) {
    return html`<tr><th scope="row">${key.name || "(no name)"}</th><td><code>${key.prefix}…</code></td><td>${key.tenant}</td><td>${key.scopes.join(", ")}</td><td>${key.tools.join(", ") || "all"}</td><td>${ago(key.created_at)}</td><td>${ago(key.last_used_at)}</td><td>${key.expires_at ? time(key.expires_at) : "never"}</td>
      <td class="right">${key.revoked_at ? html`<span class="state off">revoked</span>` : html`<button type="button" class="danger small" onClick=${() => this.#revoke(key)}>Revoke</button>`}</td></tr>`;
  }

  #create = async () => {
    const body = () => html`<form class="stacked" onSubmit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); closeDialog(new FormData(/** @type {HTMLFormElement} */ (event.target))); }}>
      <label><span>Name</span><input name="name" maxlength="200" autocomplete="off" /></label>
      <fieldset class="field"><legend>Scopes</legend>${SCOPES.map((scope) => html`<label class="check"><input type="checkbox" name="scopes" value=${scope} defaultChecked=${scope === "call" || scope === "read"} /> ${scope}</label> `)}</fieldset>
      <label><span>Tools (names or patterns, separated by commas; empty for all)</span><input name="tools" autocomplete="off" /></label>
      <label><span>Queues that a worker may fetch from (names or patterns; empty for all)</span><input name="queues" autocomplete="off" /></label>
      <label><span>Expires after (like 30d; empty for never)</span><input name="expires" autocomplete="off" /></label>
      <div class="actions"><button type="button" onClick=${() => closeDialog()}>Back</button><button type="submit" class="primary">Create</button></div></form>`;
    const form = /** @type {FormData | undefined} */ (await openDialog({ title: "Create a key", body }));
    if (!form) return;
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
    const globs = (/** @type {string} */ name) => text(name).split(",").map((one) => one.trim()).filter(Boolean);
    const request = { name: text("name"), scopes: form.getAll("scopes"), tools: globs("tools"), queues: globs("queues"), ...(text("expires") ? { expires: text("expires") } : {}) };
    /** @type {Api.MadeKey | undefined} */
    const made = await act("cannot create the key", () => api.post(["keys"], request), () => `Created the key ${request.name}.`);
    this.resource.load();
    if (made) showOnce(made.key);
  };

  /** @param {Api.ApiKey} key */
  async #revoke(key) {
    const text = html`Requests with <code>${key.prefix}…</code> are refused within 5 seconds, and its open streams end. This cannot be undone.`;
    await confirmed(`Revoke the key ${key.name || key.prefix}?`, text, "Revoke the key", () => api.delete(["keys", key.id]), () => `Revoked ${key.name || key.prefix}.`);
    this.resource.load();
  }
}

/** @param {string} key */
function showOnce(key) {
  openDialog({
    title: "The new key",
    body: () => html`<p>Copy it now. It is not shown again.</p><pre class="code" tabindex="0">${key}</pre>
      <div class="actions"><button type="button" onClick=${() => copy(key, "the key")}>Copy</button><button type="button" class="primary" onClick=${() => closeDialog()}>Done</button></div>`,
  });
}

const REFRESH_MS = 5000;

/** @returns {import("../lib/kit.js").View} */
export function systemView() {
  const service = new ServicePanel();
  const workers = new WorkersPanel();
  const upstreams = new UpstreamsPanel();
  const hooks = new HooksPanel();
  const keys = can("admin") ? new KeysPanel() : null;
  const timer = setInterval(() => {
    for (const { resource } of [service, workers, upstreams]) resource.load();
  }, REFRESH_MS);
  return {
    title: "System",
    render: () => html`<section class="system"><header class="page-head"><h1 tabindex="-1">System</h1></header>
      ${service.render()}${workers.render()}${upstreams.render()}${keys ? keys.render() : html`<section class="card"><h2>Keys</h2><p class="muted">Keys are shown to callers with the scope admin.</p></section>`}${hooks.render()}${service.renderSettings()}</section>`,
    destroy: () => clearInterval(timer),
  };
}

const MAX_DETAILS = 50;

export class UpstreamsPanel {
  resource = new Resource(async () => {
    /** @type {Api.UpstreamList} */
    const list = await api.get(["upstreams"]);
    const details = list.upstreams.slice(0, MAX_DETAILS).map((one) => /** @type {Promise<Api.UpstreamDetails>} */ (api.get(["upstreams", one.name])));
    return Promise.all(details);
  });

  render() {
    return html`<section class="card"><h2>Upstream MCP servers</h2>${loaded(this.resource, (servers) => servers.length ? html`<ul class="plain servers">${servers.map((server) => keyed(server.name, this.#server(server)))}</ul>`
      : html`<p class="muted">None. Declare one under <code>[mcp_servers]</code> in the configuration, or with <code>POST /upstreams</code>.</p>`)}</section>`;
  }

  /** @param {Api.UpstreamDetails} server */
  #server(server) {
    return html`<li><div class="row-head"><strong>${server.name}</strong><span class="state ${server.state === "ready" ? "" : server.state === "starting" ? "off" : "warn"}">${server.state}</span>
        <span class="muted">${server.implementation?.name ?? ""} ${server.implementation?.version ?? ""} · ${server.tools.length} tools · ${server.command ?? server.url ?? ""} · since ${ago(server.since)}${server.restarts ? ` · ${server.restarts} restarts` : ""}</span>
        <span class="actions">${button("admin", "Restart", () => this.#restart(server), "small")}</span></div>
      ${server.last_error ? html`<p class="bad">${server.last_error.message} <span class="muted">${ago(server.last_error.at)}</span></p>` : null}
      ${server.quarantined.length ? html`<p class="note">Changed and not offered to models until accepted: ${server.quarantined.map((tool) => html`<code>${tool}</code> `)}
        ${button("admin", "Accept changes", () => this.#accept(server), "small")}</p>` : null}
      ${server.left_out.length ? html`<details><summary>Tools that cannot be used <span class="count">${server.left_out.length}</span></summary><ul>${server.left_out.map(({ tool, reason }) => html`<li><code>${tool}</code> ${reason}</li>`)}</ul></details>` : null}
      ${server.changes.length ? html`<details><summary>Changes <span class="count">${server.changes.length}</span></summary><ul>${server.changes.map((change) => html`<li><code>${change.tool}</code> ${change.change} ${change.members.join(", ")} <span class="muted">${ago(change.at)}</span></li>`)}</ul></details>` : null}
      ${server.stderr.length ? html`<details><summary>Standard error</summary><pre class="code" tabindex="0">${server.stderr.join("\n")}</pre></details>` : null}</li>`;
  }

  /** @param {Api.UpstreamDetails} server */
  async #restart(server) {
    await confirmed(`Restart ${server.name}?`, "Its calls that run fail or are retried.", "Restart", () => api.post(["upstreams", server.name, "restart"]), () => `Restarting ${server.name}.`);
    this.resource.load();
  }

  /** @param {Api.UpstreamDetails} server */
  async #accept(server) {
    const text = html`Models see the new definitions of ${server.quarantined.map((tool) => html`<code>${tool}</code> `)}at once. Read them first: an upstream server can change what a tool does.`;
    await confirmed(`Accept the changes of ${server.name}?`, text, "Accept", () => api.post(["upstreams", server.name, "accept"], { tools: server.quarantined }), () => `Accepted ${server.quarantined.length} changes of ${server.name}.`);
    this.resource.load();
  }
}

/** @typedef {{ hooks: (Api.Hook & { asked_count?: number, failed_count?: number })[], stats: Api.HookStats }} HooksData */

export class HooksPanel {
  resource = new Resource(async () => {
    const [list, stats] = await Promise.all([can("admin") ? api.get(["hooks"]) : { hooks: [] }, api.get(["stats"])]);
    return /** @type {HooksData} */ ({ hooks: list.hooks, stats: stats.hooks });
  });

  render() {
    return html`<section class="card"><h2>Hooks</h2>${loaded(this.resource, ({ hooks, stats }) => html`
      ${figures({ Asked: count(stats.asked_count), Failed: failures(stats.failed_count), "Blocked a call": count(stats.blocked_count), Dropped: count(stats.dropped_count) })}
      ${hooks.length ? html`${table("Hooks", "Event|Hook|Tools|>Priority|On failure|Source|>Failed|!Actions", hooks.map((hook) => keyed(hook.id, this.#row(hook))))}`
        : html`<p class="muted">${can("admin") ? "None. A hook is a webhook before or after calls; register one with POST /hooks." : "Hooks are shown to callers with the scope admin."}</p>`}`)}</section>`;
  }

  /** @param {HooksData["hooks"][number]} hook */
  #row(hook) {
    return html`<tr><th scope="row">${hook.event}</th><td><code>${hook.url ?? hook.builtin ?? hook.id}</code></td><td>${[...(hook.match?.tools ?? []), ...(hook.match?.groups ?? []).map((group) => `group ${group}`)].join(", ") || "all"}</td><td class="num right">${hook.priority ?? 0}</td><td>${hook.failure_policy ?? "open"}</td><td>${hook.source}</td><td class="num right">${hook.failed_count === undefined ? "–" : count(hook.failed_count)}</td>
      <td class="right">${button("admin", "Delete", () => this.#remove(hook), "danger small", hook.source === "api" ? null : "declared in the settings")}</td></tr>`;
  }

  /** @param {Api.Hook} hook */
  async #remove(hook) {
    await confirmed("Delete this hook?", html`<code>${hook.url ?? hook.builtin ?? hook.id}</code> is no longer asked about calls.`, "Delete the hook", () => api.delete(["hooks", hook.id]), () => "Deleted the hook.");
    this.resource.load();
  }
}
