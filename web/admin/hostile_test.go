package admin_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// mostPage is the size that no page has, whatever it shows.
const mostPage = 8 << 20

// hostileTexts are what no page may take for markup or break at. Each begins with a word that pages that show it have.
var hostileTexts = []string{
	`zq0 <img src=x onerror=alert(1)>`,
	`zq1 "><script>alert(2)</script>`,
	`zq2' onmouseover='alert(3)' "onclick=alert(3) x`,
	"zq3 \u202egnp.exe\u2066\u200b",
	`zq4 </textarea></title></script><!--{{.}}<img src=x>`,
	"zq5\nb\r\n<img src=x>\tc",
	"zq6\x00<img src=x>\x01\x7f",
	`javascript:alert(4)//zq7`,
	`zq8 <img src=x>` + strings.Repeat("w", 990_000),
}

// hostiles is a server with hostile content.
type hostiles struct {
	*testing.T
	w   *world
	c   *client
	s   *skerry.Services
	log *slog.Logger
}

// startHostile runs a server that has everything that pages show.
func startHostile(t *testing.T) *hostiles {
	t.Helper()
	h := &hostiles{T: t}
	all := strings.ReplaceAll(strings.Join(hostileTexts[:5], " "), "\u200b", "")
	fields := []schema.Field{
		{Name: "title", Type: schema.Text, Label: all, Hint: all}, {Name: "text", Type: schema.Text}, {Name: "more", Type: schema.JSON},
		{Name: "kind", Type: schema.Select, Options: hostileTexts[:2], Default: string(inJSON(t, hostileTexts[0]))},
		{Name: "other", Type: schema.Reference, Collection: "notes", Label: all},
	}
	o := withUsers(t, &h.s, func(s *skerry.Services, app *web.App) {
		app.Get("/panics", func(c *web.Context) error { panic(c.Query("text").String()) })
		err := s.Records.Define(schema.Collection{Name: "notes", Label: all, Hint: all, Fields: fields}, schema.Collection{Name: "open", Extra: true})
		if err != nil {
			t.Error(err)
		}
	})
	o.RecentLog = &skerry.RecentLog{}
	h.log = slog.New(o.RecentLog.Handler(slog.DiscardHandler))
	o.Series = []series.Collection{{Name: "plant"}}
	o.Procedures = []proc.Procedure{
		proc.Define("echo", func(tx *proc.Tx, in struct {
			Text string `json:"text"`
		}) (map[string]string, error) {
			_, err := tx.KV(3).Set([]byte("echo"), []byte(in.Text), kv.SetOptions{})
			return map[string]string{in.Text: in.Text}, err
		}).Describe(all),
		proc.Define("refuse", func(tx *proc.Tx, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return "", fmt.Errorf("no: %s", in.Text)
		}),
	}
	h.w = start(t, o)
	return h
}

func inJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hostileURL is an attribute of which a browser runs the value.
var hostileURL = regexp.MustCompile(`(?i)^[\x00-\x20]*(javascript|data|vbscript):`)

// harmless fails the test if a page has markup that the server did not mean, or is too large.
func (h *hostiles) harmless(a *answer) *answer {
	h.Helper()
	if len(a.Body) > mostPage {
		h.Errorf("%.200s has %d bytes", a.Path, len(a.Body))
	}
	for _, raw := range []string{"<img src=x", "<script>alert"} { // also in JSON
		if strings.Contains(a.Body, raw) {
			h.Errorf("%.200s has %s", a.Path, raw)
		}
	}
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		return a
	}
	tokens := html.NewTokenizer(strings.NewReader(a.Body))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return a
		case html.StartTagToken, html.SelfClosingTagToken:
			token := tokens.Token()
			if token.Data == "img" || token.Data == "iframe" || token.Data == "base" || token.Data == "object" {
				h.Errorf("%.200s has a tag: %.200s", a.Path, token)
			}
			if strings.Contains(token.Data, "zq") {
				h.Errorf("%.200s has the tag %.200s", a.Path, token)
			}
			for _, at := range token.Attr {
				if strings.HasPrefix(at.Key, "on") || at.Key == "srcdoc" || at.Key == "style" || strings.ContainsAny(at.Key, `"'<`) ||
					(at.Val != "data:," && at.Key != "value" && at.Key != "content" && !strings.HasPrefix(at.Key, "data-") && hostileURL.MatchString(at.Val)) {
					h.Errorf("%.200s has the attribute %s=%.100q in <%s>", a.Path, at.Key, at.Val, token.Data)
				}
			}
			if token.Data == "script" && len(token.Attr) == 0 {
				h.Errorf("%.200s has a script", a.Path)
			}
		}
	}
}

