package browsertest

import (
	"os"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// flaws are what is wrong with how the page is now: scrolling sideways, text whose contrast
// is under WCAG AA's 4.5, controls without names or with equal ones, and controls that a
// finger does not hit well.
const flaws = `(() => {
	const found = [];
	const tell = (e, what) => found.push(what + ": " + e.outerHTML.slice(0, 120));
	const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().width > 1;
	if (document.documentElement.scrollWidth > innerWidth) {
		found.push("it is " + document.documentElement.scrollWidth + " pixels wide, of " + innerWidth);
		for (const e of document.body.querySelectorAll("*")) if (e.getBoundingClientRect().right > innerWidth + 1) tell(e, "too wide");
	}

	// Colors as numbers, whatever they were written as.
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const color = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = (c) => {
		const [r, g, b] = c.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = color(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return color("Canvas");
	};
	for (const e of document.body.querySelectorAll("*")) {
		const text = e.matches("input") ? e.value : [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
		if (!text || !seen(e) || e.matches("script, style, option")) continue;
		const [a, b] = [light(color(getComputedStyle(e).color)), light(ground(e))];
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (contrast < 4.5) tell(e, "contrast " + contrast.toFixed(1));
	}

	const names = new Map();
	for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden])")) {
		if (!seen(e)) continue;
		const by = (e.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean).map((id) => document.getElementById(id).textContent).join(" ");
		const name = by || e.ariaLabel || [...e.labels ?? []].map((l) => l.textContent.trim()).join(" ") || e.textContent.trim();
		if (!name) tell(e, "no name");
		if (names.has(name) && !(e.href && e.href === names.get(name).href)) tell(e, "two are called " + name);
		names.set(name, e);
		const inText = e.matches("p:not(.more) a, .hint a, pre a");
		if (!inText && !e.matches("[type=checkbox]") && e.getBoundingClientRect().height < 43.5) tell(e, "only " + e.getBoundingClientRect().height + " high");
	}
	return found;
})()`

// Looks fails for each flaw of a page at 360 pixels and on a desktop, light and dark.
// With SKERRY_PICTURES it takes pictures.
func (b *Tab) Looks(name string) {
	b.T.Helper()
	for _, width := range []int64{360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			if _, err := chromedp.Call(b.Context, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500}); err != nil {
				b.T.Fatal(err)
			}
			if _, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
				b.T.Fatal(err)
			}
			for _, flaw := range Eval[[]string](b, "%s", flaws) {
				b.T.Errorf("%s, %d pixels, %s: %s", name, width, scheme, flaw)
			}
			if os.Getenv("SKERRY_PICTURES") == "" {
				continue
			}
			b.Picture(strings.Join([]string{"look", name, map[int64]string{360: "phone", 1280: "desktop"}[width], scheme}, "-"))
		}
	}
}

// Visit goes to a page and looks at it.
func (b *Tab) Visit(at, name string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(at), chromedp.WaitVisible(chromedp.CSS("body")))
	b.Looks(name)
}
