package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/bench/rig"
)

// patience is how long the browser may take for one step.
const patience = time.Minute

// browser is a Chromium of the administrator, with one tab.
type browser struct {
	ctx    context.Context // for chromedp
	cancel context.CancelFunc

	version string

	mu     sync.Mutex // guards loaded
	loaded float64    // bytes of all responses that have ended, as they were on the wire, with headers
}

// Features of Chromium that are off: chromedp's defaults, and also the cache that keeps the last pages alive for the back button.
const (
	featuresOff  = "Translate,BlinkGenPropertyTrees"
	backCacheToo = featuresOff + ",BackForwardCache"
)

// openBrowser starts Chromium with the cookies of c, without some features.
func openBrowser(c *client, off string) (*browser, error) {
	path, err := rig.Need("chromium", "chromium")
	if err != nil {
		return nil, err
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1280, 900),
		chromedp.Flag("no-sandbox", os.Getuid() == 0), chromedp.Flag("disable-crash-reporter", true), chromedp.Flag("disable-features", off))...)
	b := &browser{cancel: cancel}
	b.ctx, _ = chromedp.NewContext(ctx) // ends with its parent
	if err := chromedp.Listen(b.ctx, b.note); err != nil {
		cancel()
		return nil, err
	}
	if _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); err != nil {
		cancel()
		return nil, err
	}
	version, err := chromedp.CallBrowser(b.ctx, cdpbrowser.GetVersion, cdp.Empty{})
	if err != nil {
		cancel()
		return nil, err
	}
	b.version = version.Product
	at := c.base.JoinPath("admin")
	for _, cookie := range c.http.Jar.Cookies(at) {
		if _, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: cookie.Name, Value: cookie.Value, URL: at.String()}); err != nil {
			cancel()
			return nil, fmt.Errorf("set the cookie %s: %w", cookie.Name, err)
		}
	}
	return b, nil
}

func (b *browser) close() {
	_ = chromedp.Cancel(b.ctx) // it has done its work
	b.cancel()
}

// note counts the bytes of responses.
func (b *browser) note(event any) {
	if e, ok := event.(*network.EventLoadingFinished); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.loaded += e.EncodedDataLength
	}
}

func (b *browser) bytes() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded
}

// do runs steps that must end within patience.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// visit goes to a page and waits until an expression is true on it.
func (b *browser) visit(at, is string) error {
	if err := b.do(chromedp.Navigate(at)); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return b.until(is)
}

// until waits until a JavaScript expression is true, also on a page that comes only now.
func (b *browser) until(is string) error {
	var err error
	for from := time.Now(); time.Since(from) < patience; time.Sleep(20 * time.Millisecond) {
		var ok bool
		if ok, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+is+")")); ok {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the page is not as expected after %v: %s", patience, is), err)
}

// memory is what a browser uses, in MB (10⁶ bytes).
type memory struct {
	script    float64 // V8's heap in use, with the backing storage of its objects
	dom       float64 // Blink's heap in use: the DOM and the layout
	heaps     float64 // both
	tab       float64 // PSS of the renderer process that shows the page: the largest one
	renderers float64 // PSS of all renderer processes
	all       float64 // PSS of all processes
	processes int     // renderers
}

func (m memory) max(o memory) memory {
	return memory{max(m.script, o.script), max(m.dom, o.dom), max(m.heaps, o.heaps), max(m.tab, o.tab), max(m.renderers, o.renderers), max(m.all, o.all), max(m.processes, o.processes)}
}

// memory measures as the browser is, without collecting garbage.
func (b *browser) memory() (m memory, err error) {
	heap, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return m, err
	}
	m.script, m.dom = (heap.UsedSize+heap.BackingStorageSize)/1e6, heap.EmbedderHeapUsedSize/1e6
	m.heaps = m.script + m.dom
	processes, err := chromedp.CallBrowser(b.ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		return m, err
	}
	for _, p := range processes.ProcessInfo {
		n, err := pss(p.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			return m, err
		}
		m.all += n
		if p.Type == "renderer" {
			m.renderers += n
			m.tab = max(m.tab, n)
			m.processes++
		}
	}
	if m.processes == 0 {
		return m, errors.New("the browser has no renderer process")
	}
	return m, nil
}

// collect collects the tab's garbage.
func (b *browser) collect() error {
	_, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
	return err
}

// pss returns the memory of a process in MB; what it shares counts in proportion.
func pss(pid int64) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.FormatInt(pid, 10), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return float64(kib<<10) / 1e6, err
		}
	}
	return 0, fmt.Errorf("process %d has no Pss", pid)
}