// shows fails the test unless a page shows the text that begins with a word, harmlessly.
func (h *hostiles) shows(path, word string) {
	h.Helper()
	a := h.harmless(h.c.get(path))
	if a.Status != http.StatusOK || !strings.Contains(a.Body, word) {
		h.Errorf("%.300s: status %d, %s is shown: %v, %.300s", path, a.Status, word, strings.Contains(a.Body, word), cutOut(a.Body, `role="alert">`, "</"))
	}
}

// wordOf returns the word of a text.
func wordOf(text string) string { return regexp.MustCompile(`zq\d`).FindString(text) }

// cutText returns a text of at most n bytes without what a line does not have.
func cutText(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\x7f' {
			return -1
		}
		return r
	}, text)
	return text[:min(n, len(text))]
}

// hostileKinds put a text somewhere and return the pages that show it.
var hostileKinds = []struct {
	name string
	fill func(h *hostiles, text string) (pages []string)
}{
	{"keys", (*hostiles).keys},
	{"records", (*hostiles).records},
	{"users", (*hostiles).users},
	{"graph", (*hostiles).graph},
	{"series", (*hostiles).series},
	{"mail", (*hostiles).mail},
	{"logs", (*hostiles).logs},
	{"views", (*hostiles).views},
}

func (h *hostiles) keys(text string) []string {
	key := text[:min(len(text), 1500)]
	putKeys(h.T, h.s.KV, 5, key, text, key+":"+wordOf(text)+"/a", text, key+":"+wordOf(text)+"/b", text)
	one := "/admin/keys/one?space=5&key64=" + key64(key)
	return []string{
		"/admin/keys?space=5&prefix64=" + key64(key[:strings.LastIndexAny(key, ":/.")+1]), "/admin/keys?space=5&prefix64=" + key64(key+":"), one + "&as=text", "/admin/keys/prefix?space=5&prefix64=" + key64(key),
		"/admin/changes?kind=key&space=5", "/admin/changes?kind=key&prefix=" + url.QueryEscape(key[:3]), consoleAt("keys", "SCAN 0 COUNT 200", "space", "5"),
	}
}

func (h *hostiles) records(text string) []string {
	id := wordOf(text)
	clean := strings.ReplaceAll(text, "\x00", "")
	short := clean[:min(len(clean), 100)]
	doAs(h.T, h.s.Records, "<img src=x>"+id, func(tx *record.Tx) error {
		if _, err := tx.Create("notes", id, inJSON(h.T, map[string]any{"title": clean, "more": map[string]any{short: []string{short}}})); err != nil {
			return err
		}
		if _, err := tx.Update("notes", id, inJSON(h.T, map[string]any{"title": clean[:len(clean)-1] + "!"}), 0); err != nil {
			return err
		}
		if _, err := tx.Create("open", id, inJSON(h.T, map[string]any{short: short})); err != nil {
			return err
		}
		_, err := tx.Create("notes", id+"x", inJSON(h.T, map[string]any{"title": short, "other": id}))
		return err
	})
	doAs(h.T, h.s.Records, "", func(tx *record.Tx) error { _, err := tx.Delete("notes", id+"x", 0); return err })
	const notes = "/admin/records/notes"
	return []string{
		notes, notes + "?deleted=1", notes + "/" + id, notes + "/" + id + "x", notes + "/" + id + "/history", notes + "/" + id + "/history?rev=1", notes + "/" + id + "/history?rev=1&against=2",
		notes + "/history", "/admin/records/open", "/admin/records/open/" + id, "/admin/records/open/" + id + "/history", "/admin/changes?kind=record", notes + "/options?q=" + id,
		notes + "?filter=" + url.QueryEscape(`title ~ "`+id+`"`), consoleAt("filter", `title ~ "`+id+`"`, "collection", "notes"), consoleAt("filter", `title ~ "`+id+`"`, "collection", "notes", "as", "json"),
		"/admin/rules?collection=notes&operation=update&id=" + id,
	}
}

