// @ts-check
// One call: its state, its timeline, its parts, and what can be done with it.
import { act, api, apiRoot, badge, button, clip, closeDialog, confirmed, copy, currentRoute, duration, figures, html, loading, me, navigate, openDialog, parseJson, path, pretty, problem, tabs, time, update } from "../components/parts.js";
import { jsonTree, output, schemaTree, timelineView } from "../components/trees.js";
import { ArgumentsDraft } from "../components/try-it.js";
import { ApprovalPanel } from "./approvals.js";
import { snippet } from "../lib/snippets.js";
import { CallWatch, isEnded } from "../lib/stream.js";
import { JsonEditor } from "../components/editor.js";

/**
 * @param {string} id
 * @returns {import("../lib/kit.js").View}
 */
export function callView(id) {
  let watch = new CallWatch(id);
  /** @type {ApprovalPanel | undefined} */ let panel;
  const reload = () => {
    watch.close();
    watch = new CallWatch(id);
  };
  return {
    title: `Call ${id.slice(-8)}`,
    render: () => html`<section class="call">${watch.call ? body(watch, watch.call, () => (panel ??= new ApprovalPanel(/** @type {Api.ToolCall} */ (watch.call).name, () => watch.refresh()))) : html`<h1 tabindex="-1">Call</h1>`}
      ${watch.error ? problem(watch.error, reload) : watch.call ? null : loading()}</section>`,
    destroy() {
      watch.close();
      panel?.recent.close();
    },
  };
}

/** @type {(watch: CallWatch, call: Api.ToolCall, panel: () => ApprovalPanel) => unknown} */
function body(watch, call, panel) {
  const timeline = watch.timeline();
  return html`<header class="page-head"><h1 tabindex="-1">${call.name}</h1>${badge(call.status, call.phase)}<span class="num elapsed">${elapsed(call)}</span>${callActions(call)}</header>
    ${facts(call)}${live(call)}${call.approval ? html`<section class="card try" aria-label="Approval"><h2>Approval</h2>${panel().render(call)}</section>` : null}
    ${timeline ? html`<h2>Timeline</h2>${timelineView(timeline, Date.now())}` : null}
    ${callTabs(watch, call, currentRoute().query.get("tab"))}`;
}

/** @param {Api.ToolCall} call */
function elapsed(call) {
  if (isEnded(call)) return duration(call.duration_ms);
  const since = call.started_at ?? call.created_at;
  return `${duration(Math.max(0, Date.now() - Date.parse(since)))} so far`;
}

/** @param {Api.ToolCall} call */
function live({ tip, progress, status }) {
  if (status === "SUCCESS" || status === "ERROR") return null;
  const value = progress?.total ? progress.current / progress.total : null;
  if (!tip && !progress) return null;
  return html`<div class="live-progress"><span>${tip ?? ""} ${progress?.message ?? ""}</span>${value === null ? null : html`<progress max="1" value=${value} aria-label="Progress"></progress>`}</div>`;
}

/** @param {Api.ToolCall} call */
function facts(call) {
  const metadata = /** @type {Record<string, any>} */ (call.metadata ?? {});
  /** @type {[string, unknown][]} */
  const list = [
    ["Id", html`<button type="button" class="link mono" title="Copy the id" onClick=${() => copy(call.id, "the id")}>${call.id}</button>`],
    ["Tool", html`<a href=${path("tools", call.name)}>${call.title}</a>`],
    ["Accepted", html`<time datetime=${call.created_at}>${time(call.created_at)}</time>`],
    ["Queued", duration(call.queued_ms)],
    ["Attempts", call.attempts],
  ];
  if (call.call_id !== call.id) list.push(["Call id", html`<code>${call.call_id}</code>`]);
  if (call.session) list.push(["Session", html`<a href=${path("sessions", call.session)}>${call.session}</a>`]);
  if (call.batch_id) list.push(["Batch", html`<a href="calls?batch_id=${call.batch_id}">${call.index + 1}. of its batch</a>`]);
  if (call.cached) list.push(["Cache", "answered from the cache"]);
  if (typeof metadata.rerun_of === "string") list.push(["Rerun of", html`<a href=${path("calls", metadata.rerun_of)}>${metadata.rerun_of}</a>`]);
  if (typeof metadata.parent === "string") list.push(["Made by", html`<a href=${path("calls", metadata.parent)}>${metadata.parent}</a>`]);
  list.push(["Node", html`<code>${call.node}</code>`]);
  return figures(Object.fromEntries(list), "facts");
}

