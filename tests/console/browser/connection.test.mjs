// A connection that breaks: the page says so, resumes on its own, and misses nothing.
import { after, test } from "node:test";
import { createServer, connect } from "node:net";
import { once } from "node:events";
import { BASE, fresh, makeCall, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

/** A TCP proxy to the service whose connections can be cut. */
async function startProxy() {
  const target = new URL(BASE);
  const sockets = new Set();
  const proxy = { cut: false };
  const server = createServer((client) => {
    if (proxy.cut === "unavailable") return client.on("error", () => {}).once("data", () => client.end("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
    if (proxy.cut) return client.destroy();
    const upstream = connect(Number(target.port || 80), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => { sockets.delete(socket); client.destroy(); upstream.destroy(); });
    }
    client.pipe(upstream).pipe(client);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy.base = `http://127.0.0.1:${server.address().port}${target.pathname.replace(/\/$/, "")}`;
  proxy.setCut = (cut) => {
    proxy.cut = cut;
    if (cut) for (const socket of sockets) socket.destroy();
  };
  proxy.close = () => {
    proxy.setCut(true);
    server.close();
  };
  return proxy;
}

test("a_lost_connection_resumes_without_a_gap", async () => {
  const session = fresh("lost");
  const proxy = await startProxy();
  try {
    await withPage(`calls?session=${session}`, { base: proxy.base }, async (page) => {
      const tools = () => page.locator(".virtual-list .cell-arguments").allInnerTexts();
      await page.getByText("No call matches").waitFor();
      await makeCall("echo", { turn: 1 }, { session });
      await page.getByText("turn: 1").waitFor();
      proxy.setCut(true);
      await page.getByText("Connection lost").waitFor();
      await makeCall("echo", { turn: 2 }, { session });
      proxy.setCut(false);
      await page.getByText("turn: 2").waitFor();
      await until(async () => (await page.getByText("Connection lost").count()) === 0, "the bar disappears");
      await makeCall("echo", { turn: 3 }, { session });
      await page.getByText("turn: 3").waitFor();
      await until(async () => (await tools()).join() === "turn: 3,turn: 2,turn: 1", "each call once, newest on top");
    });
  } finally {
    proxy.close();
  }
});

test("a_connection_that_breaks_before_the_first_event_loads_what_it_missed", async () => {
  const session = fresh("early");
  const proxy = await startProxy();
  try {
    await withPage(`calls?session=${session}`, { base: proxy.base }, async (page) => {
      await page.getByText("No call matches").waitFor();
      proxy.setCut(true);
      await page.getByText("Connection lost").waitFor();
      await makeCall("echo", { missed: true }, { session });
      proxy.setCut(false);
      await page.getByText("missed: true").waitFor();
    });
  } finally {
    proxy.close();
  }
});

test("a_gateway_without_a_service_is_asked_again", async () => {
  const session = fresh("gateway");
  const proxy = await startProxy();
  try {
    await withPage(`calls?session=${session}`, { base: proxy.base }, async (page) => {
      await page.getByText("No call matches").waitFor();
      await makeCall("echo", { turn: 1 }, { session });
      await page.getByText("turn: 1").waitFor();
      proxy.setCut("unavailable");
      await page.getByText("Connection lost").waitFor();
      // The browser gives up after an error response; the page asks on.
      await page.waitForResponse((response) => response.status() === 503);
      await makeCall("echo", { turn: 2 }, { session });
      proxy.setCut(false);
      await page.getByText("turn: 2").waitFor();
      await until(async () => (await page.getByText("Connection lost").count()) === 0, "the bar disappears");
    });
  } finally {
    proxy.close();
  }
});
