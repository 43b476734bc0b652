// The plot of time series. Its values are in the table beneath.
import { plot } from "./plot.mjs";

/** @typedef {{names: string[], times: number[], values: (number | null)[][]}} Data */

const box = document.getElementById("plot");
const data = /** @type {Data | null} */ (JSON.parse(document.getElementById("data")?.textContent || "null"));
if (box && data) {
	box.hidden = false;
	box.className = "plots";
	// Lines have few colours, so each has at most three; the others are in plots beneath.
	for (let i = 0; i < data.names.length; i += 3) {
		const show = plot(box, data.names.slice(i, i + 3), true);
		show(/** @type {number[][]} */ ([data.times, ...data.values.slice(i, i + 3)]));
	}
}
