// Opens the viewer and the report in a real Chromium. `docs/reference/view.md` says how to run it.
//
//   node walk.mjs MODULES VIEWER STATIC REPORT
//
// MODULES is the folder with node_modules. VIEWER is the address of a viewer of two runs: an unfinished one,
// and the hostile one of tests/end_to_end/browser.rs. STATIC is the folder with the hostile run's pages,
// REPORT its HTML report. Prints a line per check and ends at the first failure.
import { createRequire } from "node:module";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, viewer, folder, report] = process.argv.slice(2);
const require = createRequire(join(modules, "here.js"));
const puppeteer = require("puppeteer-core");
const axe = require("axe-core");

const names = ["chromium", "chromium-browser", "google-chrome"];
const which = (name) => {
  try {
    return execFileSync("sh", ["-c", `command -v ${name}`]).toString().trim();
  } catch {
    return "";
  }
};
const executablePath = process.env.PROCTOR_CHROMIUM || names.map(which).find(Boolean);
const browser = await puppeteer.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"],
});
const page = await browser.newPage();
// A generous timeout, because other tests may keep the machine busy.
page.setDefaultTimeout(300_000);
await page.setViewport({ width: 1400, height: 900 });

const problems = [];
page.on("console", (message) => {
  if (["error", "warn"].includes(message.type())) problems.push(`console: ${message.text()}`);
});
page.on("pageerror", (error) => problems.push(`error on the page: ${error.message}`));
page.on("dialog", (dialog) => {
  problems.push(`a dialog: ${dialog.message()}`);
  dialog.dismiss();
});
let requests = 0;
page.on("request", (request) => {
  requests += 1;
  const address = new URL(request.url());
  if (address.hostname !== "127.0.0.1" && address.protocol !== "file:") problems.push(`request to ${address}`);
});

const check = (what, holds, seen = "") => {
  if (!holds) throw new Error(`${what}${seen === "" ? "" : `: ${seen}`}`);
  console.log(`ok: ${what}`);
};
const text = (selector) => page.$eval(selector, (it) => it.textContent.trim());
const until = async (what, test, ...given) => {
  try {
    await page.waitForFunction(test, { polling: 50 }, ...given);
  } catch {
    const shown = await page.evaluate(() => document.body.innerText.slice(0, 600));
    throw new Error(`${what}: never, at ${page.url()}\n${shown}`);
  }
  console.log(`ok: ${what}`);
};
/** Presses a key that leads to another page. */
const follow = async (key) => {
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press(key)]);
};
const go = (address) => page.goto(address, { waitUntil: "load" });
const accessible = async (what) => {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], preload: false }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const said = serious.map((one) => `${one.id} (${one.nodes.length}): ${one.nodes[0].html.slice(0, 160)}`);
  check(`axe finds nothing serious on ${what}`, serious.length === 0, said.join("; "));
};
const harmless = async (what) => {
  const seen = await page.evaluate(() => ({
    ran: globalThis.pwned === undefined,
    made: document.querySelectorAll("img, iframe, object, base, main script, main form[action^='http']").length,
    bidi: /[\u202a-\u202e\u2066-\u2069\u001b\u0000]/.test(document.documentElement.innerHTML),
  }));
  check(`hostile content does nothing on ${what}`, seen.ran && seen.made === 0 && !seen.bidi, JSON.stringify(seen));
};