func (h *hostiles) users(text string) []string {
	name := cutText(text, auth.MaxNameBytes)
	u, err := h.s.Users.Add(h.Context(), auth.NewUser{Email: wordOf(text) + "@example.org", Name: name, Verified: true})
	if err != nil {
		h.Fatal(err)
	}
	session := h.s.Sessions.New()
	session.Describe(text)
	session.Login(u.ID)
	if _, _, err := session.Save(h.Context()); err != nil {
		h.Fatal(err)
	}
	if _, err := h.s.Users.OpenDevice(h.Context(), u, name); err != nil {
		h.Fatal(err)
	}
	if _, _, err := h.s.Users.CreateKey(h.Context(), u.ID, name, []string{"read"}, time.Time{}); err != nil {
		h.Fatal(err)
	}
	return []string{"/admin/users", "/admin/users/" + u.ID, "/admin/users?q=" + wordOf(text) + "@example.org", "/admin/rules?collection=notes&operation=list&as=" + wordOf(text) + "@example.org"}
}

func (h *hostiles) graph(text string) []string {
	word, short := wordOf(text), text[:min(len(text), 200)]
	if _, err := h.s.Graphs.Update(h.Context(), graph.Default, func(tx *graph.Tx) error {
		v, err := tx.AddVertex([]string{short}, word)
		if err != nil {
			return err
		}
		if _, err := v.Set(graph.Single, short, text); err != nil {
			return err
		}
		to, err := tx.AddVertex([]string{"thing"}, short+"!")
		if err != nil {
			return err
		}
		if _, err := to.Set(graph.Single, "name", text); err != nil {
			return err
		}
		_, err = tx.AddEdge(short, v, to, nil)
		return err
	}); err != nil {
		h.Fatal(err)
	}
	ask := func(gremlin string) string { return "/admin/graph?gremlin=" + url.QueryEscape(gremlin) }
	return []string{
		"/admin/graph", "/admin/graph?vertex=" + word, "/admin/graph?vertex=" + url.QueryEscape(short+"!"), "/admin/graph/near?vertex=" + word,
		ask("g.V('" + word + "').values()"), ask("g.V('" + word + "').outE()"), ask("g.V('" + word + "').out().valueMap()"), ask("g.V('" + word + "').label()"), consoleAt("gremlin", "g.V('"+word+"').valueMap()"),
	}
}

func (h *hostiles) series(text string) []string {
	short := text[:min(len(text), 200)]
	st, err := h.s.Series.Collection("plant")
	if err != nil {
		h.Fatal(err)
	}
	l, err := series.NewLabels(short, series.Label{Name: short, Value: text[:min(len(text), 1000)]})
	if err != nil {
		h.Fatal(err)
	}
	ids, err := st.Define(h.Context(), []series.Labels{l})
	if err != nil {
		h.Fatal(err)
	}
	var b series.Batch
	for i := range 10 {
		b.Add(ids[0], time.Now().Add(-time.Duration(i)*time.Minute).UnixNano(), float64(i))
	}
	if _, err := st.Append(h.Context(), &b); err != nil {
		h.Fatal(err)
	}
	return []string{"/admin/series?collection=plant", "/admin/series?collection=plant&selector=" + url.QueryEscape(`{__name__=~"(?s).*`+wordOf(text)+`.*"}`)}
}

func (h *hostiles) mail(text string) []string {
	line := cutText(text, 900)
	if err := h.s.Mail.Send(h.Context(), mail.Message{To: []string{wordOf(text) + "@example.org"}, Subject: line, Text: text, HTML: text}); err != nil {
		h.Fatal(err)
	}
	newest := regexp.MustCompile(`/admin/mail/\d+`).FindString(h.c.get("/admin/mail").expect(200).Body)
	return []string{"/admin/mail", newest}
}

func (h *hostiles) logs(text string) []string {
	h.log.Warn(text, wordOf(text)+text[:min(len(text), 100)], text)
	h.w.ask("/panics?text=" + url.QueryEscape(text[:min(len(text), 500)]))
	return []string{"/admin/faults", "/admin/faults?q=" + wordOf(text), "/admin/faults?level=warn"}
}

