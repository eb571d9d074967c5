// @ts-check
// Approvals: the calls that wait, oldest first; and what would run, who asks, and the decision.
import { ago, api, ApiError, closeDialog, currentRoute, duration, empty, figures, html, loading, me, missing, openDialog, path, pretty, problem, Resource, say, setQuery, shortArguments, table, time, update } from "../components/parts.js";
import { RecentCalls } from "../components/tool-parts.js";
import { argumentList } from "../components/trees.js";
import { ArgumentsDraft, draftFields } from "../components/try-it.js";
import { scrollToRow, VirtualList } from "../components/virtual-list.js";
import { inbox } from "../lib/inbox.js";
import { changesOf } from "../lib/json-source.js";

/** @typedef {"approve" | "edit" | "reject"} DecisionKind */

const TICK_MS = 1000;
const SAID = /** @type {Record<string, string>} */ ({
  APPROVAL_STALE: "The call has changed since you read it. Read it again before you decide.",
  APPROVAL_DECIDED: "This call no longer waits: it is decided, or it has ended.",
  APPROVAL_SELF: "You made this call, so another person must approve it. You may reject it.",
});
const KINDS = /** @type {const} */ ([["approve", "a", "Approve"], ["edit", "e", "Edit and approve"], ["reject", "r", "Reject"]]);

export class ApprovalPanel {
  busy = false;

  /**
   * @param {string} name The tool.
   * @param {() => unknown} decided What to do after a decision, or when one was too late.
   */
  constructor(name, decided) {
    this.decided = decided;
    this.tool = new Resource(() => /** @type {Promise<Api.ListedTool>} */ (api.get(["tools", name])));
    this.tool.load();
    this.recent = new RecentCalls(name);
  }

  get #schema() {
    return /** @type {import("../lib/schema.js").Schema} */ (this.tool.value?.input_schema ?? {});
  }

  /** @param {Api.ToolCall} call */
  render(call) {
    const approval = /** @type {Api.Approval} */ (call.approval);
    const denied = missing("approve");
    const pending = approval.status === "pending" && call.phase === "approval";
    return html`${pending ? html`<div class="actions">${KINDS.map(([kind, key, label]) => html`<button type="button" class=${LOOKS[kind]} aria-keyshortcuts=${key} disabled=${denied !== null} title=${denied} onClick=${() => this.decide(call, kind)}>${label}</button>`)}</div>` : null}
      ${facts(call, approval)}${approval.reason ? html`<p class="note">${approval.reason}</p>` : null}
      <ul>${approval.decisions.map(({ decision, by, reason, at }) => html`<li>${decision === "approve" ? "Approved" : "Rejected"} by ${by} ${ago(at)}${reason ? `: ${reason}` : ""}</li>`)}</ul>
      ${pending ? html`<h3>Arguments</h3>${argumentList(given(call), this.#schema)}<h3>Recent calls of the tool</h3>${this.recent.render()}` : null}`;
  }

  /**
   * Asks for the reason, and for arguments if they are edited, and sends the decision.
   * @param {Api.ToolCall} call
   * @param {DecisionKind} kind
   */
  decide(call, kind) {
    if (missing("approve")) return;
    const { digest } = /** @type {Api.Approval} */ (call.approval);
    const draft = kind === "edit" ? new ArgumentsDraft(call.name, pretty(given(call)), update) : null;
    const decision = kind === "reject" ? "reject" : "approve";
    /** @type {unknown} */ let failure;
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
      this.busy = true;
      failure = undefined;
      update();
      try {
        await this.#send(call, { decision, digest, reason: form.get("reason"), arguments: draft?.value, remember: form.get("remember") ?? undefined });
        closeDialog();
      } catch (error) {
        failure = error;
        this.#refused(error, draft);
      }
      this.busy = false;
      update();
    };
    openDialog({
      title: `${decision === "reject" ? "Reject" : "Approve"} this call of ${call.name}?`, wide: Boolean(draft),
      body: () => html`<form class="stacked" novalidate onSubmit=${submit}>${draft ? [draftFields(draft, this.#schema), changes(call, draft)] : html`<p class="mono">${shortArguments(given(call), 400)}</p>`}
        <label><span>Reason${draft || decision === "approve" ? "" : " (the model sees it)"}</span><input name="reason" maxlength="2000" autocomplete="off" autofocus=${!draft} /></label>
        ${call.session && decision === "approve" ? html`<label class="check"><input type="checkbox" name="remember" value="session" /> Also approve equal calls for the rest of the session</label>` : null}
        ${failure ? problem(failure) : null}
        <div class="actions"><button type="button" onClick=${() => closeDialog()}>Back</button><button type="submit" class=${LOOKS[kind] || "primary"} disabled=${this.busy || draft?.broken}>${decision === "reject" ? "Reject" : "Approve"}</button></div></form>`,
    });
  }

  /**
   * @param {Api.ToolCall} call
   * @param {Record<string, unknown>} body
   */
  async #send(call, body) {
    /** @type {Api.ToolCall} */
    const { approval } = await api.post(["tool-calls", call.id, "approval"], body);
    const left = approval?.status === "pending" ? approval.min_approvals - approval.decisions.length : 0;
    say(`${body.decision === "reject" ? "Rejected" : "Approved"} ${call.name}.${left ? ` It waits for ${left} more.` : ""}`);
    this.decided();
  }

  /** @type {(error: unknown, draft: ArgumentsDraft | null) => void} Shows why a decision does not count. */
  #refused(error, draft) {
    if (!(error instanceof ApiError)) return;
    if (SAID[error.code]) {
      closeDialog();
      say(SAID[error.code], { bad: true });
      this.decided();
    }
    if (error.status === 422) draft?.fail(error.errors.map(({ pointer, message }) => ({ pointer: pointer.replace("/arguments", ""), message })));
  }
}

