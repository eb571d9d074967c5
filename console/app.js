// @ts-check
// The page: signs the caller in, and shows the view of the address in its frame.
import { effect, signal, untracked } from "./vendor/signals/signals.js";
import { useLayoutEffect } from "./vendor/preact/hooks.js";
import { act, ApiError, can, currentRoute, dismiss, followUpdates, html, icon, loadCaller, loading, me, navigate, notices, problem, render, say, signIn, signOut, startRouter, update, whenUnauthorized } from "./components/parts.js";
import { inbox } from "./lib/inbox.js";
import { lostStreams } from "./lib/stream.js";
import { liveView } from "./views/live.js";

/** @typedef {import("./lib/kit.js").View} View */
/** @typedef {import("./lib/router.js").Route} Route */

/** @type {Record<string, (id: string | undefined) => Promise<View>>} */
const VIEWS = {
  "": async () => liveView(),
  calls: async (id) => (id ? (await import("./views/call.js")).callView(id) : liveView()),
  tools: async (id) => (id ? (await import("./views/tools.js")).toolView(id) : (await import("./views/tools.js")).toolsView()),
  sessions: async (id) => (id ? (await import("./views/sessions.js")).sessionView(id) : (await import("./views/sessions.js")).sessionsView()),
  stats: async () => (await import("./views/stats.js")).statsView(),
  approvals: async () => (await import("./views/approvals.js")).approvalsView(),
  policies: async () => (await import("./views/rules.js")).policiesView(),
  budgets: async () => (await import("./views/rules.js")).budgetsView(),
  system: async () => (await import("./views/system.js")).systemView(),
  "sign-in": async () => loginView(),
};

/** @typedef {{ view: View | null, key: string, error: unknown, focus: boolean }} Page `focus`: whether the heading is focused. */
const page = signal(/** @type {Page} */ ({ view: null, key: "", error: undefined, focus: false }));

/** @param {Route} route */
async function show(route) {
  const key = route.segments.slice(0, 2).join("/");
  const { view: before, key: known } = page.peek();
  if (before && key === known) {
    before.changed?.(route);
    return update();
  }
  const first = known === "" && !before;
  before?.destroy?.();
  page.value = { view: null, key, error: undefined, focus: false };
  try {
    const view = await (VIEWS[route.segments[0] ?? ""] ?? notFound)(route.segments[1]);
    if (page.peek().key !== key) return view.destroy?.();
    // After a navigation, readers of the screen continue at the new heading.
    page.value = { view, key, error: undefined, focus: !first };
    if (!first) scrollTo(0, 0);
  } catch (error) {
    page.value = { ...page.peek(), error };
  }
}

/** @returns {Promise<View>} */
async function notFound() {
  const body = () => html`<section><h1 tabindex="-1">Not found</h1><p>There is no such page. <a href="calls">Show live calls</a></p></section>`;
  return { title: "Not found", render: body };
}

/** The screen of the address. */
function Screen() {
  followUpdates();
  const { view, error, focus } = page.value;
  useLayoutEffect(() => {
    if (focus && view) /** @type {HTMLElement | null} */ (document.querySelector("main h1"))?.focus({ preventScroll: true });
  }, [view]);
  return view ? view.render() : error ? problem(error, () => start()) : loading();
}

// The title names the screen, and what waits for approval.
effect(() => {
  const { view } = page.value;
  document.title = `${inbox.count && `(${inbox.count}) `}${view ? `${view.title} · ` : ""}Toolpost`;
});

effect(() => {
  me.caller;
  untracked(() => inbox.sync());
});

/** Leads to the sign-in, and back to where the caller was. */
function toLogin() {
  const { segments, path } = currentRoute();
  if (segments[0] === "sign-in") return;
  me.caller = null;
  navigate(`sign-in?to=${encodeURIComponent(path + location.search)}`, { replace: true });
}

async function start() {
  try {
    const known = await loadCaller();
    if (known || currentRoute().segments[0] === "sign-in") await show(currentRoute());
    else toLogin();
  } catch (error) {
    page.value = { ...page.peek(), error };
    // The service may only be starting.
    if (error instanceof ApiError) setTimeout(start, 2000);
  }
}

