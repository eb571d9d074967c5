// @ts-check
// Rules about calls: policies, with a trial on stored calls next to their editor, and budgets with their use.
import { act, api, ApiError, choice, confirmed, count, currentRoute, debounced, duration, empty, failures, figures, html, keyed, loaded, missing, path, problem, Resource, say, setQuery, shares, short, table, time, update } from "../components/parts.js";
import { JsonEditor } from "../components/editor.js";
import { schemaForm } from "../components/schema-form.js";
import { placeInText, withValueAt } from "../lib/json-source.js";
import { sinceTime } from "../lib/rows.js";

/** @typedef {import("../lib/json-source.js").Path} Path */
/** @typedef {Record<string, any>} Rule */
/** @typedef {{ segment: "policies" | "budgets", noun: string, title: string, about: string, fields: Record<string, any>, blank: Rule, columns: string, row: (rule: Rule, index: number, screen: RulesScreen) => unknown }} Kind */

const REFRESH_MS = 5000;
const TRIAL_MS = 500;
const PERIODS = [["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"]];

class RuleEditor {
  /** Messages by JSON Pointer. @type {Map<string, string[]>} */ messages = new Map();
  /** @type {unknown} */ failure = undefined;
  since = "24h";
  trial = new Resource(() => this.#try());
  #later = debounced(TRIAL_MS, () => this.trial.load());

  /**
   * @param {RulesScreen} screen
   * @param {Rule | undefined} rule The rule to replace.
   */
  constructor(screen, rule) {
    const { fields, blank } = screen.kind;
    this.screen = screen;
    this.name = rule?.name;
    const { name, ...others } = fields;
    this.fields = rule ? others : fields;
    const members = ["when", ...Object.keys(this.fields)];
    this.value = rule ? Object.fromEntries(Object.entries(rule).filter(([member, value]) => members.includes(member) && value !== null)) : blank;
  }

  /** @type {(path: Path, value: unknown) => void} */
  set = (path, value) => {
    this.value = withValueAt(this.value, path, value);
    this.failure = undefined;
    if (this.value.when !== undefined) this.#later();
    update();
  };

  /** @returns {Promise<Api.PolicyTestResult>} */
  async #try() {
    try {
      const policy = { ...this.value, name: this.name ?? (this.value.name || "new") };
      /** @type {Api.PolicyTestResult} */
      const result = await api.post(["policies", "test"], { policy, since: sinceTime(this.since, Date.now()) });
      this.messages = new Map();
      return result;
    } catch (error) {
      this.#mark(error);
      throw error;
    }
  }

  /** @param {unknown} error */
  #mark(error) {
    this.messages = new Map(error instanceof ApiError ? error.errors.map(({ pointer, message }) => [pointer.replace("/policy", ""), [message]]) : []);
  }

  #save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const { kind, resource, leave } = this.screen;
    try {
      /** @type {Rule} */
      const saved = this.name ? await api.put([kind.segment, this.name], this.value) : await api.post([kind.segment], this.value);
      say(`${this.name ? "Saved" : "Created"} the ${kind.noun} ${saved.name}.`);
      resource.load();
      leave();
    } catch (error) {
      this.failure = error;
      this.#mark(error);
    }
    update();
  };

  render() {
    const { noun } = this.screen.kind;
    const { when, ...value } = this.value;
    return html`<form class="card try" novalidate onSubmit=${this.#save}><h2>${this.name ? `Change ${this.name}` : `New ${noun}`}</h2><div class="columns"><div>${when === undefined ? null : this.#condition(when)}
      ${schemaForm({ root: { type: "object", required: ["name"], properties: this.fields }, value, errors: this.messages, set: this.set })}${this.failure ? problem(this.failure) : null}
      <div class="actions"><button type="submit" class="primary">Save</button><button type="button" onClick=${this.screen.leave}>Back</button></div></div>${when === undefined ? null : this.#trial()}</div></form>`;
  }

  /** @param {string} when */
  #condition(when) {
    const errors = (this.messages.get("/when") ?? []).map((message) => placeInText(when, message));
    return html`<${JsonEditor} label="Condition in CEL" value=${when} errors=${errors} rows=${4} onInput=${(/** @type {string} */ text) => this.set(["when"], text)} />`;
  }

  #trial() {
    const since = currentRoute().query.get("since") ?? this.since;
    if (since !== this.since) {
      this.since = since;
      this.#later();
    }
    return html`<section aria-label="Trial"><h3>What would have been decided</h3><div class="inline">${choice("since", "Calls of the", PERIODS, since)}<button type="button" onClick=${() => this.trial.load()}>Try</button></div>
      ${this.messages.has("/when") ? html`<p class="muted">Correct the condition first.</p>` : loaded(this.trial, trialResult)}</section>`;
  }
}

