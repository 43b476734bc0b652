// The live part of the overview.
import { follow } from "./events.mjs";
import { bytes, number } from "./format.mjs";
import { showNodes, showTroubles } from "./nodes.mjs";
import { t } from "./texts.mjs";
import { plot } from "./plot.mjs";

/** @typedef {{at: number, requests: number, writes: number, p50: number, p99: number, memory: number} & Record<string, number>} Sample */

const keep = 450;
const stale = /** @type {HTMLElement} */ (document.getElementById("stale"));
const box = /** @type {HTMLElement} */ (document.getElementById("plots"));
/** @type {Sample[]} */
const samples = JSON.parse(document.getElementById("samples")?.textContent || "null") ?? [];

box.hidden = false;
stale.textContent = "";
const name = (/** @type {string} */ key) => box.dataset[key] ?? key;
const plots = [
	plot(box, [name("requests"), name("writes")]),
	plot(box, [name("p50"), name("p99")]),
	plot(box, [name("memory")]),
];

function draw() {
	const at = samples.map((s) => s.at / 1000);
	plots[0]([at, samples.map((s) => s.requests), samples.map((s) => s.writes)]);
	plots[1]([at, samples.map((s) => s.p50), samples.map((s) => s.p99)]);
	plots[2]([at, samples.map((s) => s.memory / 1048576)]);
}

/** @param {Sample} s */
function show(s) {
	for (const e of document.querySelectorAll("[data-live]")) {
		if (!(e instanceof HTMLElement)) continue;
		const v = s[e.dataset.live ?? ""] ?? 0;
		e.textContent = e.dataset.unit === "bytes" ? bytes(v) : number(v);
	}
}

draw();
follow(
	"/admin/overview/live",
	{
		sample(s) {
			if (samples.length > 0 && s.at <= samples[samples.length - 1].at) return;
			samples.push(s);
			if (samples.length > keep) samples.shift();
			show(s);
			draw();
		},
		/** @param {{nodes: import("./nodes.mjs").Row[] | null, troubles: import("./nodes.mjs").Trouble[] | null}} now */
		nodes(now) {
			showNodes(now.nodes);
			showTroubles(now.troubles);
		},
	},
	(connected) => {
		const last = samples[samples.length - 1];
		stale.textContent = connected ? "" : t("The server does not answer. These numbers are of %s; the page connects again by itself.", last ? new Date(last.at).toLocaleTimeString() : "–");
	},
);
