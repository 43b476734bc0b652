// A picture of what is around a vertex. The table beneath has the same neighbours.
import { t } from "./texts.mjs";

/** @typedef {{id: string, type?: string, label: string, name?: string, link: string}} Ref */
/** @typedef {{id: string, label: string, out: boolean, other: Ref}} Edge */
/** @typedef {Ref & {edges: Edge[] | null, more: boolean}} Around */
/** @typedef {{ref: Ref, x: number, y: number, seen: boolean, here: boolean}} Spot */
/** @typedef {{from: string, to: string, label: string}} Line */

const most = 200; // vertices
const labels = 60; // vertices up to which edges have texts
const box = document.getElementById("near");
const picture = document.getElementById("picture");
if (box) box.hidden = false;
let width = 0;
let height = 0;

function measure() {
	width = Math.min(900, Math.max(280, picture?.clientWidth ?? 0));
	height = Math.min(480, Math.max(320, width * 0.6));
}
const state = /** @type {HTMLElement} */ (document.getElementById("near-state"));
/** @type {Map<string, Spot>} */
const spots = new Map();
/** @type {Map<string, Line>} */
const lines = new Map();
let full = false;

const keyOf = (/** @type {Ref} */ r) => `${r.type ?? ""}:${r.id}`;

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function svg(name, attributes) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
	return e;
}

/**
 * add takes a vertex with its edges in.
 * @param {Around} a
 */
function add(a) {
	const mine = keyOf(a);
	let spot = spots.get(mine);
	if (!spot) {
		spot = { ref: a, x: width / 2, y: height / 2, seen: false, here: true };
		spots.set(mine, spot);
	}
	spot.seen = true;
	for (const [i, e] of (a.edges ?? []).entries()) {
		const other = keyOf(e.other);
		if (!spots.has(other)) {
			if (spots.size >= most) {
				full = true;
				continue;
			}
			const angle = i * 2.39996; // the golden angle: the same picture each time, no two in one place
			const far = 40 + 12 * Math.sqrt(i);
			spots.set(other, { ref: e.other, x: spot.x + far * Math.cos(angle), y: spot.y + far * Math.sin(angle), seen: false, here: false });
		}
		lines.set(`${e.id} ${e.out ? mine : other} ${e.out ? other : mine}`, e.out ? { from: mine, to: other, label: e.label } : { from: other, to: mine, label: e.label });
	}
	state.textContent = full ? t("The picture has at most %s vertices; follow a link in the table to go on from another one.", most) : a.more ? t("This vertex has more edges than the picture shows; the table has them all.") : "";
}

/** arrange moves the vertices: all push one another away, and edges pull. */
function arrange() {
	const all = [...spots.values()];
	const want = Math.min(70, Math.sqrt((width * height) / all.length) * 0.5);
	for (let round = 0; round < 150; round++) {
		const step = 12 * (1 - round / 150) + 0.5;
		const moves = all.map((a) => {
			let x = (width / 2 - a.x) * 0.02;
			let y = (height / 2 - a.y) * 0.03;
			for (const b of all) {
				if (a === b) continue;
				const dx = a.x - b.x || 0.01;
				const dy = a.y - b.y || 0.01;
				const push = (want * want) / (dx * dx + dy * dy);
				x += dx * push;
				y += dy * push;
			}
			return [x, y];
		});
		for (const l of lines.values()) {
			const i = all.indexOf(/** @type {Spot} */ (spots.get(l.from)));
			const j = all.indexOf(/** @type {Spot} */ (spots.get(l.to)));
			if (i < 0 || j < 0 || i === j) continue;
			const pull = Math.hypot(all[j].x - all[i].x, all[j].y - all[i].y) / want;
			const dx = (all[j].x - all[i].x) * pull;
			const dy = (all[j].y - all[i].y) * pull;
			moves[i][0] += dx;
			moves[i][1] += dy;
			moves[j][0] -= dx;
			moves[j][1] -= dy;
		}
		all.forEach((a, i) => {
			const far = Math.hypot(moves[i][0], moves[i][1]) || 1;
			const go = Math.min(far, step) / far;
			a.x = Math.min(width - 50, Math.max(50, a.x + moves[i][0] * go));
			a.y = Math.min(height - 30, Math.max(20, a.y + moves[i][1] * go));
		});
	}
}

/** @param {Ref} r */
function nameOf(r) {
	const text = [...(r.name || `${r.label} ${r.id}`)];
	return text.length > 18 ? `${text.slice(0, 17).join("")}…` : text.join("");
}

/** @param {string} [focus] the vertex that keeps the keyboard */
function draw(focus) {
	arrange();
	const ys = [...spots.values()].map((s) => s.y);
	const top = Math.min(...ys) - 25;
	const root = svg("svg", { viewBox: `0 ${top} ${width} ${Math.max(...ys) + 40 - top}`, role: "group", "aria-label": t("Neighbourhood") });
	for (const l of lines.values()) {
		const from = spots.get(l.from);
		const to = spots.get(l.to);
		if (!from || !to) continue;
		root.append(svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
		if (spots.size <= labels) {
			const text = svg("text", { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2, class: "edge", "aria-hidden": "true" });
			text.textContent = l.label.length > 16 ? `${l.label.slice(0, 15)}…` : l.label;
			root.append(text);
		}
	}
	for (const [key, s] of spots) {
		const g = svg("g", { role: "button", tabindex: 0, class: `${s.seen ? "seen" : ""} ${s.here ? "here" : ""}`, "aria-label": `${s.ref.label} ${s.ref.name || s.ref.id}${s.seen ? `, ${t("expanded")}` : ""}` });
		g.append(svg("circle", { cx: s.x, cy: s.y, r: s.here ? 12 : 9 }));
		const text = svg("text", { x: s.x, y: s.y + 24, "aria-hidden": "true" });
		text.textContent = nameOf(s.ref);
		g.append(text);
		g.addEventListener("click", () => expand(key));
		g.addEventListener("keydown", (e) => {
			const pressed = /** @type {KeyboardEvent} */ (e).key;
			if (pressed !== "Enter" && pressed !== " ") return;
			e.preventDefault();
			expand(key);
		});
		g.setAttribute("data-key", key);
		root.append(g);
	}
	picture?.replaceChildren(root);
	if (focus) /** @type {SVGElement | undefined} */ ([...root.querySelectorAll("g")].find((g) => g.getAttribute("data-key") === focus))?.focus();
}

/** @param {string} key */
async function expand(key) {
	const spot = spots.get(key);
	if (!spot || spot.seen) return;
	const q = new URLSearchParams({ graph: box?.dataset.graph ?? "", vertex: spot.ref.id, type: spot.ref.type ?? "" });
	try {
		const resp = await fetch(`/admin/graph/near?${q}`, { headers: { Accept: "application/json" } });
		if (!resp.ok) throw new Error(String(resp.status));
		add(/** @type {Around} */ (await resp.json()));
		draw(key);
	} catch {
		state.textContent = t("The neighbours of %s could not be read. Try again.", nameOf(spot.ref));
	}
}

const first = JSON.parse(document.getElementById("vertex")?.textContent || "null");
if (box && picture && first) {
	measure();
	add(first);
	draw();
	new ResizeObserver(() => {
		const [w, h] = [width, height];
		measure();
		for (const s of spots.values()) {
			s.x *= width / w;
			s.y *= height / h;
		}
		if (width !== w) draw(document.activeElement?.getAttribute("data-key") ?? undefined);
	}).observe(picture);
}