whenUnauthorized(toLogin);
startRouter(show);
start();

const LINKS = /** @type {const} */ ([
  ["calls", "Live", "live"], ["approvals", "Approvals", "ok"], ["tools", "Tools", "tools"], ["sessions", "Sessions", "sessions"], ["stats", "Statistics", "stats"],
  ["policies", "Policies", "policies"], ["budgets", "Budgets", "budgets"], ["system", "System", "system"],
]);
/** Screens for the scope admin only. */
const ADMIN = ["policies", "budgets"];

/** The frame around the screens. */
function Shell() {
  const current = page.value.key.split("/")[0] || "calls";
  const signedOut = current === "sign-in";
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <div class=${signedOut ? "layout bare" : "layout"}>
    ${signedOut ? null : html`<header class="side"><a class="brand" href="calls"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 4.5h10M8 4.5v8M5 8.5h6" /></svg>Toolpost</a>
      <nav aria-label="Screens">${LINKS.filter(([name]) => !ADMIN.includes(name) || can("admin")).map(([name, label, shape]) => html`<a href=${name} aria-current=${name === current ? "page" : null}>${icon(shape)}<span>${label}</span>${name === "approvals" ? html`<${Pending} />` : null}</a>`)}</nav>
      <${CallerCard} /></header>`}
    <main id="main" tabindex="-1"><${Connection} /><${Screen} /></main></div>
    <${Notices} />`;
}

/** The number of calls that wait for approval. */
const Pending = () => (inbox.count ? html`<span class="pending" aria-label="${inbox.count} pending">${inbox.count}</span>` : null);

const Notices = () => html`<div class="notices" role="status" aria-live="polite">${notices.value.map((notice) => html`<div key=${notice.id} class=${notice.bad ? "notice bad-notice" : "notice"}>
  <span>${notice.text}${notice.detail ? html` <small>${notice.detail}</small>` : null}</span>
  <button type="button" class="quiet small" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>${icon("close")}</button></div>`)}</div>`;

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Connection() {
  return html`<div role="status">${lostStreams.value.length ? html`<p class="connection">Connection lost. Reconnecting; nothing that happens meanwhile is missed.</p>` : null}</div>`;
}

function CallerCard() {
  const { caller } = me;
  if (!caller) return null;
  if (caller.open) return html`<p class="caller muted">Open: no key required</p>`;
  const leave = async () => {
    await act("cannot sign out", signOut, () => "Signed out.");
    navigate("sign-in");
  };
  return html`<div class="caller"><p>${icon("person")} <span>${caller.name ?? "key"}</span></p><p class="muted">${caller.tenant ?? ""} · ${caller.scopes.join(", ")}</p>
    <button type="button" class="quiet small" onClick=${leave}>Sign out</button></div>`;
}

/** @returns {import("./lib/kit.js").View} */
export function loginView() {
  /** @type {unknown} */ let error;
  let busy = false;
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("key"));
    busy = true;
    error = undefined;
    update();
    try {
      await signIn(field.value.trim());
      field.value = "";
      say("Signed in.");
      navigate(currentRoute().query.get("to") || "calls", { replace: true });
    } catch (failure) {
      error = failure;
    }
    busy = false;
    update();
  };
  return {
    title: "Sign in",
    render: () => html`<section class="login"><h1 tabindex="-1">Sign in to Toolpost</h1>
      <p class="muted">This service requires an API key. An operator creates one with <code>toolpost keys create --scope read --scope call</code>.</p>
      <form onSubmit=${submit}><label for="key">API key</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required placeholder="tp_…" aria-invalid=${error ? "true" : null} />
        <button type="submit" class="primary" disabled=${busy}>${busy ? "Checking…" : "Sign in"}</button></form>
      ${error ? problem(error instanceof ApiError && error.status === 401 ? new ApiError(401, { detail: "this key is unknown, expired or revoked", request_id: error.requestId }) : error) : null}</section>`,
  };
}

const root = /** @type {Element} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${Shell} />`, root);
