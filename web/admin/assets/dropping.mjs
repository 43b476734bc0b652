// Files that are dropped onto a page: where they may be dropped, what is wrong with them, and how the page of records gives one to
// the page of imports.
import { bytes } from "./format.mjs";
import { t } from "./texts.mjs";

const keptFor = 60_000; // milliseconds that a file waits for the next page

/**
 * faultOf says why a file cannot be imported, before it is sent; "": it may.
 * @param {File} file
 * @param {number} most bytes
 * @param {string} [format] the one that was chosen, so that the name does not matter
 */
export function faultOf(file, most, format = "") {
	if (file.size > most) return t("%s has %s; a file can have %s at most. For more, use “skerry import”.", file.name, bytes(file.size), bytes(most));
	if (!format && !/\.(csv|jsonl|ndjson)$/i.test(file.name)) return t("The name of %s does not end with .csv, .jsonl or .ndjson, so choose the format.", file.name);
	return "";
}

/**
 * dropZone calls take for each drop of one file onto an element, and refuse with a text for other drops.
 * @param {HTMLElement} zone
 * @param {(file: File) => void} take
 * @param {(text: string) => void} refuse
 */
export function dropZone(zone, take, refuse) {
	let inside = 0;
	/** @param {DragEvent} e */
	const hasFiles = (e) => e.dataTransfer?.types.includes("Files") ?? false;
	/** @param {number} n */
	const enter = (n) => {
		inside = Math.max(0, n);
		zone.classList.toggle("dropping", inside > 0);
	};
	zone.addEventListener("dragenter", (e) => {
		if (hasFiles(e)) enter(inside + 1);
	});
	zone.addEventListener("dragleave", (e) => {
		if (hasFiles(e)) enter(inside - 1);
	});
	zone.addEventListener("dragover", (e) => {
		if (!hasFiles(e) || !e.dataTransfer) return;
		e.preventDefault(); // otherwise the browser opens the file
		e.dataTransfer.dropEffect = "copy";
	});
	zone.addEventListener("drop", (e) => {
		if (!hasFiles(e)) return;
		e.preventDefault();
		enter(0);
		const files = e.dataTransfer?.files;
		const file = files?.[0];
		if (file && files.length === 1) take(file);
		else refuse(t("Drop one file at a time."));
	});
}

/** shelf opens the place where a file waits for the next page of this browser. @returns {Promise<IDBDatabase>} */
function shelf() {
	return new Promise((resolve, reject) => {
		const ask = indexedDB.open("skerry-admin", 1);
		ask.onupgradeneeded = () => ask.result.createObjectStore("dropped");
		ask.onsuccess = () => resolve(ask.result);
		ask.onerror = () => reject(ask.error);
	});
}

/**
 * keep puts a file where takeKept finds it once, on the page at a path.
 * @param {string} path
 * @param {File} file
 */
export async function keep(path, file) {
	const db = await shelf();
	const tx = db.transaction("dropped", "readwrite");
	tx.objectStore("dropped").put({ path, file, at: Date.now() }, "file");
	await new Promise((resolve, reject) => {
		tx.oncomplete = resolve;
		tx.onabort = () => reject(tx.error);
	});
	db.close();
}

/**
 * takeKept returns the file that was kept for a path a moment ago, and forgets it and any other.
 * @param {string} path
 * @returns {Promise<File | undefined>}
 */
export async function takeKept(path) {
	const db = await shelf();
	const tx = db.transaction("dropped", "readwrite");
	const store = tx.objectStore("dropped");
	const ask = store.get("file");
	store.clear();
	await new Promise((resolve, reject) => {
		tx.oncomplete = resolve;
		tx.onabort = () => reject(tx.error);
	});
	db.close();
	const found = ask.result;
	return found?.path === path && Date.now() - found.at < keptFor ? found.file : undefined;
}
