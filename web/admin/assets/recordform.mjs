// References offer the records that match what one types; without scripts, only the first ones.

/** @type {Map<string, number>} */
const waiting = new Map();

for (const e of document.querySelectorAll("input[data-options]")) {
	const box = /** @type {HTMLInputElement} */ (e);
	const list = box.list;
	if (!list) continue;
	box.addEventListener("input", () => {
		clearTimeout(waiting.get(box.id));
		waiting.set(box.id, setTimeout(() => offer(box, list), 200));
	});
}

/**
 * @param {HTMLInputElement} box
 * @param {HTMLElement} list
 */
async function offer(box, list) {
	const text = box.value;
	const response = await fetch(`${box.dataset.options}?q=${encodeURIComponent(text)}`, { headers: { Accept: "application/json" } }).catch(() => null);
	if (!response?.ok || box.value !== text) return;
	/** @type {{options: {id: string, name: string}[] | null}} */
	const found = await response.json();
	list.replaceChildren(
		...(found.options ?? []).map((o) => {
			const option = document.createElement("option");
			option.value = o.id;
			option.textContent = o.name;
			return option;
		}),
	);
}
