"use strict";
// Keyboard shortcuts, filters and live updates of the viewer's pages. All pages work without this script.
// The script only loads pages from the same server, and only inserts content that the server rendered.
/** Delay between the last key press in a filter and the update of the page, in milliseconds. */
const FILTER_DELAY = 120;
function acceptsKeys(target) {
    return target instanceof HTMLElement && target.matches("input, select, textarea");
}
/** Follows or focuses the element whose `data-key` is the pressed key. */
function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey)
        return;
    if (acceptsKeys(event.target)) {
        if (event.key === "Escape" && event.target instanceof HTMLElement)
            event.target.blur();
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
    if (!/^[a-zA-Z/]$/.test(event.key))
        return;
    // If several elements have this key, such as a page's filter and the global search, prefer the one in the page's
    // main part.
    const all = [...document.querySelectorAll(`[data-key="${event.key}"]`)];
    const target = all.find((element) => element.closest("main")) ?? all[0];
    if (!target)
        return;
    event.preventDefault();
    if (target instanceof HTMLAnchorElement) {
        target.click();
    }
    else {
        target.scrollIntoView({ block: "center" });
        target.focus();
    }
}
/** Lists only the shortcuts that work on this page. */
function listKeys() {
    for (const row of document.querySelectorAll("#keys tbody tr")) {
        const keys = [...row.querySelectorAll("kbd")].map((key) => key.textContent);
        const works = keys.some((key) => key === "?" || document.querySelector(`[data-key="${key}"]`));
        row.toggleAttribute("hidden", !works);
    }
}
/** Announces a text to screen readers. */
function announce(text) {
    const status = document.getElementById("told");
    if (status)
        status.textContent = text;
}
/**
 * Replaces the element with this id by the same element of a newer page. Open details stay open, and the focus stays
 * in place.
 */
function replace(page, id) {
    const fresh = new DOMParser().parseFromString(page, "text/html").getElementById(id);
    const old = document.getElementById(id);
    if (!fresh || !old)
        return;
    const open = new Map([...old.querySelectorAll("details[id]")].map((details) => [details.id, details.hasAttribute("open")]));
    for (const details of fresh.querySelectorAll("details[id]")) {
        const wasOpen = open.get(details.id);
        if (wasOpen !== undefined)
            details.toggleAttribute("open", wasOpen);
    }
    const focused = document.activeElement instanceof HTMLElement && old.contains(document.activeElement)
        ? document.activeElement : null;
    const href = focused?.getAttribute("href");
    const again = focused?.id ? `#${CSS.escape(focused.id)}` : href ? `a[href="${CSS.escape(href)}"]` : "";
    const railPosition = old.querySelector(".rail")?.scrollTop ?? 0;
    old.replaceWith(document.adoptNode(fresh));
    if (again)
        fresh.querySelector(again)?.focus({ preventScroll: true });
    const rail = fresh.querySelector(".rail");
    if (rail)
        rail.scrollTop = railPosition;
}
let requestNumber = 0;
/** Loads the page that the server renders for a filter, and shows its trials. */
async function filterOnServer(form) {
    const address = new URL(form.action);
    for (const [name, value] of new FormData(form)) {
        if (typeof value === "string" && value)
            address.searchParams.set(name, value);
    }
    requestNumber += 1;
    const number = requestNumber;
    const response = await fetch(address);
    const page = await response.text();
    // Ignore this response if the filter has changed since the request.
    if (!response.ok || number !== requestNumber)
        return;
    replace(page, "found");
    etag = "";
    history.replaceState(null, "", address);
    announce(document.getElementById("count")?.textContent ?? "");
}
function fieldValue(form, name) {
    return String(new FormData(form).get(name) ?? "");
}
function searchWords(form) {
    return fieldValue(form, "text").toLowerCase().split(/\s+/).filter(Boolean);
}
function showCount(text) {
    const count = document.getElementById("count");
    if (count)
        count.textContent = text;
}
/** Sets or removes the filter in the page's fragment, so that a copied address has the filter. */
function saveFilter(form) {
    const fields = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
        if (typeof value === "string" && value)
            fields.set(name, value);
    }
    const text = fields.toString();
    history.replaceState(null, "", text ? `#${text}` : location.href.replace(/#.*/, ""));
}
/** Fills in the filter from the page's fragment. Returns whether the fragment has a filter. */
function restoreFilter(form) {
    let isFound = false;
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
        const field = form.elements.namedItem(name);
        if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) {
            field.value = value;
            isFound = true;
        }
    }
    return isFound;
}
/** Hides the runs of the dashboard that do not contain every word. */
function filterRows(form) {
    const words = searchWords(form);
    const rows = [...document.querySelectorAll("#found tbody tr")];
    let shown = 0;
    for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = words.every((word) => text.includes(word));
        row.toggleAttribute("hidden", !fits);
        shown += Number(fits);
    }
    showCount(`${shown} of ${rows.length} runs`);
}
/** Hides the trials of this page that do not match the filter. For pages exported as files. */
function filterTrials(form) {
    const words = searchWords(form);
    const [arm, outcome, reason, integrity] = ["arm", "outcome", "reason", "integrity"].map((name) => fieldValue(form, name));
    let shown = 0;
    let all = 0;
    for (const table of document.querySelectorAll("#found table")) {
        const arms = [...table.querySelectorAll("thead bdi")].map((header) => header.textContent);
        for (const row of table.querySelectorAll("tbody tr")) {
            const task = row.querySelector("th bdi")?.textContent ?? "";
            let isAnyShown = false;
            [...row.querySelectorAll("td")].forEach((cells, column) => {
                for (const cell of cells.querySelectorAll(".cell")) {
                    const [verdict, ending, why, failure, trust] = (cell.getAttribute("data-is") ?? "").split("|");
                    const text = `${task} ${arms[column]} ${verdict} ${ending} ${why} ${failure}`.replaceAll("_", " ").toLowerCase();
                    const fits = (!arm || arm === arms[column])
                        && (!outcome || outcome === verdict || outcome === ending)
                        && (!reason || reason === why)
                        && (!integrity || integrity === trust)
                        && words.every((word) => text.includes(word.replaceAll("_", " ")));
                    cell.toggleAttribute("hidden", !fits);
                    all += 1;
                    shown += Number(fits);
                    isAnyShown ||= fits;
                }
            });
            row.toggleAttribute("hidden", !isAnyShown);
        }
    }
    const pageCount = Number(document.getElementById("found")?.dataset["pages"] ?? 1);
    showCount(`${shown} of ${all} trials${pageCount > 1 ? " on this page" : ""}`);
}
/** Applies a filter whenever its fields change. */
function connectFilter(form) {
    form.hidden = false;
    const apply = () => {
        switch (form.dataset["filter"]) {
            case "served":
                filterOnServer(form).catch(() => announce("the viewer is not responding"));
                break;
            case "rows":
                saveFilter(form);
                filterRows(form);
                break;
            default:
                saveFilter(form);
                filterTrials(form);
        }
    };
    // The server has already applied its filter.
    if (form.dataset["filter"] !== "served" && restoreFilter(form))
        apply();
    let timer = 0;
    form.addEventListener("input", () => {
        clearTimeout(timer);
        timer = window.setTimeout(apply, FILTER_DELAY);
    });
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        apply();
    });
}
function connectFilters() {
    for (const form of document.querySelectorAll("form[data-filter]"))
        connectFilter(form);
}
/** The ETag of the page that is currently shown. */
let etag = "";
/**
 * Loads the sections that have an address of their own, because the server needs time to compute them. Meanwhile, and
 * if the server fails, the section says so.
 */