const LOOKS = { approve: "primary", edit: "", reject: "danger" };

/** @param {Api.ToolCall} call */
const given = (call) => /** @type {Record<string, unknown>} */ (call.effective_arguments ?? {});

/** @type {(call: Api.ToolCall, approval: Api.Approval) => unknown} */
function facts({ session }, { status, required_by, policy, decisions, min_approvals, requested_at, requested_by, expires_at }) {
  const own = requested_by && requested_by === me.caller?.key_id;
  return figures({
    Approval: `${status}, ${decisions.filter(({ decision }) => decision === "approve").length} of ${min_approvals}`,
    "Asked by": required_by === "policy" ? html`the policy <a href="policies?edit=${encodeURIComponent(policy ?? "")}">${policy}</a>` : "the tool",
    Requested: time(requested_at),
    Expires: status === "pending" ? `in ${duration(Math.max(0, Date.parse(expires_at) - Date.now()))}` : time(expires_at),
    "Made by": requested_by && `${requested_by}${own ? " (your key)" : ""}`,
    Session: session && html`<a href=${path("sessions", session)}>${session}</a>`,
  }, "facts");
}

/** @type {(call: Api.ToolCall, draft: ArgumentsDraft) => unknown} */
function changes(call, draft) {
  const list = draft.broken ? [] : changesOf(given(call), draft.value);
  const shown = (/** @type {unknown} */ value) => JSON.stringify(value) ?? "absent";
  return list.length ? table("Changes", "Changed|Old|New", list.map(({ pointer, before, after }) => html`<tr><th scope="row"><code>${pointer || "/"}</code></th><td><del>${shown(before)}</del></td><td><ins>${shown(after)}</ins></td></tr>`)) : html`<p class="muted">Nothing is changed.</p>`;
}

class ApprovalsScreen {
  /** The call that is shown, also after it was decided. @type {Api.ToolCall | undefined} */ call;
  /** @type {ApprovalPanel | undefined} */ panel;
  #place = 0;

