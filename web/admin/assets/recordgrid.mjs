// The grid of records: completion and check of the filter, and editing of single cells.
import { dropZone, faultOf, keep } from "./dropping.mjs";
import { t } from "./texts.mjs";

/** @typedef {{name: string, type: string, options?: string[], many?: boolean, required?: boolean}} Field */
/** @typedef {{rev?: number, text: string, null: boolean, list?: string, cut?: boolean, detail?: string, by?: string}} Answer */

/** @param {string} id */
const json = (id) => JSON.parse(document.getElementById(id)?.textContent || "null");

/** @type {Map<string, Field>} */
const fields = new Map((json("fields") ?? []).map((/** @type {Field} */ f) => [f.name, f]));

/**
 * make returns a new element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [text]
 * @param {string} [className]
 * @returns {HTMLElementTagNameMap[K]}
 */
function make(tag, text = "", className = "") {
	const e = document.createElement(tag);
	e.textContent = text;
	if (className) e.className = className;
	return e;
}

// The filter: a combobox that offers the names of fields and what is known besides.

const find = /** @type {HTMLFormElement} */ (document.getElementById("find"));
const filter = /** @type {HTMLInputElement} */ (document.getElementById("filter"));
const fault = /** @type {HTMLElement} */ (document.getElementById("fault"));
/** @type {[string, string][]} */
const words = json("words") ?? [];
const list = make("ul", "", "words");
list.id = "words-list";
list.hidden = true;
list.setAttribute("role", "listbox");
list.setAttribute("aria-label", t("Names for the filter"));
filter.after(list);
for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) filter.setAttribute(name, value);
let chosen = -1;

