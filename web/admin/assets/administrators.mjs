// Shows the buttons that copy a link, which need JavaScript.
for (const b of document.querySelectorAll("button[data-copy][hidden]")) {
	if (b instanceof HTMLElement && navigator.clipboard) b.hidden = false;
}