func (h *hostiles) views(text string) []string {
	line := cutText(text, 90)
	const notes = "/admin/records/notes"
	h.harmless(h.c.post(notes+"/views", "name", line, "filter", "title ~ "+string(inJSON(h.T, line)), "sort", "title")).expect(200, "Saved.")
	h.harmless(h.c.uploadFile(notes+"/import", line+".csv", "id,title\n"+line+"\n", "do", "check"))
	h.harmless(h.c.uploadFile(notes+"/import", line+".jsonl", text, "do", "import"))
	h.harmless(h.c.post(notes+"/bulk", "op", "set", "field", "title", "value", cutText(text, 5000), "on", "all"))
	for name, status := range map[string]int{"echo": 200, "refuse": 422} {
		a := h.harmless(h.c.post("/admin/procedures/"+name, "arg-text", text))
		if a.Status != status || !strings.Contains(a.Body, wordOf(text)) {
			h.Errorf("%s with %.100q: status %d: %.300s", name, text, a.Status, cutOut(a.Body, `role="alert">`, "</"))
		}
	}
	return []string{notes, "/admin/log"}
}

// TestHostile: whatever the data has, it is text on every page that shows it, and pages stay small.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks for hundreds of pages")
	}
	t.Parallel()
	h := startHostile(t)
	h.c = h.w.anna()
	for _, kind := range hostileKinds {
		begun := time.Now()
		for _, text := range hostileTexts {
			for _, page := range kind.fill(h, text) {
				h.shows(page, wordOf(text))
			}
		}
		t.Log(kind.name, time.Since(begun))
	}
	h.wide()
	h.clients()
	for _, path := range []string{"/admin/schema", "/admin/schema/notes", "/admin/procedures", "/admin/procedures/echo", "/admin/records/notes/new"} {
		h.shows(path, "zq")
	}
	for _, path := range []string{"/admin/overview", "/admin/diagram", "/admin/rules", "/admin/caches", "/admin/console", "/admin/backups", "/admin/settings", "/admin/docs", "/admin/records/notes/import", "/admin/records/notes/export"} {
		h.harmless(h.c.get(path).expect(200))
	}
	begun := time.Now()
	h.queries()
	h.forms()
	t.Log("what is asked for", time.Since(begun))
}

// wide: an object with 10,000 members.
func (h *hostiles) wide() {
	h.Helper()
	all := map[string]any{}
	for i := range 10_000 {
		all[fmt.Sprintf("%s %d", hostileTexts[0], i)] = i
	}
	doAs(h.T, h.s.Records, "", func(tx *record.Tx) error {
		if _, err := tx.Create("notes", "wide", inJSON(h.T, map[string]any{"title": "wide", "more": all})); err != nil {
			return err
		}
		_, err := tx.Create("open", "wide", inJSON(h.T, all))
		return err
	})
	doAs(h.T, h.s.Records, "", func(tx *record.Tx) error {
		_, err := tx.Update("notes", "wide", []byte(`{"more":{"small":1}}`), 0)
		return err
	})
	putKeys(h.T, h.s.KV, 5, "wide", string(inJSON(h.T, all)))
	for _, path := range []string{
		"/admin/records/notes", "/admin/records/notes/wide", "/admin/records/notes/wide/history", "/admin/records/notes/wide/history?rev=1", "/admin/records/open", "/admin/records/open/wide",
		"/admin/records/open/wide/history", "/admin/keys/one?space=5&key=wide", consoleAt("filter", `id = "wide"`, "collection", "open"), consoleAt("keys", "GET wide", "space", "5"),
	} {
		h.shows(path, "zq0")
	}
}

// clients: browsers of administrators say who they are.
func (h *hostiles) clients() {
	h.Helper()
	for i, text := range hostileTexts {
		email := fmt.Sprintf("v%d@example.org", i)
		c := h.w.client()
		c.http.Transport = named{c.http.Transport, cutText(text, 4000)}
		c.setUp(h.w.invite(email, "viewer"), email)
		h.shows(h.c.administratorPath(email), wordOf(text))
	}
}

// named is a browser with a name.
type named struct {
	http.RoundTripper
	name string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", n.name)
	return n.RoundTripper.RoundTrip(r)
}