/** word returns where the word at the cursor begins, and what of it stands before the cursor; inside quotes there is none. */
function word() {
	const before = filter.value.slice(0, filter.selectionStart ?? 0);
	if ((before.replace(/\\./g, "").match(/"/g) ?? []).length % 2 === 1) return null;
	const text = /[@\w.]*$/.exec(before)?.[0] ?? "";
	return { at: before.length - text.length, text };
}

/** @param {boolean} all whether an empty word has suggestions too */
function suggest(all) {
	const w = word();
	const found = w && (all || w.text) ? words.filter(([name]) => name.startsWith(w.text) && name !== w.text).slice(0, 50) : [];
	list.replaceChildren(
		...found.map(([name, type], i) => {
			const li = make("li", name);
			li.id = `word-${i}`;
			li.setAttribute("role", "option");
			li.setAttribute("aria-selected", "false");
			if (type) li.append(make("span", type));
			li.dataset.word = name;
			li.addEventListener("pointerdown", (e) => {
				e.preventDefault();
				take(name);
			});
			return li;
		}),
	);
	list.hidden = found.length === 0;
	filter.setAttribute("aria-expanded", String(!list.hidden));
	choose(-1);
}

/** @param {number} i */
function choose(i) {
	chosen = i;
	[...list.children].forEach((li, n) => li.setAttribute("aria-selected", String(n === i)));
	const li = list.children[i];
	if (li) {
		filter.setAttribute("aria-activedescendant", li.id);
		li.scrollIntoView({ block: "nearest" });
	} else filter.removeAttribute("aria-activedescendant");
}

/** @param {string} name */
function take(name) {
	const w = word();
	if (!w) return;
	const end = filter.selectionStart ?? filter.value.length;
	filter.setRangeText(name + (name.endsWith(".") ? "" : " "), w.at, end, "end");
	suggest(false);
}

filter.addEventListener("input", () => suggest(false));
filter.addEventListener("blur", () => {
	list.hidden = true;
	filter.setAttribute("aria-expanded", "false");
});
filter.addEventListener("keydown", (e) => {
	const n = list.children.length;
	if (e.key === "ArrowDown" && list.hidden) suggest(true);
	else if (list.hidden) return;
	else if (e.key === "ArrowDown") choose((chosen + 1) % n);
	else if (e.key === "ArrowUp") choose((chosen + n - 1 + (chosen < 0 ? 1 : 0)) % n);
	else if (e.key === "Escape") {
		list.hidden = true;
		filter.setAttribute("aria-expanded", "false");
	} else if ((e.key === "Enter" || e.key === "Tab") && chosen >= 0) take(/** @type {HTMLElement} */ (list.children[chosen]).dataset.word ?? "");
	else return;
	e.preventDefault();
});

// A filter that is wrong does not leave the page; the fault is shown where it is.
let checked = false;
find.addEventListener("submit", async (e) => {
	if (checked || !filter.value.trim()) return;
	e.preventDefault();
	const asked = filter.value;
	let is;
	try {
		is = await (await fetch(`${find.dataset.check}?filter=${encodeURIComponent(asked)}`, { headers: { Accept: "application/json" } })).json();
	} catch {
		is = { ok: true }; // the page of the server will say it
	}
	if (filter.value !== asked) return; // the person writes on
	if (is.ok !== false) {
		checked = true;
		find.submit();
		return;
	}
	filter.setAttribute("aria-invalid", "true");
	const text = make("p", is.text, "problem");
	if (is.before === undefined) {
		fault.replaceChildren(text);
		return;
	}
	const shown = make("pre", "", "marked");
	shown.append(is.before, make("mark", is.at || "␣"), is.after);
	fault.replaceChildren(text, shown);
	filter.focus();
	const at = is.before.length;
	filter.setSelectionRange(at, at);
});
addEventListener("pageshow", () => {
	checked = false;
});

// The table: arrows move between cells that can be edited, Enter, F2 or a double click edits one.

const grid = document.getElementById("grid");
/** @type {HTMLTableCellElement[]} */
const cells = grid ? [...grid.querySelectorAll("td[data-field]")].map((c) => /** @type {HTMLTableCellElement} */ (c)) : [];
cells.forEach((cell, i) => {
	cell.tabIndex = i === 0 ? 0 : -1;
	cell.setAttribute("aria-label", `${cell.dataset.field}: ${cell.textContent}`);
});

/** @param {HTMLTableCellElement} cell */
function focus(cell) {
	for (const c of cells) c.tabIndex = c === cell ? 0 : -1;
	cell.focus();
}

/**
 * @param {HTMLTableCellElement} cell
 * @param {number} rows
 * @param {number} columns
 */
function neighbour(cell, rows, columns) {
	const row = /** @type {HTMLTableRowElement} */ (cell.parentElement);
	const to = columns === 0 ? /** @type {HTMLTableElement} */ (grid).rows[row.rowIndex + rows]?.cells[cell.cellIndex] : row.cells[cell.cellIndex + columns];
	if (to instanceof HTMLTableCellElement && to.dataset.field) focus(to);
}

grid?.addEventListener("dblclick", (e) => {
	const cell = /** @type {HTMLElement} */ (e.target).closest("td[data-field]");
	if (cell instanceof HTMLTableCellElement) edit(cell);
});
grid?.addEventListener("keydown", (e) => {
	const cell = e.target;
	if (!(cell instanceof HTMLTableCellElement) || !cell.dataset.field) return;
	if (e.key === "Enter" || e.key === "F2") edit(cell);
	else if (e.key === "ArrowDown") neighbour(cell, 1, 0);
	else if (e.key === "ArrowUp") neighbour(cell, -1, 0);
	else if (e.key === "ArrowRight") neighbour(cell, 0, 1);
	else if (e.key === "ArrowLeft") neighbour(cell, 0, -1);
	else return;
	e.preventDefault();
});

/**
 * input returns the input for a field with a value.
 * @param {Field} f
 * @param {string} text
 */
function input(f, text) {
	if (f.type === "bool" || f.type === "select") {
		const select = make("select");
		select.multiple = f.many ?? false;
		const is = f.many ? new Set(JSON.parse(text || "[]")) : new Set([text]);
		if (!f.many) select.append(make("option"));
		for (const o of f.type === "bool" ? ["true", "false"] : (f.options ?? [])) {
			const option = make("option", o);
			option.value = o;
			option.selected = is.has(o);
			select.append(option);
		}
		return select;
	}
	const box = f.type === "json" || f.type === "text" ? make("textarea", "", f.type === "json" ? "code" : "") : make("input");
	box.value = text;
	if (box instanceof HTMLTextAreaElement) box.rows = text.includes("\n") || f.type === "json" ? 4 : 1;
	return box;
}

/**
 * edit puts an input into a cell.
 * @param {HTMLTableCellElement} cell
 */
function edit(cell) {
	const f = fields.get(cell.dataset.field ?? "");
	if (!f || cell.classList.contains("editing")) return;
	const was = [...cell.childNodes];
	const wasNull = cell.classList.contains("null");
	const before = wasNull ? "" : (cell.dataset.list ?? cell.textContent ?? "");
	const box = input(f, before);
	box.setAttribute("aria-label", f.name);
	box.dataset.before = before;
	box.setAttribute("form", ""); // Enter must not send the form around the table
	const say = make("div", "", "say");
	say.setAttribute("role", "alert");
	cell.classList.remove("saved", "refused");
	cell.classList.add("editing");
	cell.replaceChildren(box, say);
	box.focus();
	let busy = false;
	const end = () => {
		cell.classList.remove("editing", "refused");
		focus(cell);
	};
	const undo = () => {
		cell.replaceChildren(...was);
		end();
	};
	const unchanged = () => (box instanceof HTMLSelectElement && box.multiple ? false : box.value === before);
	const save = async () => {
		if (busy) return;
		if (unchanged()) return undo();
		busy = true;
		const kept = await send(cell, f, box, wasNull);
		busy = false;
		if (!kept) return;
		if (kept.detail === undefined) {
			show(cell, kept);
			cell.classList.add("saved");
			return end();
		}
		cell.classList.add("refused");
		say.replaceChildren(kept.detail);
		if (kept.rev !== undefined && String(kept.rev) !== cell.parentElement?.dataset.rev) clash(cell, say, kept, save, end);
		box.focus();
	};
	let shift = false;
	box.addEventListener("beforeinput", (e) => {
		if (/** @type {InputEvent} */ (e).inputType === "insertLineBreak" && !shift) e.preventDefault();
	});
	box.addEventListener("keydown", (e) => {
		const event = /** @type {KeyboardEvent} */ (e);
		shift = event.shiftKey;
		event.stopPropagation();
		if (event.key === "Escape") undo();
		else if (event.key === "Enter" && !event.shiftKey) save();
		else return;
		event.preventDefault();
	});
	box.addEventListener("focusout", (e) => {
		const to = /** @type {FocusEvent} */ (e).relatedTarget;
		if (!busy && cell.classList.contains("editing") && unchanged() && !(to instanceof Node && cell.contains(to))) {
			cell.replaceChildren(...was);
			cell.classList.remove("editing", "refused");
		}
	});
}

/**
 * clash lets one choose between one's own input and what somebody else has saved.
 * @param {HTMLTableCellElement} cell
 * @param {HTMLElement} say
 * @param {Answer} now
 * @param {() => void} save
 * @param {() => void} end
 */
function clash(cell, say, now, save, end) {
	const row = /** @type {HTMLElement} */ (cell.parentElement);
	const mine = make("button", t("Save mine over it"), "second");
	const theirs = make("button", t("Take what is saved"), "second");
	mine.type = theirs.type = "button";
	mine.addEventListener("click", () => {
		row.dataset.rev = String(now.rev);
		save();
	});
	theirs.addEventListener("click", () => {
		row.dataset.rev = String(now.rev);
		show(cell, now);
		end();
	});
	say.replaceChildren(t("%s has saved this record in the meantime. The value is now: %s", now.by || t("Somebody else"), now.null ? "–" : now.text), make("br"), mine, theirs);
}

/**
 * send saves a cell. It returns undefined if the person has been told already.
 * @param {HTMLTableCellElement} cell
 * @param {Field} f
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} box
 * @param {boolean} wasNull
 * @returns {Promise<Answer | undefined>}
 */
async function send(cell, f, box, wasNull) {
	const row = /** @type {HTMLElement} */ (cell.parentElement);
	const body = new URLSearchParams({ field: f.name, rev: row.dataset.rev ?? "" });
	if (box instanceof HTMLSelectElement && box.multiple) for (const o of box.selectedOptions) body.append("value", o.value);
	else body.set("value", box.value);
	if (wasNull && box.value === "") body.set("null", "1");
	try {
		const path = (row.dataset.path ?? "").replace(/\/edit$/, "");
		const response = await fetch(`${path}/cell`, { method: "POST", headers: { Accept: "application/json" }, body });
		const answer = await response.json();
		if (response.ok || answer.rev !== undefined) return answer;
		return { text: "", null: true, detail: answer.detail ?? t("The server refused it: status %s.", response.status) };
	} catch {
		return { text: "", null: true, detail: t("The server does not answer. Nothing was saved; press Enter to try again.") };
	}
}

/**
 * show puts what a record has now into a cell.
 * @param {HTMLTableCellElement} cell
 * @param {Answer} now
 */
function show(cell, now) {
	const row = /** @type {HTMLElement} */ (cell.parentElement);
	if (now.rev !== undefined) row.dataset.rev = String(now.rev);
	cell.classList.toggle("null", now.null);
	cell.replaceChildren(now.null ? "–" : make("span", now.text, "cut"));
	if (now.list) cell.dataset.list = now.list;
	else delete cell.dataset.list;
	cell.setAttribute("aria-label", `${cell.dataset.field}: ${now.null ? "–" : now.text}`);
	if (now.cut) {
		delete cell.dataset.field; // the form has all of it
		cell.removeAttribute("tabindex");
	}
}

addEventListener("beforeunload", (e) => {
	for (const box of document.querySelectorAll("td.editing [data-before]")) {
		if (/** @type {HTMLInputElement} */ (box).value !== /** @type {HTMLElement} */ (box).dataset.before) e.preventDefault();
	}
});

// A check box that chooses all records of the page.
const head = grid?.querySelector("thead th");
const boxes = () => [...document.querySelectorAll("#grid [name=id]")].map((b) => /** @type {HTMLInputElement} */ (b));
if (head && boxes().length > 0) {
	const all = make("input");
	all.type = "checkbox";
	all.setAttribute("aria-label", t("Select all on this page"));
	all.addEventListener("change", () => boxes().forEach((b) => (b.checked = all.checked)));
	head.replaceChildren(all);
}

// A file that is dropped onto the page is imported on the next one.
const importing = document.getElementById("import");
if (importing instanceof HTMLAnchorElement) {
	/** @param {string} text */
	const refuse = (text) => fault.replaceChildren(make("p", text, "problem"));
	dropZone(
		/** @type {HTMLElement} */ (document.getElementById("main")),
		(file) => {
			const wrong = faultOf(file, Number(importing.dataset.most));
			if (wrong) {
				refuse(wrong);
				return;
			}
			keep(importing.pathname, file).then(
				() => location.assign(importing.href),
				() => location.assign(importing.href), // the browser keeps nothing: the person chooses the file there
			);
		},
		refuse,
	);
}
