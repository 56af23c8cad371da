// Opens the pages in a browser and holds them against what they must be: node test.mjs BROWSER PAGES SCREENSHOTS
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, pages, screenshots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
let failed = 0;

// One named check; what it throws is a failure.
async function check(name, act) {
  const began = performance.now();
  try {
    await act();
    console.log(`ok      ${name} (${Math.round(performance.now() - began)} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}

// Opens a page; everything that it complains about or asks for is kept.
async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const trouble = [];
  const url = pathToFileURL(join(pages, `${name}.html`)).href;
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && trouble.push(message.text()));
  page.on("pageerror", (error) => trouble.push(error.message));
  page.on("dialog", (dialog) => (trouble.push(`a dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => request.url() !== url && trouble.push(`asks for ${request.url()}`));
  await page.goto(url);
  // The chart is drawn in the next frame; without scripts there are no frames to wait for.
  if (options.javaScriptEnabled !== false) await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return { page, trouble, close: () => context.close() };
}

const report = (name) => JSON.parse(readFileSync(join(pages, `${name}.json`), "utf8"));
const at = (value, path) => path.split(".").reduce((one, key) => one?.[key], value);

// Every number that the page says where it is from, against the JSON report.
async function numbers(page, json) {
  const shown = await page.$$eval("[data-number]", (all) => all.map((one) => [one.dataset.number, one.textContent.trim()]));
  assert.ok(shown.length >= 10, `only ${shown.length} numbers`);
  for (const [path, text] of shown) {
    const expected = at(json, path);
    const words = { null: path.startsWith("measured") ? "not counted" : "any", undefined: undefined };
    const said = expected === null ? words.null : String(expected);
    assert.equal(path === "headline" ? text : text.replaceAll(",", ""), said, path);
  }
}

// The chart's rows, opened and counted from top to bottom.
async function rows(page, json) {
  const data = await page.evaluate(async () => {
    const box = document.getElementById("rows");
    const seen = new Map();
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (let top = 0; ; top += box.clientHeight) {
      box.scrollTop = top;
      await frame();
      for (const row of box.querySelectorAll(".row")) seen.set(Number(row.dataset.at), [row.className, row.querySelector(".cell").textContent.trim()]);
      if (top + box.clientHeight >= box.scrollHeight) break;
    }
    box.scrollTop = 0;
    return { count: Number(box.getAttribute("aria-rowcount")), seen: [...seen.values()] };
  });
  assert.equal(data.seen.length, data.count, "every row can be scrolled to");
  const named = (pattern) => data.seen.filter(([kind, name]) => kind.includes("send") && pattern.test(name)).length;
  const sent = json.writes.flatMap((write) => write.rows);
  assert.equal(named(/^copy \d/), sent.filter((row) => row.kind === "send" && row.copy).length, "first sends");
  assert.equal(named(/^resend/), sent.filter((row) => row.kind === "resend").length, "resends");
  assert.equal(data.seen.filter(([kind]) => kind.includes("execution")).length, json.measured.executions, "executions");
}

async function accessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const said = violations.map((one) => `${one.id}: ${one.help} (${one.nodes.slice(0, 3).map((node) => node.target).join("; ")})`);
  assert.deepEqual(said, []);
}

const active = (page) =>
  page.evaluate(() => {
    const id = document.getElementById("rows").getAttribute("aria-activedescendant");
    const row = id && document.getElementById(id);
    return row && { at: Number(row.dataset.at), name: row.querySelector(".cell").textContent.trim(), open: row.getAttribute("aria-expanded") };
  });
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const press = async (page, key) => {
  await page.keyboard.press(key);
  await settle(page);
};