async function loadSections() {
    for (const section of document.querySelectorAll("section[data-load]")) {
        const status = document.createElement("p");
        status.className = "soft";
        status.textContent = "Loading\u2026";
        section.append(status);
        try {
            const response = await fetch(section.dataset["load"] ?? "");
            const text = await response.text();
            if (response.ok)
                replace(text, section.id);
            else
                status.textContent = `This section can't be loaded: ${text}`;
        }
        catch {
            status.textContent = "This section can't be loaded: the viewer is not responding";
        }
    }
}
/** Asks the server for a newer version of this page, and shows it. */
async function refresh() {
    if (document.hidden || acceptsKeys(document.activeElement))
        return;
    const response = await fetch(location.href, { headers: etag ? { "If-None-Match": etag } : {} });
    if (response.status !== 200)
        return;
    const page = await response.text();
    etag = response.headers.get("etag") ?? "";
    replace(page, "main");
    connectFilters();
    await loadSections();
}
/** Updates the page at regular intervals while the page is marked as live. */
function updateWhileLive() {
    const seconds = Number(document.getElementById("main")?.dataset["live"] ?? 0);
    if (!seconds)
        return;
    setTimeout(() => {
        refresh().catch(() => announce("the viewer is not responding")).finally(updateWhileLive);
    }, seconds * 1000);
}
document.addEventListener("keydown", onKey);
document.getElementById("keys")?.addEventListener("toggle", listKeys);
const currentStep = document.querySelector(".rail [aria-current]");
const rail = currentStep?.closest(".rail");
// Scroll only the list of steps. `scrollIntoView` would also scroll the page, away from its heading.
if (currentStep && rail) {
    const offset = currentStep.getBoundingClientRect().top - rail.getBoundingClientRect().top;
    rail.scrollTop += offset - rail.clientHeight / 2;
}
connectFilters();
loadSections().catch(() => announce("the viewer is not responding"));
updateWhileLive();
