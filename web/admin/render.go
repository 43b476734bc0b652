package admin

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// layoutLocals names the locals of the layout that are this package's.
func layoutLocals() []string {
	return []string{"menu", "who", "read_only", "build", "here", "texts", "notice", "unsafe", "prefix", "faults", "page", "me", "logged_in", "next", "email", "problem", "mails", "registers", "keys", "providers"}
}

// show renders a page.
func (a *Admin) show(c *web.Context, status int, name string, locals web.Locals) error {
	all := a.layout(c)
	maps.Copy(all, locals)
	return c.RenderStatus(status, name, all)
}

// layout returns the locals of the layout.
func (a *Admin) layout(c *web.Context) web.Locals {
	u := person(c)
	all := web.Locals{"prefix": Prefix, "build": a.o.Build, "here": c.Request.URL.RequestURI(), "texts": a.o.Texts, "who": u.Email, "read_only": !u.Has(RoleSuperadmin), "notice": a.notice(c), "unsafe": u.ID == "" && unsafePlace(c)}
	if u.ID != "" {
		all["menu"] = a.menuOf(c.Request.URL.Path, u.Has(RoleSuperadmin))
	} else {
		all["menu"] = []group(nil)
	}
	return all
}

// accountLocals are the locals of the layout on pages of package account.
func (a *Admin) accountLocals(c *web.Context) web.Locals {
	all := a.layout(c)
	delete(all, "notice")
	delete(all, "prefix")
	if u, err := c.User(); err == nil {
		all["who"], all["read_only"] = u.Email, !u.Has(RoleSuperadmin)
		if full, err := a.users.Get(c, engine.Read{Level: engine.Local}, u.ID); err == nil && full.TOTP {
			all["menu"] = a.menuOf(c.Request.URL.Path, full.Has(RoleSuperadmin))
		}
	}
	return all
}

// noticeKey is the cookie-free way of a notice from an action to the page after it: a query parameter that names it.
const noticeKey = "done"

// notice returns the text for the action that led to this page. Only texts of the program are shown.
func (a *Admin) notice(c *web.Context) string {
	text, ok := notices()[c.Query(noticeKey).String()]
	if !ok {
		return ""
	}
	return a.text(text)
}

// done redirects to a page after an action.
func (a *Admin) done(c *web.Context, path, notice string) error {
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	return c.Redirect(Prefix + path + sep + noticeKey + "=" + notice)
}

// notices are the texts after actions.
func notices() map[string]string {
	return map[string]string{
		"saved": "Saved.", "deleted": "Deleted.", "created": "Created.", "restored": "Restored.", "undone": "Undone.", "done": "Done.",
		"disabled": "Disabled.", "enabled": "Enabled.", "loggedout": "Logged out everywhere.", "reset": "Reset.", "flushed": "The cache is empty.", "withdrawn": "Withdrawn. The link no longer works.",
		"removed": "The node is removed.",
		"begun":   "Started. The progress is below.", "stopped": "Stopping.",
	}
}

// text returns a text of a page in the language of the server. The English text is its own name; texts.txt lists all.
func (a *Admin) text(text string, args ...any) string {
	if other, ok := a.o.Texts[text]; ok {
		text = other
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// when formats a time for people, in UTC.
func when(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// ago says how long ago a time was.
func (a *Admin) ago(t time.Time) string {
	d := a.o.Now().Sub(t)
	switch {
	case t.IsZero():
		return "–"
	case d < 0:
		return a.text("in the future")
	case d < time.Minute:
		return a.text("%d s ago", int(d/time.Second))
	case d < time.Hour:
		return a.text("%d min ago", int(d/time.Minute))
	case d < 48*time.Hour:
		return a.text("%d h ago", int(d/time.Hour))
	}
	return a.text("%d days ago", int(d/(24*time.Hour)))
}

// byteText formats a number of bytes.
func byteText(v any) string {
	f := asFloat(v)
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// numberText formats a number with spaces between thousands.
func numberText(v any) string {
	s := strconv.FormatFloat(asFloat(v), 'f', -1, 64)
	whole, rest, dot := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(r)
	}
	if dot {
		return sign + b.String() + "." + rest[:min(len(rest), 2)]
	}
	return sign + b.String()
}

func asFloat(v any) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	}
	return 0
}

// shorten cuts a text to n bytes, at the end of a character, and says so.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