try {
  // The dashboard: the newest run comes first, and a filter finds a run by an arm.
  await go(viewer);
  await harmless("the dashboard");
  await accessible("the dashboard");
  check("the newest run is first", (await text("tbody th a")) === "run", await text("tbody th a"));
  await page.keyboard.press("/");
  await page.keyboard.type("hostile/b");
  const isFiltered = () => document.getElementById("count").textContent === "1 of 2 runs";
  await until("typing filters runs", isFiltered);
  check("the filter of the dashboard is in the address", page.url().endsWith("#text=hostile%2Fb"), page.url());
  await page.reload({ waitUntil: "load" });
  await until("a copied address filters runs, too", isFiltered);

  // An unfinished run: the page updates without being reloaded.
  await go(`${viewer}1`);
  await page.evaluate(() => { globalThis.same = true; });
  await until("the end of the run is seen live", () => document.querySelector("#state .progress").textContent.startsWith("All "));
  check("the page was not loaded again", await page.evaluate(() => globalThis.same === true));

  // The matrix, filtered by typed text and by a selection.
  await harmless("the matrix");
  await accessible("the matrix");
  await page.keyboard.press("/");
  await page.keyboard.type("roman noop");
  await until("typing filters", () => document.getElementById("count").textContent.startsWith("1 of 6 "));
  check("the filter is in the address", page.url().includes("text=roman"), page.url());

  // The report, served by the viewer under its own policy.
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.click("a[data-key=r]")]);
  check("a run's page leads to its report", (await text("h1")) === "run", await text("h1"));
  check("the report is styled", await page.$eval(".brand", (it) => getComputedStyle(it).fontWeight === "600"));
  await accessible("the report of a run");

  // The hostile run.
  await go(`${viewer}2`);
  await until("the comparison arrives after the page", () => document.querySelector("#comparison .headline") !== null);
  await page.keyboard.press("c");
  check("a key leads to the comparison", await page.evaluate(() => document.activeElement.textContent === "Comparison"));
  await harmless("the hostile run");
  await accessible("the hostile run");
  await page.select("#reason", "assertion");
  await until("a reason filters", () => document.getElementById("count").textContent.startsWith("2 of 4 "));
  await page.select("#arm", "hostile/b");
  await until("an arm filters, too", () => document.getElementById("count").textContent.startsWith("1 of 4 "));

  // From there to the failed test, and through the steps.
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.click(".cell a.no, a.cell.no")]);
  const trial = page.url();
  await harmless("a trial");
  await accessible("a trial");
  check("the verdict is above the tests", await page.evaluate(() =>
    document.querySelector(".verdict").getBoundingClientRect().top < document.getElementById("tests").getBoundingClientRect().top));
  await page.keyboard.press("f");
  const log = await page.evaluate(() => document.activeElement.closest("details").innerText);
  check("a key leads to the failing test and its log", log.includes("assert 1 == 2"), log);
  check("the limits are drawn", (await page.$$("svg .used")).length >= 2);
  for (const [key, step] of [["j", 1], ["e", 2], ["d", 3], ["t", 4], ["k", 3], ["E", 2]]) {
    await follow(key);
    check(`key ${key} leads to step ${step}`, (await text("h1")) === `Step ${step}`, await text("h1"));
  }
  await harmless("a step");
  await accessible("a step");
  await follow("u");
  check("a key leads up", page.url() === trial, page.url());

  // Two trials side by side.
  await follow("b");
  check("trials diverge where one did something else", (await text("main p")).includes("the trials diverge at step 3"), await text("main p"));
  await harmless("trials side by side");
  await accessible("trials side by side");

  // Search, from the keyboard to a step.
  await page.keyboard.press("/");
  await page.keyboard.type("needle in the output");
  await follow("Enter");
  check("a text is found in every trial that has it", (await page.$$(".hits li")).length === 2, await text("#count"));
  await harmless("a search");
  await accessible("a search");
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.click(".hits a")]);
  check("a place that was found leads to its step", (await text("h1")).startsWith("Step "));
  await page.keyboard.press("?");
  check("a key shows the keys", await page.$eval("#keys", (it) => it.open));
  await until("only keys that work on the page are listed", () => {
    const works = (key) => key === "?" || document.querySelector(`[data-key="${key}"]`) !== null;
    const rows = [...document.querySelectorAll("#keys tbody tr")];
    const isRight = (row) => row.hidden !== [...row.querySelectorAll("kbd")].some((key) => works(key.textContent));
    return rows.every(isRight) && rows.some((row) => row.hidden);
  });

  // The same pages as files: filtered without a server.
  await go(pathToFileURL(join(folder, "index.html")).href);
  await page.waitForSelector("form.filter:not([hidden])");
  await page.type("#text", "hostile/b");
  const isFileFiltered = () => document.getElementById("count").textContent.startsWith("2 of 4 ");
  await until("a file filters itself", isFileFiltered);
  await page.reload({ waitUntil: "load" });
  await until("the filter of a file is in its address", isFileFiltered);
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.click("tr:not([hidden]) .cell:not([hidden]) a.no")]);
  await follow("j");
  check("keys work in files", (await text("h1")) === "Step 1");
  await harmless("a file");

  // No page is wider than a phone, in light and dark mode.
  const wideElements = () => [...document.querySelectorAll("body *")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => !element.parentElement.closest(".scroll, svg"))
    .slice(0, 12)
    .map((element) => `${element.tagName}.${element.className} "${element.textContent.trim().slice(0, 40)}"`)
    .join("; ");
  await page.setViewport({ width: 390, height: 844 });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const [what, address] of [["the dashboard", viewer], ["a run", `${viewer}2`], ["a comparison", `${viewer}compare/2`], ["a trial", trial], ["a step", `${trial}/step/3`], ["the report", pathToFileURL(report).href]]) {
      await go(address);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      check(`${what} fits a phone (${scheme})`, width <= 390, `${width} pixels: ${await page.evaluate(wideElements)}`);
      await accessible(`${what} on a phone (${scheme})`);
      if (what === "a trial") {
        await page.click(".jump a");
        await until("a link leads to the steps on a phone", () => document.getElementById("steps").getBoundingClientRect().top < innerHeight);
      }
    }
  }
  await page.emulateMediaFeatures([]);
  await page.setViewport({ width: 1400, height: 900 });

  // The report.
  await go(pathToFileURL(report).href);
  await harmless("the report");
  await accessible("the report");
  const visible = () => page.$$eval("#trials tbody tr", (rows) => rows.filter((row) => row.offsetParent !== null).length);
  const all = await visible();
  await page.click("#only-no");
  const failed = await visible();
  check("the report filters its trials without a script", failed > 0 && failed < all, `${failed} of ${all}`);

  check("nothing was said on the console, and no request left", problems.length === 0, problems.join("\n"));
  console.log(`${requests} requests, all to 127.0.0.1 or to files`);
} catch (error) {
  console.error(`FAILED: ${error.message}`);
  for (const problem of problems) console.error(problem);
  process.exitCode = 1;
} finally {
  await browser.close();
}
