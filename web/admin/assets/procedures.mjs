// The live numbers of the list of procedures. The order stays as it was when the page loaded.
import { follow } from "./events.mjs";
import { t } from "./texts.mjs";

/** @typedef {Record<string, string> & {fails: boolean}} Line */
/** @typedef {{totals: Record<string, string>, recent: string, lines: Record<string, Line>}} News */

const table = document.getElementById("procedures");
const stale = document.getElementById("stale");

/**
 * set changes the texts of elements that have an attribute, by its value.
 * @param {ParentNode} within
 * @param {string} attribute
 * @param {Record<string, unknown>} texts
 */
function set(within, attribute, texts) {
	for (const e of within.querySelectorAll(`[${attribute}]`)) {
		const text = String(texts[e.getAttribute(attribute) ?? ""] ?? "");
		if (e.textContent !== text) e.textContent = text;
	}
}

if (table && stale) {
	/** @type {Map<string, HTMLElement>} */
	const rows = new Map();
	for (const row of table.querySelectorAll("tr[data-name]")) {
		if (row instanceof HTMLElement) rows.set(row.dataset.name ?? "", row);
	}
	let at = new Date();
	follow(
		`/admin/procedures/_live?find=${encodeURIComponent(table.dataset.find ?? "")}`,
		{
			/** @param {News} news */
			numbers(news) {
				at = new Date();
				set(document, "data-total", news.totals);
				for (const e of table.querySelectorAll("[data-recent]")) e.textContent = news.recent;
				for (const [name, line] of Object.entries(news.lines)) {
					const row = rows.get(name);
					if (!row) continue;
					set(row, "data-live", line);
					const badge = row.querySelector("[data-fails]");
					if (badge instanceof HTMLElement) badge.hidden = !line.fails;
				}
			},
		},
		(connected) => {
			stale.textContent = connected ? "" : t("The server does not answer. These numbers are of %s; the page connects again by itself.", at.toLocaleTimeString());
		},
	);
}