/** @param {Api.PolicyTestResult} result */
function trialResult({ evaluated, allowed, denied, approval, failed, changed, examples }) {
  return html`<div role="status">${figures({ Calls: count(evaluated), Allowed: count(allowed), Denied: count(denied), "Need approval": count(approval), Failed: failures(failed), Changed: count(changed) })}</div>
    ${examples.length ? table("Changed calls", "Call|Before|Now", examples.map(({ id, name, before, after }) => html`<tr><th scope="row"><a href=${path("calls", id)}>${name}</a></th><td>${before}</td><td>${after}</td></tr>`)) : html`<p class="muted">Nothing would have been decided otherwise.</p>`}`;
}

class RulesScreen {
  /** @type {RuleEditor | null} */ editor = null;

  /** @param {Kind} kind */
  constructor(kind) {
    this.kind = kind;
    this.resource = new Resource(async () => /** @type {Rule[]} */ ((await api.get([kind.segment]))[kind.segment]));
  }

  /** Shows the list again, where the focus continues. */
  leave = () => {
    setQuery({ edit: null, since: null });
    /** @type {HTMLElement | null} */ (document.querySelector("main h1"))?.focus();
  };

  render() {
    const { title, noun, segment } = this.kind;
    return html`<section><header class="page-head"><h1 tabindex="-1">${title}</h1><div class="actions"><a class="button primary" href="${segment}?edit=" aria-disabled=${missing("admin") && "true"}>Create a ${noun}</a></div></header>
      ${loaded(this.resource, (rules) => [this.#edited(rules), this.#list(rules)])}</section>`;
  }

