package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/bench/rig"
)

// isLive is true on an overview that has drawn its charts and gets samples.
const isLive = `document.querySelectorAll(".uplot").length === 3 && document.getElementById("stale").textContent === ""`

// weight measures what a browser without a cache loads for a page.
func (m *measurements) weight(c *client, b *browser) error {
	if _, err := chromedp.Call(b.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		return err
	}
	for _, one := range []struct {
		name, path, is string
		to             *float64
	}{
		{"the overview", "/admin/overview", isLive, &m.firstLoad},
		{"the grid", grid, `document.readyState === "complete" && document.querySelector("[role=combobox]")`, &m.gridLoad},
	} {
		before := b.bytes()
		if err := b.visit(c.base.JoinPath(one.path).String(), one.is); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		*one.to = (b.bytes() - before) / 1000
		fmt.Fprintf(m.w, "First load of %s without a cache, on the wire, with headers: %.1f kB\n", one.name, *one.to)
	}
	_, err := chromedp.Call(b.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: false})
	return err
}

// looks is after how many pages the memory is measured.
const looks = 5

// scrolled is what a browser used while it went through the pages of the grid.
type scrolled struct {
	most      memory
	collected memory // after the last page and a garbage collection
}

// inBrowser scrolls in a new browser without some features.
func (m *measurements) inBrowser(c *client, off string, to *scrolled) error {
	b, err := openBrowser(c, off)
	if err != nil {
		return err
	}
	defer b.close()
	with := "with its back/forward cache"
	if off == backCacheToo {
		with = "without its back/forward cache"
	}
	fmt.Fprintf(m.w, "%s, headless, one tab of 1280×900 pixels, %s, goes through %d pages; MB\n", b.version, with, m.plan.pages)
	return m.scroll(c, b, to)
}

// scroll goes through the pages of the grid as a person does: to the end of one, and to the next.
func (m *measurements) scroll(c *client, b *browser, to *scrolled) error {
	fmt.Fprintf(m.w, "%-28s%10s%10s%10s%12s%11s%10s\n", "page", "V8 heap", "DOM heap", "tab PSS", "renderers", "processes", "all PSS")
	row := func(name string) (memory, error) {
		now, err := b.memory()
		fmt.Fprintf(m.w, "%-28s%10.1f%10.1f%10.1f%12.1f%11d%10.1f\n", name, now.script, now.dom, now.tab, now.renderers, now.processes, now.all)
		return now, err
	}
	if _, err := row("none: about:blank"); err != nil {
		return err
	}
	if err := b.visit(c.base.JoinPath(grid).String(), `document.querySelector("a[rel=next]")`); err != nil {
		return err
	}
	var turns rig.Hist
	for n := 1; ; n++ {
		if n == 1 || n%looks == 0 || n == m.plan.pages {
			now, err := row(fmt.Sprint(n))
			if err != nil {
				return err
			}
			to.most = to.most.max(now)
		}
		if n == m.plan.pages {
			break
		}
		from := time.Now()
		if err := b.turn(n); err != nil {
			return fmt.Errorf("page %d: %w", n+1, err)
		}
		turns.Add(time.Since(from))
	}
	if err := b.collect(); err != nil {
		return err
	}
	var err error
	if to.collected, err = row(fmt.Sprintf("%d, garbage collected", m.plan.pages)); err != nil {
		return err
	}
	fmt.Fprintf(m.w, "from the click to the next page, complete: p50 %.0f ms, p99 %.0f ms\n\n", millis(turns.Quantile(0.5)), millis(turns.Quantile(0.99)))
	return nil
}

// turn goes from page n of the grid, counted from 1, to the next.
func (b *browser) turn(n int) error {
	if err := b.do(chromedp.Evaluate[chromedp.Void](`globalThis.isOld = true; scrollTo(0, document.body.scrollHeight); document.querySelector("a[rel=next]").click(); undefined`)); err != nil {
		return err
	}
	id, _ := order(n * gridRows)
	return b.until(fmt.Sprintf(`!globalThis.isOld && document.readyState === "complete" && document.querySelector("#grid tbody th")?.textContent.trim() === %q`, id))
}

// overview measures the CPU time of the server while nobody looks, and then with the overview open.
func (m *measurements) overview(c *client, b *browser, s *site) error {
	if err := b.visit("about:blank", "true"); err != nil {
		return err
	}
	if err := s.calm(); err != nil {
		return err
	}
	count := func() (float64, error) {
		before, err1 := rig.CPUTime(s.PID())
		from := time.Now()
		time.Sleep(m.plan.overview)
		after, err2 := rig.CPUTime(s.PID())
		return 100 * float64(after-before) / float64(time.Since(from)), errors.Join(err1, err2)
	}
	var err error
	if m.idle, err = count(); err != nil {
		return err
	}
	if err := b.visit(c.base.JoinPath("admin/overview").String(), isLive); err != nil {
		return err
	}
	if m.open, err = count(); err != nil {
		return err
	}
	if err := b.until(isLive); err != nil {
		return fmt.Errorf("after the measurement: %w", err)
	}
	fmt.Fprintf(m.w, "\nCPU time of the server process over %v: %.2f %% of a core with the overview open in one browser, %.2f %% with no page open\n", m.plan.overview, m.open, m.idle)
	return nil
}
