// Numbers for people, as render.go formats them.

/** @param {number} n */
export function number(n) {
	return n.toLocaleString("en", { maximumFractionDigits: n < 100 ? 2 : 0 }).replaceAll(",", "\u202f");
}

/** @param {number} n */
export function bytes(n) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let i = 0;
	while (n >= 1024 && i < units.length - 1) {
		n /= 1024;
		i++;
	}
	return `${i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
}
