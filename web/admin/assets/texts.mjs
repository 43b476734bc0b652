// Texts of modules in the language of the server.

/** @type {Record<string, string>} */
const others = JSON.parse(document.getElementById("texts")?.textContent || "null") ?? {};

/**
 * t returns a text in the language of the server. The English text is its own name; each %s is replaced by the next argument.
 * @param {string} text
 * @param {...unknown} args
 */
export function t(text, ...args) {
	let i = 0;
	return (others[text] ?? text).replace(/%s/g, () => String(args[i++] ?? ""));
}