// queries: what pages are asked for, and what comes back in forms.
func (h *hostiles) queries() {
	h.Helper()
	for path, names := range map[string]string{
		"/admin/records/notes": "filter sort columns at after deleted count", "/admin/records/notes/options": "q", "/admin/records/notes/check": "filter", "/admin/records/notes/export": "filter sort columns at format",
		"/admin/records/notes/zq0/history": "rev against at before", "/admin/records/notes/history": "before", "/admin/keys": "space prefix prefix64 from", "/admin/keys/one": "space key key64 as", "/admin/keys/prefix": "prefix",
		"/admin/series": "collection selector range until aggregate step", "/admin/graph": "graph gremlin vertex type skip", "/admin/changes": "kind collection prefix actor space before", "/admin/console": "run lang text collection sort space series range from until step explain as",
		"/admin/users": "q after", "/admin/administrators": "after", "/admin/mail": "before", "/admin/faults": "q faults lines level", "/admin/log": "before", "/admin/rules": "collection operation id as after", "/admin/diagram": "around after",
		"/admin/schema/notes/change": "what name type", "/admin/procedures": "find sort page", "/admin/procedures/echo": "arg-text", "/admin/overview": "done",
	} {
		for _, name := range strings.Fields(names) {
			for _, text := range hostileTexts[:8] {
				if a := h.harmless(h.c.get(path + "?" + url.Values{name: {text}, "run": {"1"}, "collection": {"plant"}}.Encode())); a.Status >= 500 {
					h.Errorf("%s with %s=%q: status %d", path, name, text, a.Status)
				}
			}
		}
	}
	for _, path := range []string{"/admin/records/%s", "/admin/records/notes/%s", "/admin/records/notes/%s/history", "/admin/users/%s", "/admin/administrators/%s", "/admin/procedures/%s", "/admin/schema/%s", "/admin/docs/%s", "/admin/mail/%s", "/admin/%s", "/admin/setup/%s"} {
		for _, text := range hostileTexts[:8] {
			if a := h.harmless(h.c.get(fmt.Sprintf(path, url.PathEscape(text)))); a.Status >= 500 {
				h.Errorf("%s with %q: status %d", path, text, a.Status)
			}
		}
	}
}

// forms: what is typed in forms, which come back with it.
func (h *hostiles) forms() {
	h.Helper()
	for path, names := range map[string]string{
		"/admin/users": "email name roles", "/admin/administrators": "email role", "/admin/keys/one": "key value", "/admin/keys/prefix": "prefix", "/admin/console": "text collection", "/admin/mail": "to",
		"/admin/records/notes/new": "id f.title f.more f.kind f.other extra", "/admin/records/notes/zq0": "f.title f.more f.kind f.other rev", "/admin/records/notes/zq0/cell": "field value", "/admin/records/notes/views": "name filter",
		"/admin/records/notes/bulk": "value field filter", "/admin/records/notes/history/undo": "by since", "/admin/records/notes/zq0/history/undo": "rev to", "/admin/schema/notes/drop": "confirm name", "/admin/procedures/echo": "arg-text",
	} {
		for _, name := range strings.Fields(names) {
			for _, text := range []string{hostileTexts[0], hostileTexts[4], hostileTexts[6], hostileTexts[8]} {
				a := h.harmless(h.c.post(path, name, text, "run", "1", "lang", "keys", "op", "set", "on", "all", "field", "title"))
				if a.Status >= 500 {
					h.Errorf("%s with %s=%.100q: status %d", path, name, text, a.Status)
				}
			}
		}
	}
}

// TestHostileBrowser: a browser runs nothing of it, on one page of each kind.
func TestHostileBrowser(t *testing.T) {
	t.Parallel()
	h := startHostile(t)
	c := h.w.open()
	h.c = h.w.client()
	h.c.setUp(h.w.invite("bea@example.org", "superadmin"), "bea@example.org")
	for _, kind := range hostileKinds {
		var pages []string
		for i, text := range hostileTexts {
			if made := kind.fill(h, text); i == 3 { // the one that changes the order of what is beside it
				pages = made[:2]
			}
		}
		for _, page := range pages {
			c.Do(chromedp.Navigate(h.w.URL+page), chromedp.WaitVisible(chromedp.CSS("main")))
			c.Until(`document.readyState === "complete"`)
			if bad := browsertest.Eval[string](c.Tab, `[...document.querySelectorAll("img, iframe, [onerror], [onclick], [onmouseover], a[href^='javascript']")].map((e) => e.outerHTML.slice(0, 200)).join("\n")`); bad != "" {
				t.Errorf("%s, %s: %s", kind.name, page, bad)
			}
			if bad := browsertest.Eval[string](c.Tab, `[...document.querySelectorAll("main *")].filter((e) => e.checkVisibility() && !e.matches("del, ins, option, script, text, textarea") && getComputedStyle(e).unicodeBidi === "normal" && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.includes("\u202e"))).map((e) => e.outerHTML.slice(0, 200)).join("\n")`); bad != "" {
				t.Errorf("%s, %s: this reorders what is beside it: %s", kind.name, page, bad)
			}
		}
	}
}
