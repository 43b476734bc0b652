// Plots of numbers over time, by uPlot.

/** @type {any} */
const uPlot = /** @type {any} */ (globalThis).uPlot;

const colours = ["--accent", "--wrong", "--well"];

/**
 * plot adds an empty plot of lines with the given names to a box.
 * @param {HTMLElement} box
 * @param {string[]} names
 * @param {boolean} [tight] whether the plot need not show 0
 * @returns {(data: number[][]) => void} shows data: times in seconds, then the values of each line
 */
export function plot(box, names, tight = false) {
	const figure = document.createElement("figure");
	const title = document.createElement("figcaption");
	title.textContent = names.join(" · ");
	figure.append(title);
	box.append(figure);
	const size = () => ({ width: Math.max(200, figure.clientWidth - 24), height: 180 });
	/** @type {number[][]} */
	let data = [[], ...names.map(() => [])];
	let made = draw(figure, names, size(), data, tight);
	new ResizeObserver(() => made.setSize(size())).observe(figure);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		made.destroy(); // canvases keep the colours that they were painted with
		made = draw(figure, names, size(), data, tight);
	});
	return (next) => {
		data = next;
		made.setData(data);
	};
}

/** @typedef {{names: string[], times: number[], values: (number | null)[][]}} Lines */

/**
 * plotAll shows lines in a box that was hidden. Lines have few colours, so a plot has at most three; the others are in plots beneath.
 * @param {HTMLElement} box
 * @param {Lines} lines
 */
export function plotAll(box, lines) {
	box.hidden = false;
	box.className = "plots";
	for (let i = 0; i < lines.names.length; i += 3) {
		const show = plot(box, lines.names.slice(i, i + 3), true);
		show(/** @type {number[][]} */ ([lines.times, ...lines.values.slice(i, i + 3)]));
	}
}

/**
 * draw makes a plot in the colours of now.
 * @param {HTMLElement} figure
 * @param {string[]} names
 * @param {{width: number, height: number}} size
 * @param {number[][]} data
 * @param {boolean} tight
 */
function draw(figure, names, size, data, tight) {
	const style = getComputedStyle(document.documentElement);
	const paint = (/** @type {string} */ v) => resolve(style.getPropertyValue(v));
	const axis = { stroke: paint("--soft"), grid: { stroke: paint("--line"), width: 1 }, ticks: { stroke: paint("--line"), width: 1 } };
	return new uPlot(
		{
			...size,
			cursor: { drag: { x: false, y: false } },
			scales: tight ? {} : { y: { range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] } },
			axes: [axis, { ...axis, size: 60 }],
			series: [{ value: (/** @type {any} */ _, /** @type {number} */ at) => (at ? new Date(at * 1000).toLocaleTimeString() : "–") }, ...names.map((label, i) => ({ label, stroke: paint(colours[i % colours.length]), width: 2, points: { show: false } }))],
		},
		data,
		figure,
	);
}

/**
 * resolve turns light-dark(a, b), which canvases do not know, into a colour.
 * @param {string} colour
 */
function resolve(colour) {
	const probe = document.createElement("span");
	probe.style.color = colour;
	document.body.append(probe);
	const is = getComputedStyle(probe).color;
	probe.remove();
	return is;
}
