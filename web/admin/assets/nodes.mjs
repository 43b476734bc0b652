// What the overview and the page of the cluster share: the tables of the nodes, and what is wrong.
import { t } from "./texts.mjs";

/** @typedef {{id: number, well: boolean} & Record<string, string>} Row */
/** @typedef {{What: string, Remedy: string}} Trouble */

/**
 * showNodes shows rows in all tables of nodes of the page.
 * @param {Row[] | null} rows
 */
export function showNodes(rows) {
	const all = rows ?? [];
	for (const tr of document.querySelectorAll("[data-row]")) {
		const id = /** @type {HTMLElement} */ (tr).dataset.row;
		const row = all.find((r) => String(r.id) === id);
		tr.classList.toggle("old", !row?.well);
		for (const td of tr.querySelectorAll("[data-cell]")) {
			const name = /** @type {HTMLElement} */ (td).dataset.cell ?? "";
			const text = row ? row[name] : name === "role" ? t("removed") : "–";
			if (td.textContent !== text) td.textContent = text;
		}
	}
	const changed = document.getElementById("nodes-changed");
	const added = all.some((r) => !document.querySelector(`[data-row="${r.id}"]`));
	if (changed && added) changed.textContent = t("There are more nodes. Load the page again to see them.");
}

/**
 * showTroubles shows what is wrong.
 * @param {Trouble[] | null} troubles
 */
export function showTroubles(troubles) {
	const all = troubles ?? [];
	const list = document.createElement("ul");
	list.className = "troubles";
	for (const one of all) {
		const li = document.createElement("li");
		const what = document.createElement("strong");
		what.textContent = one.What;
		li.append(what, ` ${one.Remedy}`);
		list.append(li);
	}
	const wrong = document.getElementById("wrong");
	if (wrong && wrong.textContent !== list.textContent) wrong.replaceChildren(...(all.length > 0 ? [list] : []));
	const well = document.getElementById("well");
	if (well) well.hidden = all.length > 0;
}
