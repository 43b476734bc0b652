// The slider through the revisions of a record.
import { t } from "./texts.mjs";

/** @typedef {{kind: "same" | "del" | "ins", text: string}} Part */
/** @typedef {{name: string, changed: boolean, parts: Part[] | null}} Member */
/** @typedef {{rev: number, against: number, latest: number, op: string, when: string, who: string, deleted: boolean, members: Member[] | null, more: number, problem?: string}} State */

const keep = 200; // states in memory
const pause = 60; // milliseconds without a move before a state is fetched

const box = document.getElementById("state");
if (box) begin(box);

/** @param {HTMLElement} box */
function begin(box) {
	const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
	const slider = /** @type {HTMLInputElement} */ (find("slider"));
	const older = /** @type {HTMLButtonElement} */ (find("older"));
	const newer = /** @type {HTMLButtonElement} */ (find("newer"));
	const latest = Number(box.dataset.latest);
	if (latest < 2) return;
	find("slide").hidden = false;

	/** @type {Map<number, State>} */
	const known = new Map();
	let wanted = Number(box.dataset.rev);
	let timer = 0;
	/** @type {AbortController | undefined} */
	let asking;

	const ends = () => {
		older.disabled = wanted <= 1;
		newer.disabled = wanted >= latest;
	};

	/** @param {number} rev */
	const go = (rev) => {
		wanted = Math.min(Math.max(rev, 1), latest);
		slider.value = String(wanted);
		slider.setAttribute("aria-valuetext", t("Revision %s of %s", wanted, latest));
		ends();
		asking?.abort();
		clearTimeout(timer);
		const s = known.get(wanted);
		if (s) show(s);
		else timer = setTimeout(ask, pause, wanted);
	};

	/** @param {number} rev */
	const ask = async (rev) => {
		asking = new AbortController();
		box.classList.add("busy");
		try {
			const answer = await fetch(`${box.dataset.path}/state?rev=${rev}`, { headers: { Accept: "application/json" }, signal: asking.signal });
			if (!answer.ok) throw new Error(t("The server answered with status %s.", answer.status));
			/** @type {State} */
			const s = await answer.json();
			if (known.size >= keep) known.clear();
			known.set(rev, s);
			if (rev === wanted) show(s);
		} catch (e) {
			if (rev !== wanted || (e instanceof DOMException && e.name === "AbortError")) return;
			box.classList.remove("busy");
			find("trouble").textContent = t("Revision %s could not be loaded: %s", rev, e instanceof Error ? e.message : e);
			find("trouble").hidden = false;
			find("members-box").hidden = true;
			const actions = document.getElementById("actions");
			if (actions) actions.hidden = true; // their revision is not the one that was asked for
		}
	};

	/** @param {State} s */
	const show = (s) => {
		box.classList.remove("busy");
		box.dataset.rev = String(s.rev);
		find("title").textContent = t("Revision %s of %s", s.rev, latest);
		find("about").textContent = s.op ? [s.op, s.when, s.who].join(" · ") : "";
		find("trashed").hidden = !s.deleted;
		find("trouble").hidden = !s.problem;
		find("trouble").textContent = s.problem ?? "";
		find("members-box").hidden = Boolean(s.problem);
		find("compared").textContent = s.against ? t("Marked: what is different from revision %s.", s.against) : t("There is no earlier revision to compare with.");
		find("more").hidden = !s.more;
		find("more").textContent = t("%s more fields are not shown.", s.more);
		find("members").replaceChildren(...(s.members ?? []).map(row));
		actions(s);
		for (const r of document.querySelectorAll("#events tbody tr")) {
			if (!(r instanceof HTMLElement)) continue;
			const here = Number(r.dataset.rev) === s.rev;
			r.classList.toggle("shown", here);
			if (here) r.setAttribute("aria-current", "true");
			else r.removeAttribute("aria-current");
		}
		for (const [name, rev] of [["rev", s.rev], ["against", s.against]]) {
			const choice = document.querySelector(`select[name=${name}]`);
			if (!(choice instanceof HTMLSelectElement) || !rev) continue;
			if (![...choice.options].some((o) => o.value === String(rev))) choice.add(new Option(String(rev)));
			choice.value = String(rev);
		}
		history.replaceState(null, "", `${box.dataset.path}?rev=${s.rev}`);
	};

	/** @param {State} s */
	const actions = (s) => {
		const all = document.getElementById("actions");
		if (!all) return;
		all.hidden = false;
		for (const form of all.querySelectorAll("form")) {
			const to = form.elements.namedItem("to");
			if (to instanceof HTMLInputElement) to.value = String(s.rev);
			form.hidden = Boolean(s.problem) || (form.id === "revert" && (s.rev === latest || document.querySelector(".in-trash") !== null));
		}
	};

	slider.addEventListener("input", () => go(Number(slider.value)));
	older.addEventListener("click", () => go(wanted - 1));
	newer.addEventListener("click", () => go(wanted + 1));
	if (wanted === 0) wanted = latest; // no revision is shown yet
	ends();
}

/** @param {Member} m */
function row(m) {
	const tr = document.createElement("tr");
	tr.classList.toggle("changed", m.changed);
	const th = document.createElement("th");
	th.scope = "row";
	th.textContent = m.name.length > 200 ? `${m.name.slice(0, 200)}…` : m.name;
	const td = document.createElement("td");
	td.className = "text";
	for (const p of m.parts ?? []) {
		if (p.kind === "same") {
			td.append(p.text);
			continue;
		}
		const mark = document.createElement(p.kind);
		mark.textContent = p.text;
		td.append(mark);
	}
	tr.append(th, td);
	return tr;
}