/** @param {Api.ToolCall} call */
export function callActions(call) {
  const ended = isEnded(call);
  const early = ended ? null : "after the call has ended";
  return html`<div class="actions">
    ${ended ? null : button("call", "Cancel", () => cancel(call), "danger")}${button("call", "Rerun", () => rerun(call), "", early)}${button("call", "Edit and rerun", () => edit(call), "", early)}
    <button type="button" popovertarget="copy-menu">Copy as…</button>
    <div popover id="copy-menu" class="menu">${copyButton(call, "curl", "curl")}${copyButton(call, "python", "Python")}${copyButton(call, "typescript", "TypeScript")}</div></div>`;
}

/** @type {(call: Api.ToolCall, language: import("../lib/snippets.js").Language, label: string) => unknown} */
function copyButton(call, language, label) {
  const write = () => {
    copy(snippet(language, apiRoot, call, !me.caller?.open), `the call as ${label}`);
    document.getElementById("copy-menu")?.hidePopover();
  };
  return html`<button type="button" class="quiet" onClick=${write}>${label}</button>`;
}

/** @param {Api.ToolCall} call */
function cancel(call) {
  confirmed(`Cancel this call of ${call.name}?`, "The work of the tool is stopped, and the call ends with the error CANCELLED.", "Cancel the call", () => api.post(["tool-calls", call.id, "cancel"]), () => "Asked the tool to stop.");
}

/**
 * @param {Api.ToolCall} call
 * @param {unknown} [changed]
 */
async function rerun(call, changed) {
  const body = changed === undefined ? {} : { arguments: changed };
  const started = await act("cannot rerun the call", () => api.post(["tool-calls", call.id, "rerun"], body), () => `Started ${call.name} again.`);
  if (started) navigate(path("calls", /** @type {Api.ToolCall} */ (started).id));
}

/** @param {Api.ToolCall} call */
async function edit(call) {
  const draft = new ArgumentsDraft(call.name, pretty(parsed(call.arguments)), update);
  const changed = await openDialog({
    title: `Rerun ${call.name} with other arguments`,
    wide: true,
    body: () => html`<${JsonEditor} label="Arguments as JSON" value=${draft.text} errors=${draft.errors} onInput=${(/** @type {string} */ text) => draft.setText(text)} />
      <p class=${draft.valid ? "muted" : "bad"}>${draft.summary}</p>
      <div class="actions"><button type="button" onClick=${() => closeDialog()}>Back</button>
      <button type="button" class="primary" disabled=${draft.broken} onClick=${() => closeDialog({ value: draft.value })}>Run</button></div>`,
  });
  if (changed) await rerun(call, /** @type {{ value: unknown }} */ (changed).value);
}

/** @param {unknown} given */
function parsed(given) {
  if (typeof given !== "string") return given ?? {};
  try {
    return parseJson(given);
  } catch {
    return given;
  }
}

/**
 * @param {CallWatch} watch
 * @param {Api.ToolCall} call
 * @param {string | null} selected
 */
export function callTabs(watch, call, selected) {
  const list = [
    { name: "output", label: "Output for the model", content: () => output(call) },
    { name: "arguments", label: "Arguments", note: call.coerced.length ? `${call.coerced.length} coerced` : "", content: () => argumentsTab(call) },
    { name: "structured", label: "Structured", content: () => value(call.structured, "No structured result.") },
    { name: "details", label: "Details", content: () => details(call) },
    { name: "events", label: "Events", note: watch.events.length, content: () => events(watch) },
  ];
  const { error } = call;
  if (error) list.unshift({ name: "error", label: "Error", content: () => errorTab(error) });
  return tabs("Parts of the call", list, selected);
}

