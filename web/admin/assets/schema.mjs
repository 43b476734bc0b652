// The live part of the pages of the schema: how far the work after a migration is.

const pause = 1000;
const box = document.getElementById("work");

for (const b of document.querySelectorAll("button[data-copy]")) if (b instanceof HTMLElement) b.hidden = false;

/** @typedef {{collection: string, text: string, done: number, of: number, failed: boolean}} Running */

/** @param {Running[]} all */
function show(all) {
	let ended = false;
	for (const card of document.querySelectorAll("[data-work]")) {
		if (!(card instanceof HTMLElement) || card.querySelector(".problem")) continue;
		const r = all.find((r) => r.collection === card.dataset.work);
		if (!r || r.failed) {
			ended = true;
			continue;
		}
		const text = card.querySelector("[data-text]");
		if (text) text.textContent = r.text;
		const bar = card.querySelector("progress");
		if (bar) {
			bar.max = r.of;
			bar.value = r.done;
		}
	}
	return ended;
}

async function follow() {
	try {
		const answer = await fetch("/admin/schema.json", { headers: { Accept: "application/json" } });
		if (answer.ok && show((await answer.json()).running)) {
			// Forms may have input; a person reloads the page then.
			if (document.activeElement?.closest("form")) return;
			location.replace(location.pathname);
			return;
		}
	} catch {
		// The server may be starting again: ask once more.
	}
	setTimeout(follow, pause);
}

if (box && [...box.querySelectorAll("[data-work]")].some((e) => !e.querySelector(".problem"))) setTimeout(follow, pause);
