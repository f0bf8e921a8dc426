// Keyboard shortcuts, filters and live updates of the viewer's pages. All pages work without this script.
// The script only loads pages from the same server, and only inserts content that the server rendered.
"use strict";

/** Delay between the last key press in a filter and the update of the page, in milliseconds. */
const PAUSE = 120;

/** @param {EventTarget | null} where @returns {boolean} whether `where` is an element that accepts text or keyboard input */
function isWritten(where) {
  return where instanceof HTMLElement && where.matches("input, select, textarea");
}

/** Follows or focuses the element whose `data-key` is the pressed key. @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isWritten(event.target)) {
    if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
    return;
  }
  if (event.key === "?") {
    const keys = document.getElementById("keys");
    if (keys instanceof HTMLDetailsElement) {
      keys.open = !keys.open;
      keys.scrollIntoView();
      event.preventDefault();
    }
    return;
  }
  if (!/^[a-zA-Z/]$/.test(event.key)) return;
  // If several elements have this key, such as a page's filter and the global search, prefer the one in the page's
  // main part.
  const all = [...document.querySelectorAll(`[data-key="${event.key}"]`)];
  const one = all.find((it) => it.closest("main")) ?? all[0];
  if (!(one instanceof HTMLElement)) return;
  event.preventDefault();
  if (one instanceof HTMLAnchorElement) {
    one.click();
  } else {
    one.scrollIntoView({ block: "center" });
    one.focus();
  }
}

/** Announces a text to screen readers. @param {string} words */
function tell(words) {
  const told = document.getElementById("told");
  if (told) told.textContent = words;
}

/**
 * Replaces the element with this id by the same element of a newer page. Open details stay open, and the focus stays
 * in place.
 * @param {string} page @param {string} id
 */
function replace(page, id) {
  const fresh = new DOMParser().parseFromString(page, "text/html").getElementById(id);
  const old = document.getElementById(id);
  if (!fresh || !old) return;
  const open = new Map([...old.querySelectorAll("details[id]")].map((it) => [it.id, it.hasAttribute("open")]));
  for (const it of fresh.querySelectorAll("details[id]")) {
    if (open.has(it.id)) it.toggleAttribute("open", open.get(it.id));
  }
  const focused = document.activeElement instanceof HTMLElement && old.contains(document.activeElement)
    ? document.activeElement : null;
  const again = focused?.id ? `#${CSS.escape(focused.id)}`
    : focused?.getAttribute("href") ? `a[href="${CSS.escape(focused.getAttribute("href") ?? "")}"]` : "";
  const rail = old.querySelector(".rail")?.scrollTop ?? 0;
  old.replaceWith(document.adoptNode(fresh));
  if (again) {
    const next = fresh.querySelector(again);
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
  }
  const place = fresh.querySelector(".rail");
  if (place) place.scrollTop = rail;
}

let asked = 0;

/** Loads the page that the server renders for a filter, and shows its trials. @param {HTMLFormElement} form */
async function filterServed(form) {
  const address = new URL(form.action);
  for (const [name, value] of new FormData(form)) {
    if (typeof value === "string" && value) address.searchParams.set(name, value);
  }
  const number = ++asked;
  const answer = await fetch(address);
  const page = await answer.text();
  // Ignore this response if the filter has changed since the request.
  if (!answer.ok || number !== asked) return;
  replace(page, "found");
  tag = "";
  history.replaceState(null, "", address);
  tell(document.getElementById("count")?.textContent ?? "");
}

/**
 * Hides the trials that do not match the filter. For pages exported as files, which contain the whole matrix.
 * @param {HTMLFormElement} form
 */
function filterHere(form) {
  const given = new FormData(form);
  /** @param {string} name */
  const wanted = (name) => String(given.get(name) ?? "");
  const words = wanted("text").toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  let all = 0;
  for (const table of document.querySelectorAll("#found table")) {
    const arms = [...table.querySelectorAll("thead bdi")].map((it) => it.textContent ?? "");
    for (const row of table.querySelectorAll("tbody tr")) {
      const task = row.querySelector("th bdi")?.textContent?.toLowerCase() ?? "";
      let any = false;
      [...row.querySelectorAll("td")].forEach((box, column) => {
        for (const cell of box.querySelectorAll(".cell")) {
          const [word, ending, reason] = (cell.getAttribute("data-is") ?? "").split("|");
          const said = `${task} ${arms[column]} ${word} ${ending} ${reason}`.replaceAll("_", " ").toLowerCase();
          const fits = (!wanted("arm") || wanted("arm") === arms[column])
            && (!wanted("outcome") || wanted("outcome") === word || wanted("outcome") === ending)
            && (!wanted("reason") || wanted("reason") === reason)
            && words.every((it) => said.includes(it));
          cell.toggleAttribute("hidden", !fits);
          all += 1;
          shown += Number(fits);
          any ||= fits;
        }
      });
      row.toggleAttribute("hidden", !any);
    }
  }
  const count = document.getElementById("count");
  if (count) count.textContent = `${shown} of ${all} trials`;
}

/** Applies a filter whenever its fields change. @param {HTMLFormElement} form */
function filter(form) {
  form.hidden = false;
  const apply = () => {
    if (form.dataset.filter === "served") filterServed(form).catch(() => tell("the viewer is not responding"));
    else filterHere(form);
  };
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(apply, PAUSE);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
}

/** The ETag of the page that is currently shown. */
let tag = "";

/** Asks the server for a newer version of this page, and shows it. */
async function renew() {
  if (document.hidden || isWritten(document.activeElement)) return;
  const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {} });
  if (answer.status !== 200) return;
  const page = await answer.text();
  tag = answer.headers.get("etag") ?? "";
  replace(page, "main");
  findFilters();
}

/** Updates the page at regular intervals while the page is marked as live. */
function live() {
  const seconds = Number(document.getElementById("main")?.dataset.live ?? 0);
  if (!seconds) return;
  setTimeout(() => renew().catch(() => tell("the viewer is not responding")).finally(live), seconds * 1000);
}

function findFilters() {
  for (const form of document.querySelectorAll("form[data-filter]")) {
    if (form instanceof HTMLFormElement) filter(form);
  }
}

document.addEventListener("keydown", onKey);
document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "center" });
findFilters();
live();