/** @type {(given: unknown, none: string) => unknown} */
function value(given, none) {
  if (given === null || given === undefined) return html`<p class="muted">${none}</p>`;
  return html`<div class="tools-right"><button type="button" class="quiet small" onClick=${() => copy(pretty(given), "the JSON")}>Copy JSON</button></div>${jsonTree(given)}`;
}

/** @param {Api.ToolCall} call */
function argumentsTab(call) {
  const marks = new Map(call.coerced.map(({ pointer, from, to }) => [pointer, to === "absent" ? `removed ${from}` : `converted from ${from}`]));
  const given = typeof call.arguments === "string" ? html`<pre class="code" tabindex="0">${call.arguments}</pre>` : value(call.arguments, "No arguments.");
  const dropped = /** @type {any} */ (call.metadata)?.dropped_arguments;
  return html`<div class="columns"><div><h3>As sent</h3>${given}</div><div><h3>As used</h3>${
    call.effective_arguments ? [jsonTree(call.effective_arguments, marks), removed(call)] : html`<p class="muted">The tool did not run, so no arguments were used.</p>`
  }</div></div>${dropped ? html`<h3>Dropped, because presets take precedence</h3>${jsonTree(dropped)}` : null}`;
}

/** @param {Api.ToolCall} call */
function removed({ coerced }) {
  const absent = coerced.filter(({ to }) => to === "absent");
  return absent.length ? html`<p class="muted">Removed: ${absent.map(({ pointer, from }) => `${pointer} (${from})`).join(", ")}</p>` : null;
}

/** @param {Api.ToolCall} call */
function details(call) {
  return html`<div class="columns"><div><h3>Details for people</h3>${value(call.details, "No details yet.")}</div>
    <div><h3>Metadata</h3>${value(call.metadata, "No metadata.")}<h3>Limits</h3>${value(call.limits, "No limits.")}</div></div>`;
}

/** @param {CallWatch} watch */
function events({ events, hasEvents }) {
  if (!events.length) return hasEvents ? html`<p class="muted">No events are stored for this call.</p>` : loading();
  return html`<ol class="events">${events.map(({ id, event, data }) => html`<li><details><summary><code>${event}</code> <span class="muted">${eventText(event, data)}</span> <span class="muted num">${id}</span></summary>${jsonTree(data)}</details></li>`)}</ol>`;
}

/** @type {(event: string, data: any) => string} */
function eventText(event, data) {
  if (event === "status") return `${data.status} ${data.phase}${data.progress ? ` · ${data.progress.message ?? data.progress.current}` : ""}`;
  if (event === "hook_error") return `${data.event}: ${data.reason}`;
  if (event === "tool_result") return clip(data.output ?? "", 100);
  return "";
}

/** @param {Api.Failure} error */
function errorTab(error) {
  const details = /** @type {Record<string, any>} */ (error.details ?? {});
  const violations = Array.isArray(details.validation_errors) ? details.validation_errors : [];
  const retry = error.retryable ? `A caller may try again${error.retry_after_ms ? ` after ${duration(error.retry_after_ms)}` : ""}.` : "Trying again without a change does not help.";
  return html`<p class="error-title"><code>${error.code}</code> ${error.message}</p><p class="muted">${retry}</p>
    ${violations.length ? validation(violations, details) : null}
    ${error.details && !violations.length ? jsonTree(error.details) : null}`;
}

/** @type {(violations: any[], details: Record<string, any>) => unknown} */
function validation(violations, details) {
  const byMember = new Map();
  for (const { pointer, property, message } of violations) {
    const name = pointer.split("/")[1]?.replace(/~1/g, "/").replace(/~0/g, "~") ?? property ?? "";
    byMember.set(name, [...(byMember.get(name) ?? []), message]);
  }
  const marks = new Map(violations.map(({ pointer, message }) => [pointer, message]));
  return html`<ul class="violations">${violations.map(({ pointer, message, keyword }) => html`<li><code>${pointer || "/"}</code> ${message} <span class="muted">${keyword}</span></li>`)}</ul>
    <div class="columns"><div><h3>Received</h3>${jsonTree(details.received, marks)}</div>
    <div><h3>Expected</h3>${details.expected_schema ? schemaTree(details.expected_schema, byMember) : null}</div></div>`;
}
