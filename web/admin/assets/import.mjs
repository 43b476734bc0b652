// Imports without leaving the page: the chosen file stays, and the progress of sending it is shown.
import { dropZone, faultOf, takeKept } from "./dropping.mjs";
import { number } from "./format.mjs";
import { t } from "./texts.mjs";

/** @typedef {{line: number, column: number, field: string, detail: string}} Mistake */
/** @typedef {{line: number, id: string, data: string}} Row */
/** @typedef {{file: string, written: boolean, created: number, updated: number, skipped: number, failed: number, problem: string, mistakes: Mistake[] | null, more: number, rows: Row[] | null}} Report */

const form = document.getElementById("import");
if (form instanceof HTMLFormElement) begin(form);

/** @param {HTMLFormElement} form */
function begin(form) {
	const result = /** @type {HTMLElement} */ (document.getElementById("result"));
	const sending = /** @type {HTMLElement} */ (document.getElementById("sending"));
	const bar = /** @type {HTMLProgressElement} */ (document.getElementById("progress"));
	const most = Number(form.dataset.most);
	const buttons = form.querySelectorAll("button");

	/** @param {boolean} is */
	const busy = (is) => {
		sending.hidden = !is;
		for (const b of buttons) b.disabled = is;
		if (is) bar.removeAttribute("value");
	};

	const input = /** @type {HTMLInputElement} */ (form.elements.namedItem("file"));
	const format = /** @type {HTMLSelectElement} */ (form.elements.namedItem("format"));

	/** tell says what is wrong with a file before it is sent. @param {File} file */
	const tell = (file) => {
		const fault = faultOf(file, most, format.value);
		if (fault) result.replaceChildren(note(fault, "problem"));
		return fault !== "";
	};

	/** take puts a file into the form and checks it. @param {File} file */
	const take = (file) => {
		const list = new DataTransfer();
		list.items.add(file);
		input.files = list.files;
		result.replaceChildren();
		if (!tell(file)) form.requestSubmit(/** @type {HTMLButtonElement} */ (form.querySelector("[value=check]")));
		input.focus();
	};
	input.addEventListener("change", () => {
		result.replaceChildren();
		const file = input.files?.[0];
		if (file) tell(file);
	});
	dropZone(/** @type {HTMLElement} */ (document.getElementById("main")), take, (text) => result.replaceChildren(note(text, "problem")));
	takeKept(location.pathname).then(
		(file) => file && take(file),
		() => {}, // the browser keeps nothing: the person chooses the file here
	);

	form.addEventListener("submit", (e) => {
		const button = e.submitter;
		if (e.defaultPrevented || !(button instanceof HTMLButtonElement)) return;
		const question = button.dataset.confirm; // the question of admin.mjs comes after this listener
		e.preventDefault();
		e.stopPropagation();
		if (question && !confirm(question)) return;
		const data = new FormData(form, button);
		const file = data.get("file");
		if (file instanceof File && tell(file)) return;
		busy(true);
		const ask = new XMLHttpRequest();
		ask.open("POST", form.action);
		ask.setRequestHeader("Accept", "application/json");
		ask.upload.onprogress = (p) => {
			if (p.lengthComputable && p.loaded < p.total) bar.value = p.loaded / p.total;
			else bar.removeAttribute("value");
		};
		ask.onloadend = () => {
			busy(false);
			show(ask);
		};
		ask.send(data);
	});

	/** @param {XMLHttpRequest} ask */
	const show = (ask) => {
		if (ask.status === 0) {
			result.replaceChildren(note(t("The connection to the server was lost. It is not known whether the file was imported: look at the records before you try again."), "problem"));
			return;
		}
		/** @type {any} */
		let answer;
		try {
			answer = JSON.parse(ask.responseText);
		} catch {
			answer = { detail: t("The server answered with status %s.", ask.status) };
		}
		if (typeof answer.created !== "number") {
			result.replaceChildren(note(String(answer.detail ?? t("The server answered with status %s.", ask.status)), "problem"));
		} else {
			report(result, answer);
		}
		result.scrollIntoView({ block: "nearest" });
	};
}

/**
 * @param {HTMLElement} to
 * @param {Report} r
 */
function report(to, r) {
	to.replaceChildren();
	if (r.problem) to.append(note(r.problem, "problem"));
	else if (r.written) to.append(note(t("%s was imported.", r.file), "notice"));
	else if (r.failed) to.append(note(t("%s has mistakes. Nothing was written.", r.file), "problem"));
	else to.append(note(t("%s can be imported. Nothing was written yet.", r.file), "notice"));
	const total = r.created + r.updated + r.skipped + r.failed;
	if (total > 0) {
		const dl = document.createElement("dl");
		dl.className = "tiles";
		const tile = (/** @type {string} */ name, /** @type {number} */ n) => {
			const div = document.createElement("div");
			const dt = document.createElement("dt");
			const dd = document.createElement("dd");
			const b = document.createElement("b");
			dt.textContent = name;
			b.textContent = number(n);
			dd.append(b);
			div.append(dt, dd);
			dl.append(div);
		};
		tile(t("Rows"), total);
		tile(r.written ? t("Created") : t("To create"), r.created);
		tile(r.written ? t("Updated") : t("To update"), r.updated);
		tile(t("Skipped"), r.skipped);
		tile(t("With mistakes"), r.failed);
		to.append(dl);
	}
	if (r.mistakes?.length) {
		table(to, t("Mistakes"), [t("Line"), t("Column"), t("Field"), t("What is wrong")], 2, r.mistakes.map((m) => [m.line || "", m.column || "", m.field, m.detail]));
		if (r.more > 0) to.append(note(t("%s more rows have mistakes that are not listed.", number(r.more)), "hint"));
	}
	if (r.rows?.length) table(to, t("First rows"), [t("Line"), t("Id"), t("Data")], 1, r.rows.map((x) => [x.line, x.id || t("new"), x.data]));
}

/**
 * note returns a paragraph.
 * @param {string} text
 * @param {string} kind
 */
function note(text, kind) {
	const p = document.createElement("p");
	p.className = kind;
	if (kind !== "hint") p.setAttribute("role", kind === "problem" ? "alert" : "status");
	p.textContent = text;
	return p;
}

/**
 * table adds a table whose first columns have numbers and whose last one has texts.
 * @param {HTMLElement} to
 * @param {string} title
 * @param {string[]} heads
 * @param {number} numbers
 * @param {(string | number)[][]} rows
 */
function table(to, title, heads, numbers, rows) {
	const h2 = document.createElement("h2");
	h2.textContent = title;
	const box = document.createElement("div");
	box.className = "scroll";
	box.tabIndex = 0;
	box.setAttribute("role", "region");
	box.setAttribute("aria-label", title);
	const made = document.createElement("table");
	const head = made.createTHead().insertRow();
	for (const [i, text] of heads.entries()) {
		const th = document.createElement("th");
		th.scope = "col";
		th.className = i < numbers ? "number" : "";
		th.textContent = text;
		head.append(th);
	}
	const body = made.createTBody();
	for (const row of rows) {
		const tr = body.insertRow();
		for (const [i, text] of row.entries()) {
			const td = tr.insertCell();
			td.className = i < numbers ? "number" : i === row.length - 1 ? "text" : "";
			td.textContent = String(text);
		}
	}
	box.append(made);
	to.append(h2, box);
}
