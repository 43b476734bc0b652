// Package browsertest uses web applications in a real Chromium for the tests of examples: it clicks, looks at what is on
// a page, and fails the test for whatever the browser complains about.
//
// It knows browsers and pages; it must not know what an application does.
package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/ci/eventually"
)

// patience is how long a test waits, on a busy machine.
const patience = 60 * time.Second

// logViolations logs what a Content-Security-Policy has blocked.
const logViolations = `addEventListener("securitypolicyviolation", (e) => console.error("CSP: " + e.violatedDirective + " " + e.blockedURI))`

// Tab is one tab of a real Chromium; it records what a page must not do.
type Tab struct {
	T       *testing.T
	Context context.Context // for chromedp

	mu    sync.Mutex
	wrong []string // dialogs, errors, violations of the policy
}

// Open starts Chromium. Anything wrong at the end of the test fails it.
func Open(t *testing.T) *Tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v, and SKERRY_REQUIRE_SERVERS=1", err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience) // t.Context ends before clean-up
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(900, 800), chromedp.IgnoreCertErrors,
		chromedp.Flag("no-sandbox", os.Getuid() == 0), chromedp.Flag("disable-crash-reporter", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &Tab{T: t, Context: ctx}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("stop Chromium: %v", err)
		}
		for _, w := range b.wrong {
			t.Error(w)
		}
	})
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: logViolations}); err != nil {
		t.Fatal(err)
	}
	return b
}

// note records what is wrong of the tab's events.
func (b *Tab) note(event any) {
	wrong := ""
	switch e := event.(type) {
	case *cdppage.EventJavascriptDialogOpening:
		wrong = "a dialog: " + e.Message
		go func() { // the page waits until it is closed
			_, _ = chromedp.Call(b.Context, cdppage.HandleJavaScriptDialog, cdppage.HandleJavaScriptDialogParams{Accept: true})
		}()
	case *runtime.EventExceptionThrown:
		if wrong = "an exception: " + e.ExceptionDetails.Text; e.ExceptionDetails.Exception != nil {
			wrong += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			wrong = "the console says:"
			for _, a := range e.Args {
				wrong += " " + string(a.Value) + a.Description
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			wrong = fmt.Sprintf("the log says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, wrong)
	}
}

// Do runs steps one after the other.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	if err := chromedp.Do(b.Context, steps...); err != nil {
		b.Fail(err)
	}
}

// Click clicks the element of a selector, again if an event has just replaced the list.
func (b *Tab) Click(selector string) {
	b.T.Helper()
	var err error
	eventually.Within(patience, func() bool {
		err = chromedp.Do(b.Context, chromedp.Click(chromedp.CSS(selector)))
		return err == nil || !strings.Contains(err.Error(), "Could not find node")
	})
	if err != nil {
		b.Fail(err)
	}
}

// Fail ends the test and prints the page.
func (b *Tab) Fail(err error) {
	b.T.Helper()
	text, _ := chromedp.Run(b.Context, chromedp.Evaluate[string](`location + "\n" + document.documentElement.outerHTML`)) // best effort
	b.T.Fatalf("%v\n%s", err, text)
}

// Until waits for an expression of JavaScript to be true, on this page or the next.
func (b *Tab) Until(format string, args ...any) {
	b.T.Helper()
	expression := "!!(" + fmt.Sprintf(format, args...) + ")"
	var err error
	if !eventually.Within(patience, func() (is bool) {
		is, err = chromedp.Run(b.Context, chromedp.Evaluate[bool](expression))
		return is
	}) {
		b.Fail(fmt.Errorf("timed out waiting for %s: %v", expression, err))
	}
}

// Eval returns the value of a JavaScript expression.
func Eval[T any](b *Tab, format string, args ...any) T {
	b.T.Helper()
	v, err := chromedp.Run(b.Context, chromedp.Evaluate[T](fmt.Sprintf(format, args...)))
	if err != nil {
		b.Fail(err)
	}
	return v
}

// Picture takes a screenshot for people to look at; SKERRY_PICTURES names a folder that
// keeps it.
func (b *Tab) Picture(name string) {
	b.T.Helper()
	text, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fail(err)
	}
	if size, err := png.DecodeConfig(bytes.NewReader(text)); err != nil || size.Width < 300 || size.Height < 300 {
		b.T.Errorf("a picture of %+v: %v", size, err)
	}
	dir := os.Getenv("SKERRY_PICTURES")
	if dir == "" {
		dir = b.T.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), text, 0o644); err != nil {
		b.T.Error(err)
	}
}

// Refused removes the log entries of n refused requests, which must exist.
func (b *Tab) Refused(n int) { b.T.Helper(); b.Answered(n, "4") }

// Answered does the same for requests whose status begins with a digit.
func (b *Tab) Answered(n int, status string) {
	b.T.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	was := slices.Clone(b.wrong)
	b.wrong = slices.DeleteFunc(b.wrong, func(w string) bool {
		is := strings.Contains(w, "the server responded with a status of "+status)
		if is {
			n--
		}
		return is
	})
	if n != 0 {
		b.T.Errorf("%d more requests should have had a status of %sxx: %q", n, status, was)
	}
}

// Forgive removes what is not wrong from what the browser has complained about.
func (b *Tab) Forgive(fn func(wrong string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = slices.DeleteFunc(b.wrong, fn)
}
