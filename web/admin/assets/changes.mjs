// The live part of the page of changes.
import { follow } from "./events.mjs";
import { t } from "./texts.mjs";

/** @typedef {{kind: string, name: string, link?: string, deleted?: boolean, by?: string, op?: string, count?: number}} Part */
/** @typedef {{pos: number, when: string, parts: Part[], more?: number}} Change */

const keep = 200;
const box = /** @type {HTMLElement} */ (document.getElementById("live"));
const state = /** @type {HTMLElement} */ (document.getElementById("state"));
const pause = /** @type {HTMLButtonElement} */ (document.getElementById("pause"));
const rows = /** @type {HTMLElement} */ (document.getElementById("rows"));
const table = /** @type {HTMLElement} */ (document.getElementById("table"));

/** @type {Change[]} */
let held = [];
let skipped = 0;
let connected = false;
let paused = false;
let lost = false;
let newest = Math.max(0, ...[...rows.querySelectorAll("tr")].map((r) => Number(r.dataset.pos)));

/**
 * @param {string} tag
 * @param {string} text
 * @param {string} [className]
 */
function element(tag, text, className = "") {
	const e = document.createElement(tag);
	e.textContent = text;
	e.className = className;
	return e;
}

/**
 * @param {string} text
 * @param {string} href
 */
function link(text, href) {
	const e = document.createElement("a");
	e.href = href;
	e.textContent = text;
	return e;
}

/** @param {Part} p */
function item(p) {
	const li = document.createElement("li");
	li.append(element("span", t(p.kind), "badge"), " ", p.link ? link(p.name || t("(empty)"), p.link) : p.name);
	if (p.count) li.append(" ", element("span", `× ${p.count}`, "hint"));
	const op = p.op || (p.deleted ? "deleted" : "");
	if (op) li.append(" ", element("span", t(op), "hint"));
	if (p.by) {
		const by = element("span", `${t("by")} `, "hint");
		by.append(p.by.includes("@") ? p.by : link(p.by, `/admin/users/${encodeURIComponent(p.by)}`)); // administrators are named by address
		li.append(" ", by);
	}
	return li;
}

/** @param {Change} c */
function row(c) {
	const tr = document.createElement("tr");
	tr.className = "new";
	const list = element("ul", "", "parts");
	list.append(...c.parts.map(item));
	if (c.more) list.append(element("li", t("and %s more", c.more), "hint"));
	const what = document.createElement("td");
	what.append(list);
	tr.append(element("td", c.when, "when"), what, element("td", String(c.pos), "number"));
	setTimeout(() => tr.classList.remove("new"), 2000);
	return tr;
}

function flush() {
	if (held.length > 0) {
		table.hidden = false;
		document.getElementById("none")?.remove();
	}
	for (const c of held) rows.prepend(row(c));
	held = [];
	while (rows.childElementCount > keep) rows.lastElementChild?.remove();
}

function say() {
	pause.textContent = paused ? t("Continue") : t("Pause");
	pause.setAttribute("aria-pressed", String(paused));
	let text = connected ? t("Live") : t("The server does not answer; the page connects again by itself.");
	if (paused) text = t("Paused; %s new", held.length + skipped);
	else if (lost) text += ` · ${t("some changes came too fast and are missing; load the page again")}`;
	else if (skipped) text += ` · ${t("%s changes came too fast to show", skipped)}`;
	state.textContent = text;
}

const url = box.dataset.url;
if (url) {
	box.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		if (!paused) flush();
		say();
	});
	follow(
		url,
		{
			changes(b) {
				skipped += b.skipped;
				for (const c of b.changes) {
					if (c.pos <= newest) continue;
					newest = c.pos;
					held.push(c);
				}
				if (held.length > keep) {
					skipped += held.length - keep;
					held = held.slice(-keep);
				}
				if (!paused) flush();
				say();
			},
			truncated() {
				lost = true;
				say();
			},
		},
		(is) => {
			connected = is;
			say();
		},
	);
}