for (const name of ["store-inventory", "retry-lab", "ticket-queue", "client-gone", "service", "poll-interval", "writes"]) {
  const json = report(name);
  for (const colorScheme of ["light", "dark"]) {
    const { page, trouble, close } = await open(name, { colorScheme });
    await check(`${name}, ${colorScheme}: accessibility`, () => accessible(page));
    if (colorScheme === "light") {
      if (name === "poll-interval") {
        const marks = (await page.getAttribute(".lost", "d")).split("M").length - 1;
        await check(`${name}: lost partitions`, () => assert.equal(marks, json.group.losses));
      }
      await check(`${name}: numbers`, () => numbers(page, json));
      if (json.writes_total === 1) await check(`${name}: rows`, () => rows(page, json));
    }
    await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}.png`), fullPage: true });
    await check(`${name}, ${colorScheme}: no complaint, no request`, () => assert.deepEqual(trouble, []));
    await close();
  }
}

await check("keys of a single write", async () => {
  const { page, trouble, close } = await open("store-inventory");
  for (let tries = 0; tries < 40 && (await page.evaluate(() => document.activeElement.id)) !== "rows"; tries += 1) await press(page, "Tab");
  assert.equal((await active(page)).name, "execution 1", "the Tab key reaches the rows");
  await press(page, "ArrowDown");
  assert.match((await active(page)).name, /^copy 1/);
  assert.match(await page.textContent("#details"), /copy 1.*gave up \(socket timeout\).*server: operation/s);
  await press(page, "ArrowDown");
  assert.match((await active(page)).name, /^resend of copy 1/);
  await press(page, "ArrowLeft");
  assert.equal((await active(page)).name, "execution 1", "left goes to the execution");
  await press(page, "End");
  assert.match((await active(page)).name, /^resend of copy 4/);
  await accessible(page);
  await press(page, "+");
  assert.match(await page.textContent("#range"), / s to .* s/);
  await press(page, "Shift+ArrowRight");
  await press(page, "0");
  assert.equal(await page.textContent("#range"), "");
  assert.deepEqual(trouble, []);
  await close();
});

await check("keys, search and zoom in 5,000 writes", async () => {
  const json = report("writes");
  const { page, trouble, close } = await open("writes");
  const count = () => page.$eval("#rows", (rows) => Number(rows.getAttribute("aria-rowcount")));
  assert.equal(await count(), 5_000);
  await page.focus("#rows");
  await press(page, "Home");
  await press(page, "ArrowRight");
  assert.equal((await active(page)).open, "true");
  const [first] = json.writes;
  assert.equal(await count(), 5_000 + first.executions + first.rows.length);
  await press(page, "ArrowLeft");
  assert.equal(await count(), 5_000);
  await press(page, "End");
  assert.equal((await active(page)).at, 4_999);
  assert.ok((await page.locator("#rows .row").count()) < 120, "only the rows in sight are in the document");
  await page.selectOption("#fate", { label: await page.$eval("#fate", (all) => [...all.options].find((one) => one.text.startsWith("dead letter")).text) });
  await settle(page);
  assert.equal(await count(), json.writes.filter((write) => write.fate === "dead letter").length);
  await page.selectOption("#fate", "");
  await page.fill("#find", "record 3-77");
  await settle(page);
  assert.equal(await count(), json.writes.filter((write) => write.label.includes("record 3-77")).length);
  await page.fill("#find", "");
  await page.selectOption("#order", "copies");
  await settle(page);
  const most = [...json.writes].sort((one, other) => other.copies - one.copies || other.sends - one.sends)[0];
  assert.ok((await page.textContent("#row-0 .cell")).includes(`${most.sends} → ${most.copies}`));
  const box = await page.locator("#over-time").boundingBox();
  await page.mouse.move(box.x + 400, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await settle(page);
  assert.match(await page.textContent("#range"), / s to .* s/, "dragging zooms");
  await page.screenshot({ path: join(screenshots, "writes-zoomed.png") });
  // Walking through all of it: the slowest frame of the script itself.
  const slowest = await page.evaluate(async () => {
    const rows = document.getElementById("rows");
    let slowest = 0;
    for (let step = 0; step < 60; step += 1) {
      rows.scrollTop = (rows.scrollHeight * step) / 60;
      const began = performance.now();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      slowest = Math.max(slowest, performance.now() - began);
    }
    return slowest;
  });
  console.log(`        the slowest of 60 jumps took ${Math.round(slowest)} ms`);
  assert.deepEqual(trouble, []);
  await close();
});

await check("nothing in a stream becomes a part of the page", async () => {
  const { page, trouble, close } = await open("hostile");
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
  await page.focus("#rows");
  await press(page, "ArrowDown");
  assert.equal(await page.locator("img").count(), 0);
  await numbers(page, report("hostile"));
  assert.deepEqual(trouble, []);
  await close();
});

await check("print, and a reader without scripts, get the chart", async () => {
  const { page, close } = await open("store-inventory", { colorScheme: "dark" });
  assert.equal(await page.locator(".still").isVisible(), false);
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await page.locator(".still").isVisible(), true);
  assert.equal(await page.locator("#live").isVisible(), false);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.match(ground, /rgb\(2[45]\d/, "paper is light");
  await page.pdf({ path: join(screenshots, "store-inventory.pdf"), format: "A4", printBackground: true });
  await page.screenshot({ path: join(screenshots, "store-inventory-print.png"), fullPage: true });
  await close();
  const plain = await open("store-inventory", { javaScriptEnabled: false });
  assert.equal(await plain.page.locator(".still").isVisible(), true);
  await plain.page.screenshot({ path: join(screenshots, "store-inventory-no-script.png"), fullPage: true });
  await plain.close();
});

await check("a narrow window", async () => {
  const { page, trouble, close } = await open("store-inventory", { viewport: { width: 400, height: 800 } });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 400, `the page is ${wide} pixels wide`);
  await page.screenshot({ path: join(screenshots, "store-inventory-narrow.png"), fullPage: true });
  assert.deepEqual(trouble, []);
  await close();
});

await browser.close();
if (failed) {
  console.log(`${failed} checks failed`);
  process.exit(1);
}
