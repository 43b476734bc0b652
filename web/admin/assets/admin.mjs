// What all pages share: questions before what cannot be undone, and a warning before input is lost.
import { t } from "./texts.mjs";

// A form with data-confirm asks first.
document.addEventListener("submit", (e) => {
	const form = /** @type {HTMLFormElement} */ (e.target);
	const button = /** @type {HTMLElement | null} */ (e.submitter);
	const question = button?.dataset.confirm ?? form.dataset.confirm;
	if (question && !confirm(question)) e.preventDefault();
	else clean(form);
});

/** @type {Set<HTMLFormElement>} */
const changed = new Set();

/** @param {HTMLFormElement} form */
function clean(form) {
	changed.delete(form);
}

document.addEventListener("input", (e) => {
	const form = /** @type {HTMLInputElement} */ (e.target).form;
	if (form && form.method === "post" && !form.hasAttribute("data-free")) changed.add(form);
});

addEventListener("beforeunload", (e) => {
	if (changed.size > 0) e.preventDefault();
});

// Buttons with data-copy copy a text.
document.addEventListener("click", async (e) => {
	const button = /** @type {HTMLElement} */ (e.target).closest("[data-copy]");
	if (!(button instanceof HTMLElement) || !navigator.clipboard) return;
	await navigator.clipboard.writeText(button.dataset.copy ?? "");
	button.textContent = t("Copied");
});