  /** Shows the call of the address, or else the one that is next. */
  #select() {
    const { calls } = inbox;
    const wanted = currentRoute().query.get("call");
    const found = inbox.get(wanted);
    if (!found && this.call && (!wanted || wanted === this.call.id)) return;
    const call = found ?? calls[Math.min(this.#place, calls.length - 1)];
    if (!call) return;
    this.#place = calls.indexOf(call);
    if (this.call?.id !== call.id) {
      this.close();
      this.panel = new ApprovalPanel(call.name, () => this.#after(call.id));
    }
    this.call = call;
  }

  /**
   * Shows the next call after a decision, or the same one as it is now.
   * @param {string} id
   */
  async #after(id) {
    await inbox.read(id);
    if (inbox.get(id)) return;
    this.call = undefined;
    this.#go(0);
  }

  /** @param {number} step */
  #go(step) {
    const { calls } = inbox;
    const at = Math.max(0, Math.min(calls.length - 1, this.#place + step));
    this.#place = at;
    setQuery({ call: calls[at]?.id });
    scrollToRow(at - 3);
    update();
    // The screen shows the call in the next frame.
    requestAnimationFrame(() => setTimeout(() => /** @type {HTMLElement | null} */ (document.querySelector("#approval h2") ?? document.querySelector("main h1"))?.focus({ preventScroll: true })));
  }

  /** @param {KeyboardEvent} event */
  #key = (event) => {
    const { key, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey) return;
    const kind = KINDS.find(([, letter]) => letter === key)?.[0];
    if (key === "j" || key === "k") this.#go(key === "j" ? 1 : -1);
    else if (kind && this.call && inbox.get(this.call.id)) this.panel?.decide(this.call, kind);
    else return;
    event.preventDefault();
  };

  close() {
    this.panel?.recent.close();
  }

  render() {
    this.#select();
    const { call, panel } = this;
    const { calls } = inbox;
    return html`<section tabindex="-1" onKeyDown=${this.#key}>
      <header class="page-head"><h1 tabindex="-1">Approvals</h1><span class="muted" id="approvals-count">${inbox.loaded ? `${inbox.count || "none"} pending` : ""}</span>
        <span class="muted wide-only">Keys: <kbd>j</kbd> next, <kbd>k</kbd> previous, <kbd>a</kbd> approve, <kbd>e</kbd> edit, <kbd>r</kbd> reject, <kbd>Esc</kbd> back</span></header>
      ${inbox.error ? problem(inbox.error, () => inbox.reload()) : calls.length ? null : inbox.loaded ? nothing() : loading()}
      <div class="inbox">${calls.length ? html`<div role="table" aria-label="Pending approvals" aria-rowcount=${calls.length} class="list-frame"><${VirtualList} count=${calls.length} row=${(/** @type {number} */ index) => row(calls[index], index, call)} onEnd=${() => inbox.more()} /></div>` : null}
        ${call && panel ? html`<div class="card try" id="approval"><h2 tabindex="-1">${call.name}</h2><p><a href=${path("calls", call.id)}>Open the call</a></p>${panel.render(call)}</div>` : null}</div></section>`;
  }
}

/** @type {(call: Api.ToolCall, index: number, selected: Api.ToolCall | undefined) => any} */
function row({ id, name, effective_arguments, created_at }, index, selected) {
  const current = id === selected?.id;
  return html`<div key=${id} role="row" aria-rowindex=${index + 1} class="call-row${current ? " selected" : ""}"><span role="cell" class="cell-tool"><a href="approvals?call=${id}" aria-current=${current ? "true" : null}>${name}</a></span><span role="cell" class="cell-arguments mono">${shortArguments(effective_arguments)}</span><span role="cell" class="cell-time num">${ago(created_at)}</span></div>`;
}

const nothing = () => empty("Nothing waits for approval", "A call waits here if its tool or a policy requires a person. Make one:",
  ["tools", { name: "pay", approval: {}, executor: { type: "builtin", name: "echo" } }], ["tool-calls", { name: "pay", arguments: { amount: 5 } }]);

/** @returns {import("../lib/kit.js").View} */
export function approvalsView() {
  const screen = new ApprovalsScreen();
  const clock = setInterval(update, TICK_MS);
  const destroy = () => {
    clearInterval(clock);
    screen.close();
  };
  return { title: "Approvals", render: () => screen.render(), changed: update, destroy };
}
