// Unit tests of the list of approvals, with a service that only lists.
import { beforeEach, test } from "node:test";
import assert from "node:assert/strict";

const id = (number) => `0197-${String(number).padStart(4, "0")}`;
const waiting = (number, digest = "d1") => ({ id: id(number), name: "pay", phase: "approval", effective_arguments: { digest }, approval: { status: "pending", digest, decisions: [] } });

/** What the service lists, and the cursors that it was asked for. */
const service = { calls: [], cursors: [] };
class Source {
  addEventListener() {}
  close() {}
}
Object.assign(globalThis, {
  document: { baseURI: "http://127.0.0.1/console/", querySelector: () => null }, EventSource: Source, requestAnimationFrame: () => 0,
  async fetch(url) {
    const query = new URL(url).searchParams;
    const [cursor, limit] = [query.get("cursor") ?? "", Number(query.get("limit"))];
    service.cursors.push(cursor);
    const rest = service.calls.filter((call) => call.id > cursor);
    const approvals = rest.slice(0, limit);
    return new Response(JSON.stringify({ approvals, next_cursor: rest.length > limit ? approvals.at(-1).id : null }));
  },
});
const { Inbox } = await import("../../../console/lib/inbox.js");
const { me } = await import("../../../console/lib/api.js");
me.caller = { open: true, scopes: [] };

const ids = (inbox) => inbox.calls.map((call) => call.id);
beforeEach(() => Object.assign(service, { calls: [], cursors: [] }));

test("calls_are_listed_oldest_first_and_read_in_pages", async () => {
  service.calls = Array.from({ length: 900 }, (_, index) => waiting(index));
  const inbox = new Inbox();
  await inbox.reload();
  assert.equal(inbox.count, "200+");
  await inbox.more();
  await inbox.more();
  await inbox.more();
  assert.equal(inbox.count, "900");
  assert.deepEqual(service.cursors, ["", id(199), id(699)]);
  assert.deepEqual(ids(inbox), service.calls.map((call) => call.id));
});

test("a_request_is_added_in_its_place", async () => {
  service.calls = [waiting(1), waiting(5)];
  const inbox = new Inbox();
  await inbox.reload();
  service.calls = [waiting(1), waiting(3), waiting(5), waiting(7)];
  inbox.apply(waiting(7));
  inbox.apply(waiting(3));
  await inbox.read(id(3));
  assert.deepEqual(ids(inbox), [id(1), id(3), id(5), id(7)]);
  assert.deepEqual(service.cursors, ["", id(1)], "both are read with one request");
});

test("requests_behind_the_loaded_pages_come_with_their_page", async () => {
  service.calls = Array.from({ length: 201 }, (_, index) => waiting(index));
  const inbox = new Inbox();
  await inbox.reload();
  await inbox.read(id(300));
  assert.equal(service.cursors.length, 1);
  assert.equal(inbox.count, "200+");
});

test("a_decision_removes_the_call_and_shows_what_was_decided", async () => {
  service.calls = [waiting(1), waiting(2)];
  const inbox = new Inbox();
  await inbox.reload();
  const seen = inbox.get(id(1));
  const approval = { status: "approved", digest: "d1", decisions: [{ decision: "approve", by: "ann" }] };
  inbox.apply({ id: id(1), phase: "queued", approval });
  assert.deepEqual([ids(inbox), seen.approval], [[id(2)], approval]);
  // A page that was requested before the decision still has the call.
  await inbox.read(id(2));
  assert.deepEqual(ids(inbox), [id(2)]);
});

test("a_cancelled_call_leaves_the_list", async () => {
  service.calls = [waiting(1)];
  const inbox = new Inbox();
  await inbox.reload();
  inbox.apply({ ...waiting(1), phase: "done" });
  assert.equal(inbox.count, "");
});

test("a_page_of_before_a_reload_is_ignored", async () => {
  service.calls = Array.from({ length: 900 }, (_, index) => waiting(index));
  const inbox = new Inbox();
  await inbox.reload();
  const earlier = inbox.more();
  await inbox.reload();
  await earlier;
  assert.deepEqual(ids(inbox), service.calls.slice(0, 200).map((call) => call.id));
  await inbox.more();
  assert.deepEqual(service.cursors, ["", id(199), "", id(199)]);
});

test("a_reload_keeps_what_is_known_until_it_has_the_first_page", async () => {
  service.calls = [waiting(1), waiting(2)];
  const inbox = new Inbox();
  await inbox.reload();
  service.calls = [waiting(2), waiting(3)];
  const reloaded = inbox.reload();
  assert.deepEqual(ids(inbox), [id(1), id(2)]);
  await reloaded;
  assert.deepEqual(ids(inbox), [id(2), id(3)]);
});

test("a_failed_request_is_sent_again", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  service.calls = [waiting(1)];
  const inbox = new Inbox();
  const { fetch } = globalThis;
  globalThis.fetch = async () => new Response(null, { status: 503 });
  await inbox.reload();
  globalThis.fetch = fetch;
  assert.equal(inbox.error.status, 503);
  context.mock.timers.tick(5000);
  context.mock.timers.reset();
  // The answer is there a few turns later.
  for (let turn = 0; turn < 50 && !inbox.loaded; turn++) await new Promise(setImmediate);
  assert.deepEqual([inbox.error, ids(inbox)], [undefined, [id(1)]]);
});

test("a_call_that_is_on_no_page_is_looked_for_on_one_page", async () => {
  service.calls = Array.from({ length: 900 }, (_, index) => waiting(index));
  const inbox = new Inbox();
  await inbox.reload();
  service.calls = service.calls.slice(1);
  await inbox.read(id(0));
  assert.deepEqual([inbox.get(id(0)), service.cursors], [undefined, ["", ""]]);
});

test("a_new_digest_is_read_again", async () => {
  service.calls = [waiting(1), waiting(2)];
  const inbox = new Inbox();
  await inbox.reload();
  service.calls[1] = waiting(2, "d2");
  inbox.apply(waiting(2, "d2"));
  await inbox.read(id(2));
  assert.equal(inbox.get(id(2)).effective_arguments.digest, "d2");
  inbox.apply({ ...waiting(2, "d2"), approval: { ...waiting(2, "d2").approval, decisions: [{ decision: "approve", by: "ann" }] } });
  assert.equal(inbox.get(id(2)).approval.decisions.length, 1);
});

test("a_call_that_no_longer_waits_is_removed_when_it_is_read", async () => {
  service.calls = [waiting(1), waiting(2)];
  const inbox = new Inbox();
  await inbox.reload();
  service.calls = [waiting(2)];
  await inbox.read(id(1));
  assert.deepEqual(ids(inbox), [id(2)]);
});
