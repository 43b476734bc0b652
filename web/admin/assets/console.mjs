// The console keeps what was run in this browser, shows only the fields of its language, and runs with Ctrl+Enter.
import { plotAll } from "./plot.mjs";
import { t } from "./texts.mjs";

/** @typedef {{lang: string, text: string, [field: string]: string}} Earlier */

const key = "skerry-console";
const kept = ["collection", "space", "series", "range", "from", "until", "step"]; // fields besides the language and the text
const most = 50; // texts that are kept
const longest = 4096; // characters of a text that is kept

const form = /** @type {HTMLFormElement} */ (document.getElementById("console"));
const text = /** @type {HTMLTextAreaElement} */ (document.getElementById("text"));
const box = /** @type {HTMLElement} */ (document.getElementById("history"));
const list = /** @type {HTMLSelectElement} */ (document.getElementById("earlier"));

const syntax = /** @type {HTMLElement} */ (document.getElementById("syntax"));

const field = (/** @type {string} */ name) => String(new FormData(form).get(name) ?? "");

/** @returns {Earlier[]} */
function load() {
	try {
		const all = JSON.parse(localStorage.getItem(key) ?? "[]");
		return Array.isArray(all) ? all.filter((e) => typeof e?.text === "string" && typeof e.lang === "string") : [];
	} catch {
		return []; // storage is off, or holds something else
	}
}

/** @param {Earlier[]} all */
function save(all) {
	try {
		localStorage.setItem(key, JSON.stringify(all));
	} catch {
		// storage is off or full: nothing is kept
	}
}

function fill() {
	const all = load();
	box.hidden = all.length === 0;
	while (list.options.length > 1) list.remove(1);
	for (const [i, e] of all.entries()) {
		const where = e.lang === "filter" ? e.collection : e.lang === "promql" ? e.series : e.lang;
		list.add(new Option(`${where}: ${e.text.replace(/\s+/g, " ").slice(0, 100) || t("(all)")}`, String(i)));
	}
}

function showFields() {
	const lang = field("lang");
	for (const e of form.querySelectorAll("[data-for]")) {
		if (e instanceof HTMLElement) e.hidden = e.dataset.for !== lang;
	}
}

/** What is known of commands, by name. @type {Map<string, string>} */
const known = new Map();
for (const row of document.querySelectorAll(".commands tr")) {
	const [head, about] = row.children;
	known.set(head?.firstElementChild?.textContent ?? "", `${head?.textContent ?? ""}: ${about?.firstChild?.textContent ?? ""}`);
}

/** Shows the arguments of the command in whose line the cursor is. */
function showSyntax() {
	const at = text.selectionStart;
	const words = (text.value.slice(text.value.lastIndexOf("\n", at - 1) + 1).split("\n")[0] ?? "").trim().toUpperCase().split(/\s+/);
	const found = field("lang") === "keys" && (known.get(words.slice(0, 2).join(" ")) ?? known.get(words[0] ?? ""));
	syntax.textContent = found || "";
	syntax.hidden = !found;
}

form.addEventListener("submit", () => {
	/** @type {Earlier} */
	const now = { lang: field("lang"), text: text.value };
	for (const name of kept) now[name] = field(name);
	if (now.text.length > longest) return;
	const others = load().filter((e) => Object.keys(now).some((name) => e[name] !== now[name]));
	save([now, ...others].slice(0, most));
});

list.addEventListener("change", () => {
	const e = load()[Number(list.value)];
	if (!list.value || !e) return;
	text.value = e.text;
	for (const [name, v] of Object.entries(e)) {
		const input = form.elements.namedItem(name);
		if (name !== "text" && input && "value" in input) input.value = String(v ?? "");
	}
	list.value = "";
	showFields();
	text.focus();
});

document.getElementById("forget")?.addEventListener("click", () => {
	save([]);
	fill();
});

form.addEventListener("change", showFields);
form.addEventListener("change", showSyntax);
for (const name of ["input", "keyup", "click"]) text.addEventListener(name, showSyntax);
text.addEventListener("keydown", (e) => {
	if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit();
});

const plots = document.getElementById("plot");
const lines = /** @type {import("./plot.mjs").Lines | null} */ (JSON.parse(document.getElementById("data")?.textContent || "null"));
if (plots && lines) plotAll(plots, lines);

fill();
showFields();
showSyntax();
