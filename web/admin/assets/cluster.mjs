// The live part of the page of the cluster.
import { follow } from "./events.mjs";
import { showNodes, showTroubles } from "./nodes.mjs";
import { t } from "./texts.mjs";

/** @typedef {{self: number, leader: number, term: number, nodes: string, roles: Record<string, string>, connected: number, rows: import("./nodes.mjs").Row[] | null, troubles: import("./nodes.mjs").Trouble[] | null}} Now */

const fresh = /** @type {HTMLElement} */ (document.getElementById("fresh"));
const leader = /** @type {HTMLElement} */ (document.getElementById("leader"));
const term = /** @type {HTMLElement} */ (document.getElementById("term"));
const past = /** @type {HTMLElement} */ (document.getElementById("past"));

/** @type {Now | undefined} */
let last;
let since = new Date();
let was = true;

/** @param {Now} now */
function show(now) {
	const name = now.leader ? t("node %s", now.leader) : t("none");
	if (String(now.term) !== term.textContent || name !== leader.textContent) {
		const tr = document.createElement("tr");
		for (const [i, text] of [`${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC`, String(now.term), name].entries()) {
			const td = document.createElement("td");
			td.textContent = text;
			if (i === 1) td.className = "number";
			tr.append(td);
		}
		past.prepend(tr);
		while (past.childElementCount > 100) past.lastElementChild?.remove();
	}
	leader.textContent = name;
	showTroubles(now.troubles);
	showNodes(now.rows);
	term.textContent = String(now.term);
	for (const e of document.querySelectorAll("[data-node]")) {
		const id = /** @type {HTMLElement} */ (e).dataset.node ?? "";
		e.classList.toggle("leads", id === String(now.leader));
		const role = e.querySelector(".role");
		if (!role) continue;
		role.textContent = now.roles[id] ?? t("removed");
		role.classList.toggle("well", id === String(now.leader));
	}
	const connected = document.getElementById("connected");
	if (connected) connected.textContent = String(now.connected);
	const behind = document.getElementById("behind"); // only a leader knows
	if (behind) behind.hidden = now.leader !== now.self;
	if (last && last.nodes !== now.nodes) fresh.textContent = t("The nodes have changed. Load the page again to see them.");
	last = now;
}

follow("/admin/cluster/live", { cluster: show }, (connected) => {
	if (connected || was) since = new Date();
	was = connected;
	if (connected) {
		fresh.textContent = t("Live.");
		return;
	}
	fresh.textContent = t("This node does not answer. What you see is of %s; the page connects again by itself.", since.toLocaleTimeString());
});
