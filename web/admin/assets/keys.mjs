// Changes of keys while they happen.
import { follow } from "./events.mjs";
import { bytes } from "./format.mjs";
import { t } from "./texts.mjs";

/** @typedef {{at: number, key: string, query: string, deleted: boolean, size: number, value: string, expires: number}} Change */

const most = 200; // lines that are kept
const box = document.getElementById("watch");
const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {HTMLElement} box */
function watch(box) {
	const go = find("watch-go");
	const pause = find("watch-pause");
	const state = find("watch-state");
	const lines = find("watch-lines");
	/** @type {Change[]} */
	let waiting = [];
	let left = 0; // changes that were not shown, as there were too many or the list was paused
	let paused = false;
	let asked = false;
	let missed = false; // changes that came too fast
	/** @type {(() => void) | undefined} */
	let end;

	const draw = () => {
		asked = false;
		if (paused) return;
		for (const c of waiting) lines.prepend(line(c));
		waiting = [];
		while (lines.children.length > most) lines.lastElementChild?.remove();
	};
	const say = (/** @type {string} */ text) => {
		if (state.textContent !== text) state.textContent = text;
	};
	const now = () => {
		if (paused) say(left ? t("Paused. %s older changes were left out.", left) : t("Paused."));
		else if (missed) say(t("Watching. Some changes came too fast and are missing here."));
		else say(t("Watching. The newest change is on top."));
	};

	box.hidden = false;
	go.addEventListener("click", () => {
		if (end) {
			end();
			end = undefined;
			go.textContent = t("Watch");
			pause.hidden = true;
			say("");
			return;
		}
		go.textContent = t("Stop");
		pause.hidden = false;
		find("watch-box").hidden = false;
		end = follow(
			box.dataset.url ?? "",
			{
				begin: now,
				change(c) {
					waiting.push(c);
					if (waiting.length > most) {
						waiting.shift();
						left++;
					}
					if (paused) now();
					else if (!asked) {
						asked = true;
						requestAnimationFrame(draw);
					}
				},
				gap() {
					missed = true;
					now();
				},
			},
			(connected) => (connected ? now() : say(t("The server does not answer. The page connects again by itself."))),
		);
	});
	pause.addEventListener("click", () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", String(paused));
		pause.textContent = paused ? t("Continue") : t("Pause");
		if (!paused) left = 0;
		draw();
		now();
	});
}

/** @param {Change} c */
function line(c) {
	const row = document.createElement("tr");
	const when = cell(new Date(c.at).toISOString().slice(11, 23));
	const key = cell("");
	key.className = "mono";
	const link = document.createElement("a");
	link.href = `/admin/keys/one?${c.query}`;
	const isolated = document.createElement("bdi");
	isolated.textContent = c.key;
	link.append(isolated);
	key.append(link);
	const value = cell(c.value);
	value.className = "mono";
	row.append(when, key, cell(c.deleted ? t("deleted") : t("set, %s", bytes(c.size))), value);
	return row;
}

/** @param {string} text */
function cell(text) {
	const td = document.createElement("td");
	td.textContent = text;
	return td;
}

if (box) watch(box);
