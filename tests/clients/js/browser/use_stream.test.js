// `useStream` of the SDK in a real page: it streams, survives a reload in the middle, and shows the thread afterwards.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { serve } from "../support/server.js";

let server, pages, browser, origin;

before(async () => {
  const bundle = await build({
    entryPoints: ["browser/page.jsx"],
    bundle: true,
    write: false,
    jsx: "automatic",
    format: "esm",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const script = bundle.outputFiles[0].text;
  pages = createServer((request, response) => {
    const js = request.url.startsWith("/page.js");
    response.setHeader("content-type", js ? "text/javascript" : "text/html; charset=utf-8");
    response.end(js ? script : '<!doctype html><div id="root"></div><script type="module" src="/page.js"></script>');
  });
  await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${pages.address().port}`;
  server = await serve({ GATEWAY_CORS_ORIGINS: origin });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  await server?.stop();
  pages?.close();
});

async function open(query = "") {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error("page:", error));
  page.on("console", (line) => line.type() === "error" && console.error("page:", line.text()));
  await page.goto(`${origin}/?api=${encodeURIComponent(`${server.url}/api`)}${query}`);
  return page;
}

const texts = (page) => page.locator("li[data-type=ai]").allTextContents();
const idle = (page) => page.waitForFunction(() => document.getElementById("loading").textContent === "false");

async function send(page, text) {
  await page.fill("input[name=text]", text);
  await page.click("form button");
}

test("an answer is streamed and stays", async () => {
  const page = await open();
  await send(page, "[[script:plain tokens=30 delay_ms=10]] one");
  await page.waitForSelector("li[data-type=ai]");
  await idle(page);
  const [answer] = await texts(page);
  assert.ok(answer.length > 30);
  await send(page, "[[script:plain tokens=30 delay_ms=10]] two");
  await page.waitForFunction(() => document.querySelectorAll("li[data-type=ai]").length === 2);
  await idle(page);
  const ids = await page.locator("li").evaluateAll((items) => items.map((item) => item.dataset.id));
  assert.equal(new Set(ids).size, 4);
  assert.equal(await page.locator("#error").textContent(), "");
  await page.close();
});

test("a reload in the middle rejoins the run", async () => {
  const page = await open();
  await send(page, "[[script:plain tokens=80 delay_ms=40]] long");
  await page.waitForSelector("li[data-type=ai]");
  const thread = await page.locator("#thread").textContent();
  await page.goto(`${origin}/?api=${encodeURIComponent(`${server.url}/api`)}&thread=${thread}`);
  await page.waitForFunction(() => document.getElementById("loading").textContent === "true");
  await idle(page);
  await page.waitForSelector("li[data-type=ai]");
  assert.equal((await texts(page)).length, 1);
  const state = await (await fetch(`${server.url}/api/threads/${thread}/state`)).json();
  assert.equal((await texts(page))[0], state.values.messages.at(-1).content);
  await page.close();
});

for (const history of ["on", "off"]) {
  test(`an old thread is shown, history ${history}`, async () => {
    const page = await open();
    await send(page, "[[script:plain tokens=20]] old");
    await page.waitForSelector("li[data-type=ai]");
    await idle(page);
    const thread = await page.locator("#thread").textContent();
    const [answer] = await texts(page);
    const later = await open(`&thread=${thread}&history=${history}`);
    await later.waitForSelector("li[data-type=ai]");
    assert.deepEqual(await texts(later), [answer]);
    await send(later, "[[script:plain tokens=20]] more");
    await later.waitForFunction(() => document.querySelectorAll("li[data-type=ai]").length === 2);
    await idle(later);
    assert.equal((await texts(later))[0], answer);
    await page.close();
    await later.close();
  });
}

test("stop stops", async () => {
  const page = await open();
  await send(page, "[[script:plain tokens=2000 delay_ms=50]] endless");
  await page.waitForSelector("li[data-type=ai]");
  await page.click("#stop");
  await idle(page);
  await page.close();
});