  /** @param {Rule[]} rules */
  #edited(rules) {
    const name = currentRoute().query.get("edit");
    const rule = rules.find((one) => one.name === name && one.source !== "config");
    if (!rule && name !== "") return (this.editor = null);
    if (!this.editor || this.editor.name !== rule?.name) this.editor = new RuleEditor(this, rule);
    return this.editor.render();
  }

  /** @param {Rule[]} rules */
  #list(rules) {
    const { title, about, blank, columns, row, segment } = this.kind;
    if (!rules.length) return empty(`No ${title.toLowerCase()}`, `${about} Create one:`, [segment, { ...blank, name: "first" }]);
    return table(title, `Name|${columns}|!Actions`, rules.map((rule, index) => keyed(rule.name, html`<tr><th scope="row">${rule.name}</th>${row(rule, index, this)}<td class="right">${rule.source === "config" ? "in the settings"
      : html`<a class="button small" href="${segment}?edit=${encodeURIComponent(rule.name)}">Edit</a> <button type="button" class="danger small" onClick=${() => this.#remove(rule)}>Delete</button>`}</td></tr>`)));
  }

  /** @param {Rule} rule */
  async #remove({ name }) {
    const { noun, segment } = this.kind;
    await confirmed(`Delete the ${noun} ${name}?`, "It no longer applies to new calls.", `Delete the ${noun}`, () => api.delete([segment, name]), () => `Deleted the ${noun} ${name}.`);
    this.resource.load();
  }

  /** @param {Rule} policy */
  async toggle({ name, when, effect, priority, reason, enabled }) {
    await act("cannot change the policy", () => api.put(["policies", name], { when, effect, priority, reason, enabled: !enabled }), () => `${enabled ? "Disabled" : "Enabled"} the policy ${name}.`);
    this.resource.load();
  }
}

const NAME = { type: "string", maxLength: 128 };
const PATTERNS = { type: "array", items: NAME };
const COUNT = { type: "integer", minimum: 1 };

/** @type {Kind} */
const POLICIES = {
  segment: "policies", noun: "policy", title: "Policies", about: "A policy allows calls, denies them, or asks for approval. Without one, every call is allowed.",
  fields: { name: NAME, effect: { enum: ["allow", "deny", "approve"] }, priority: { type: "integer", description: "Higher values are evaluated first." }, reason: { type: "string", description: "Models and approvers see it." }, enabled: { type: "boolean" } },
  blank: { name: "", when: 'tool.name == "pay" && args.amount > 100', effect: "approve", priority: 0, enabled: true },
  columns: ">Order|Effect|Condition|Reason|>Priority|Enabled",
  row: (policy, index, screen) => html`<td class="num right">${index + 1}</td><td class="num">${policy.effect}</td><td><code>${policy.when}</code></td><td>${policy.reason}</td><td class="num right">${policy.priority}</td>
    <td><input type="checkbox" role="switch" aria-label="Enable ${policy.name}" checked=${policy.enabled} disabled=${policy.source === "config"} onChange=${() => screen.toggle(policy)} /></td>`,
};

/** @type {Kind} */
const BUDGETS = {
  segment: "budgets", noun: "budget", title: "Budgets", about: "A budget limits the number or the cost of calls in a window of time.",
  fields: { name: NAME, match: { type: "object", description: "The calls that count. Absent members match all.", properties: { tools: PATTERNS, sessions: PATTERNS, keys: PATTERNS } }, window_ms: { ...COUNT, description: "Length of the window in milliseconds." }, max_calls: COUNT, max_cost: { type: "number", minimum: 0 } },
  blank: { name: "", window_ms: 3600e3, max_calls: 100 },
  columns: "Matches|Window|Use|Refills",
  row: ({ match, window_ms, calls, cost, resets_at }) => html`<td>${matched(match)}</td><td class="num">${duration(window_ms)}</td><td>${use(calls, "calls")}${use(cost, "cost")}</td><td class="num">${time(resets_at)}</td>`,
};

/** @param {Record<string, string[]> | undefined} match */
function matched(match) {
  const list = Object.entries(match ?? {}).filter(([, patterns]) => patterns?.length);
  return list.length ? list.map(([kind, patterns]) => html`<div>${kind}: <code>${patterns.join(", ")}</code></div>`) : "all calls";
}

/** @typedef {import("../lib/format.js").Amounts} Amounts */

/** @type {(amounts: Amounts | null, unit: string) => unknown} */
function use(amounts, unit) {
  if (!amounts) return null;
  const [used, taken] = shares(amounts);
  return html`<svg class="bar" aria-hidden="true"><rect class="warn" width="${taken}%" height="100%" /><rect class=${taken < 100 ? "ok" : "bad"} width="${used}%" height="100%" /></svg>
    <div class="num">${short(amounts.used)} used, ${short(amounts.reserved)} reserved of ${short(amounts.limit)} ${unit}</div>`;
}

/** @type {(kind: Kind) => import("../lib/kit.js").View} */
function rulesView(kind) {
  const screen = new RulesScreen(kind);
  const timer = setInterval(() => screen.resource.load(), REFRESH_MS);
  return { title: kind.title, render: () => screen.render(), changed: update, destroy: () => clearInterval(timer) };
}

export const policiesView = () => rulesView(POLICIES);
export const budgetsView = () => rulesView(BUDGETS);
