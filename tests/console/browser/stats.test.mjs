// Statistics: the figures equal GET /stats, each chart has its table, hovering and dragging work.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, fresh, makeCall, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const sum = (list, member) => list.reduce((total, one) => total + one[member], 0);

/** Opens the table below a chart and adds its columns up. */
async function tableSums(page, title) {
  const card = page.locator(".chart-card").filter({ hasText: title });
  await card.locator("details").evaluate((one) => (one.open = true));
  const rows = await card.locator("tbody tr").evaluateAll((list) => list.map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent.replace(/,/g, "")))));
  return rows.reduce((sums, row) => sums.map((value, index) => value + row[index]), [0, 0, 0]);
}

/** Returns whether something is drawn in a colour of the style sheet. */
function hasColour(canvas, name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) return true;
  return false;
}

test("figures_and_table_equal_the_statistics_of_the_service", async () => {
  const session = fresh("stats");
  for (const expression of ["1+1", "2+2", "1/0"]) await makeCall("calculate", { expression }, { session });
  await makeCall("calculate", { wrong: 1 }, { session });
  await withPage("stats", {}, async (page) => {
    await ready(page);
    await until(async () => {
      const stats = await api("GET", "/stats?window=1h");
      const series = stats.series ?? stats.tools.flatMap((tool) => tool.series);
      const expected = ["success_count", "failure_count", "rejected_count"].map((member) => sum(series, member));
      await page.getByRole("button", { name: "15 min" }).click();
      await page.getByRole("button", { name: "1 h", exact: true }).click();
      await ready(page);
      const shown = await tableSums(page, "Calls a minute");
      const figures = await page.locator(".figures dd").allInnerTexts();
      return JSON.stringify(shown) === JSON.stringify(expected) && figures[0]?.replace(/,/g, "") === String(sum(expected.map((count) => ({ count })), "count"));
    }, "the figures equal GET /stats");
    await until(() => page.locator(".chart canvas").first().evaluate(hasColour, "--ok-fill"), "bars of successful calls");
    await page.getByRole("link", { name: "TOOL_EXECUTION_ERROR" }).waitFor();
  });
});

test("hovering_shows_values_and_dragging_zooms", async () => {
  await makeCall("calculate", { expression: "3+3" });
  await withPage("stats?window=15m", {}, async (page) => {
    await ready(page);
    const chart = page.locator(".chart .u-over").first();
    // What is above the chart may still move it.
    const at = async (share) => {
      const { x, y, width } = await chart.boundingBox();
      return [x + width * share, y + 60];
    };
    await until(async () => {
      await page.mouse.move(...(await at(0.9)));
      return page.locator(".chart .tooltip").getByText("Success").isVisible();
    }, "the values at the pointer");
    await until(async () => {
      await page.mouse.move(...(await at(0.5)));
      await page.mouse.down();
      await page.mouse.move(...(await at(0.8)), { steps: 4 });
      await page.mouse.up();
      // The page itself knows its address before the driver does.
      return page.evaluate(() => /from=\d+&to=\d+/.test(location.search));
    }, "the zoomed address");
    await page.getByRole("button", { name: "Reset zoom" }).click();
    await page.waitForFunction(() => !/from=/.test(location.search));
    await page.goBack();
    await page.getByRole("button", { name: "Reset zoom" }).or(page.getByRole("heading", { name: "Statistics" })).first().waitFor();
  });
});

test("values_that_come_during_a_drag_leave_it_at_its_time", async () => {
  await makeCall("calculate", { expression: "4+4" });
  await withPage("stats?window=1h", {}, async (page) => {
    await ready(page);
    const chart = page.locator(".chart .u-over").first();
    const { x, y, width } = await chart.boundingBox();
    const span = () => page.locator(".chart [role=img]").first().getAttribute("aria-label");
    const hour = await span();
    await page.mouse.move(x + width * 0.95, y + 60);
    await page.mouse.down();
    // This window has fewer points than the place where the drag began.
    const answer = page.waitForResponse((response) => response.url().includes("window=15m"));
    await page.evaluate(() => {
      history.replaceState(null, "", new URL("stats?window=15m", document.baseURI));
      dispatchEvent(new PopStateEvent("popstate"));
    });
    await answer;
    await until(async () => (await span()) !== hour, "the values of 15 minutes");
    await page.mouse.move(x + width * 0.4, y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => /from=\d+&to=\d+/.test(location.search));
  });
});

test("each_window_is_part_of_the_address", async () => {
  await withPage("stats", {}, async (page) => {
    for (const [label, name] of [["15 min", "15m"], ["6 h", "6h"], ["24 h", "24h"], ["7 d", "7d"], ["30 d", "30d"]]) {
      await page.getByRole("button", { name: label, exact: true }).click();
      await page.waitForFunction((text) => location.search.includes(`window=${text}`), name);
      await ready(page);
      await page.getByRole("button", { name: label, exact: true, pressed: true }).waitFor();
      assert.equal(await page.getByRole("alert").count(), 0, label);
    }
  });
});
