// The live part of the page of backups: how far a job is, and that it has ended.
import { follow } from "./events.mjs";

/** @typedef {{version: string, text: string, done: number, total: number}} Now */

const jobs = /** @type {HTMLElement} */ (document.getElementById("jobs"));
const stale = /** @type {HTMLElement} */ (document.getElementById("stale"));
const bar = /** @type {HTMLProgressElement | null} */ (document.getElementById("progress"));
const far = document.getElementById("far");

const version = jobs.dataset.version ?? "";
const node = version.split(":")[0];
let typed = false;
document.addEventListener("input", () => {
	typed = true;
});

/** @param {Now} now */
function show(now) {
	if (now.version !== version) {
		stale.hidden = false;
		if (!typed && now.version.split(":")[0] === node) location.replace("/admin/backups"); // another node's page would change for ever
		return;
	}
	if (far && now.text) far.textContent = now.text;
	if (bar && now.total > 0) {
		bar.max = now.total;
		bar.value = now.done;
	}
}

follow("/admin/backups/live", { jobs: show });
