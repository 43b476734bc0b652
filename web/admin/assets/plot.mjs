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
	const style = getComputedStyle(document.documentElement);
	const paint = (/** @type {string} */ v) => resolve(style.getPropertyValue(v));
	const axis = { stroke: paint("--soft"), grid: { stroke: paint("--line"), width: 1 }, ticks: { stroke: paint("--line"), width: 1 } };
	const width = () => Math.max(200, figure.clientWidth - 24);
	const made = new uPlot(
		{
			width: width(),
			height: 180,
			cursor: { drag: { x: false, y: false } },
			legend: { live: true },
			scales: tight ? {} : { y: { range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] } },
			axes: [axis, { ...axis, size: 60 }],
			series: [{}, ...names.map((label, i) => ({ label, stroke: paint(colours[i % colours.length]), width: 2, points: { show: false } }))],
		},
		[[], ...names.map(() => [])],
		figure,
	);
	new ResizeObserver(() => made.setSize({ width: width(), height: 180 })).observe(figure);
	return (data) => made.setData(data);
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
