// Streams of events that survive a server that goes away.

/**
 * follow listens to a stream of events. It reports whether the stream is connected, and reconnects by itself, also after answers
 * with an error status, which EventSource gives up on.
 * @param {string} url
 * @param {Record<string, (data: any, id: string) => void>} handlers by the name of the event
 * @param {(connected: boolean) => void} [connected]
 * @returns {() => void} ends it
 */
export function follow(url, handlers, connected = () => {}) {
	/** @type {EventSource} */
	let source;
	let wait = 1000;
	let timer = 0;
	let last = "";
	const open = () => {
		source = new EventSource(last ? `${url}${url.includes("?") ? "&" : "?"}after=${encodeURIComponent(last)}` : url);
		source.onopen = () => {
			wait = 1000;
			connected(true);
		};
		source.onerror = () => {
			connected(false);
			source.close();
			timer = setTimeout(open, wait);
			wait = Math.min(wait * 2, 15000);
		};
		for (const [name, fn] of Object.entries(handlers)) {
			source.addEventListener(name, (e) => {
				last = e.lastEventId || last;
				fn(JSON.parse(e.data), e.lastEventId);
			});
		}
	};
	open();
	return () => {
		clearTimeout(timer);
		source.close();
	};
}
