package admin_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// serveWith returns options of a server whose parts fn gets.
func serveWith(fn func(s *skerry.Services)) skerry.Options {
	return skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		fn(s)
		return http.NotFoundHandler(), nil
	}}}
}

// startKV runs a server and returns its keys too.
func startKV(t *testing.T) (*world, *kv.Store) {
	t.Helper()
	var store *kv.Store
	w := start(t, serveWith(func(s *skerry.Services) { store = s.KV }))
	return w, store
}

// putKeys sets keys, given as alternating keys and values.
func putKeys(t *testing.T, store *kv.Store, space uint8, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if _, _, err := store.Set(t.Context(), space, []byte(pairs[i]), []byte(pairs[i+1]), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// keyNow returns the value of a key, "<none>" if there is no such key.
func keyNow(t *testing.T, store *kv.Store, key string) string {
	t.Helper()
	e, ok, _, err := store.Get(t.Context(), engine.Read{}, 0, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "<none>"
	}
	return string(e.Val)
}

var revisionInPage = regexp.MustCompile(`name="rev" value="(\d+)"`)

// keyRevision returns the revision in the form of a page.
func (a *answer) keyRevision() string {
	a.t.Helper()
	found := revisionInPage.FindStringSubmatch(a.Body)
	if found == nil {
		a.t.Fatalf("%s has no revision:\n%s", a.Path, a.Body)
	}
	return found[1]
}

// lookOnly returns the browser of an administrator who may only look.
func (c *client) lookOnly() *client {
	c.w.t.Helper()
	r, err := http.NewRequestWithContext(c.w.t.Context(), http.MethodPost, c.w.URL+"/administrators", strings.NewReader(`{"email":"vera@example.org","role":"viewer"}`))
	if err != nil {
		c.w.t.Fatal(err)
	}
	a := c.send(r).expect(200)
	found := regexp.MustCompile(`"path":"([^"]+)"`).FindStringSubmatch(a.Body)
	if found == nil {
		c.w.t.Fatalf("no link: %s", a.Body)
	}
	v := c.w.client()
	v.setUp(c.w.URL+found[1], "vera@example.org")
	return v
}

func key64(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// TestKeysTree: a page of 100,000 keys has a bounded number of lines, which are groups where keys have separators, and pages follow
// each other without a gap.
func TestKeysTree(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	var pairs []engine.Pair
	for i := range 100_000 {
		key := fmt.Sprintf("user:%06d:name", i)
		if i%2 == 0 {
			key = fmt.Sprintf("page/%d/%06d", i%5, i)
		}
		pairs = append(pairs, engine.Pair{Key: []byte(key), Val: []byte("x")})
		if len(pairs) == kv.MaxBatch || i == 99_999 {
			if _, err := store.MSet(t.Context(), 0, pairs); err != nil {
				t.Fatal(err)
			}
			pairs = pairs[:0]
		}
	}
	putKeys(t, store, 0, "alone", "1", "single:key", "2", "user:", "3")
	c := w.anna()
	top := c.get("/admin/keys").expect(200, "page/", "user:", "alone", "single:key", "1\u202f000 or more")
	if n := strings.Count(top.Body, "<tr>"); n != 2+5 { // with the heads of two tables
		t.Errorf("%d lines:\n%s", n, top.Body)
	}
	c.get("/admin/keys?prefix=page/").expect(200, "page/0/", "page/4/")
	seen := 0
	path := "/admin/keys?prefix=user:"
	for pages := 0; path != ""; pages++ {
		page := c.get(path).expect(200)
		seen += strings.Count(page.Body, `href="/admin/keys/one?`)
		if pages == 5 {
			break
		}
		found := regexp.MustCompile(`href="\?([^"]*from64=[^"]*)"`).FindStringSubmatch(page.Body)
		if found == nil {
			t.Fatalf("no next page: %s", page.Body)
		}
		path = "/admin/keys?" + strings.ReplaceAll(found[1], "&amp;", "&")
	}
	if seen != 6*100 {
		t.Errorf("6 pages have %d keys", seen)
	}
	c.get("/admin/keys?prefix=nothing").expect(200, "No key begins with this")
	c.get("/admin/keys?space=3").expect(200, "no keys yet")
	for _, bad := range []string{"space=128", "space=250", "space=x", "prefix64=!"} {
		c.get("/admin/keys?" + bad).expect(400)
	}
}

// TestKeysEdit: values are set, changed and deleted only as they were when the form was made.
func TestKeysEdit(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	c := w.anna()
	page := c.get("/admin/keys/one?key=greeting").expect(200, "There is no such key", "Create")
	c.post("/admin/keys/one", "space", "0", "key64", key64("greeting"), "rev", "0", "value", "hello\r\nyou", "as", "text", "expiry", "after", "ttl", "1h").expect(200, "Saved", "hello\nyou", "(in ")
	if is := keyNow(t, store, "greeting"); is != "hello\nyou" {
		t.Errorf("the value is %q", is)
	}
	// A second form for a new key is a conflict now, with both values.
	if page.keyRevision() != "0" {
		t.Errorf("a new key has revision %s", page.keyRevision())
	}
	c.post("/admin/keys/one", "space", "0", "key64", key64("greeting"), "rev", "0", "value", "mine", "as", "text", "expiry", "never").expect(409, "This key has changed", "hello\nyou", "mine")
	old := c.get("/admin/keys/one?key=greeting").expect(200).keyRevision()
	putKeys(t, store, 0, "greeting", "theirs")
	conflict := c.post("/admin/keys/one", "space", "0", "key64", key64("greeting"), "rev", old, "value", "mine", "as", "text", "expiry", "never").expect(409, "theirs", "mine")
	c.post("/admin/keys/delete", "space", "0", "key64", key64("greeting"), "rev", old).expect(409, "theirs")
	c.post("/admin/keys/one", "space", "0", "key64", key64("greeting"), "rev", conflict.keyRevision(), "value", "00 ff7a", "as", "hex", "expiry", "never").expect(200, "Saved", "00ff7a")
	if is := keyNow(t, store, "greeting"); is != "\x00\xffz" {
		t.Errorf("the value is %q", is)
	}
	last := c.get("/admin/keys/one?key=greeting").expect(200, `value="hex" selected`).keyRevision()
	for _, bad := range [][]string{{"value", "0g", "as", "hex"}, {"value", "kept", "as", "text", "expiry", "after", "ttl", "soon"}, {"value", "kept", "as", "text", "expiry", "after", "ttl", "-5"}} {
		c.post("/admin/keys/one", append([]string{"space", "0", "key64", key64("greeting"), "rev", last}, bad...)...).expect(422, bad[1])
	}
	c.post("/admin/keys/one", "space", "0", "key", strings.Repeat("k", 3000), "rev", "0", "value", "kept", "as", "text").expect(400, "3000 bytes")
	c.post("/admin/keys/one", "space", "200", "key", "k", "rev", "0", "value", "x").expect(400)
	c.post("/admin/keys/one", "space", "0", "key", "", "rev", "0", "value", "x").expect(400)
	c.post("/admin/keys/delete", "space", "0", "key64", key64("greeting"), "rev", last).expect(200, "Deleted")
	if is := keyNow(t, store, "greeting"); is != "<none>" {
		t.Errorf("the value is %q", is)
	}
	c.get("/admin/log").expect(200, "key.set", "greeting (space 0)", "key.delete", "failed")
}

// TestKeysHostile: keys and values may be any bytes.
func TestKeysHostile(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	hostile := []string{"\x00\xff", "line\nbreak", "<script>alert(1)</script>", "\u202egpj.exe", `quo"te'`, "a b&c=d#e%", `back\slash`, strings.Repeat("long", 500), ":", "::", "bin:\xff\xfe:x", "bin:\xff\xfe:y"}
	for _, key := range hostile {
		putKeys(t, store, 0, key, "value of "+key)
	}
	putKeys(t, store, 0, "big", strings.Repeat("é", 500_000), "json", `{"b":[1,2],"a":"<b>"}`, "return", "\na\r\nb", "empty", "")
	c := w.anna()
	c.get("/admin/keys").expect(200, `\x00\xff`, `line\nbreak`, "&lt;script&gt;", `\u202egpj.exe`).lacks("<script>alert", "\u202e")
	for _, key := range hostile {
		page := c.get("/admin/keys/one?key64="+key64(key)).expect(200, "Revision")
		c.post("/admin/keys/one", "space", "0", "key64", key64(key), "rev", page.keyRevision(), "value", "new", "as", "text", "expiry", "keep").expect(200, "Saved")
		if is := keyNow(t, store, key); is != "new" {
			t.Errorf("%q is %q", key, is)
		}
	}
	c.get("/admin/keys?prefix64="+key64("bin:\xff\xfe:")).expect(200, `bin:\xff\xfe:x`)
	c.get("/admin/keys/one?key_as=hex&key=00ff").expect(200, "Revision")
	c.get("/admin/keys/one?key_as=hex&key=0").expect(400)
	if page := c.get("/admin/keys/one?key=big").expect(200, "too large to be edited", "Download"); len(page.Body) > 200_000 {
		t.Errorf("the page has %d bytes", len(page.Body))
	}
	if got := c.get("/admin/keys/value?key=big").expect(200); len(got.Body) != 1_000_000 || !strings.Contains(got.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d bytes, %v", len(got.Body), got.Header)
	}
	c.get("/admin/keys/one?key=json").expect(200, "&#34;b&#34;: [\n")
	c.get("/admin/keys/one?key=json&as=hex").expect(200, "7b226222")
	c.get("/admin/keys/one?key=return").expect(200, `value="hex" selected`) // browsers would change its line ends
	c.get("/admin/keys/one?key=empty").expect(200, "The value is empty")
}

// TestKeysPrefix: a prefix is deleted after a dry run, and not what was written since.
func TestKeysPrefix(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	for i := range 1200 {
		putKeys(t, store, 0, fmt.Sprintf("tmp:%d", i), "x")
	}
	putKeys(t, store, 0, "tmq", "stays", "tm", "stays")
	c := w.anna()
	page := c.get("/admin/keys/prefix?prefix=tmp:").expect(200, "1\u202f200", "tmp:0", "Nothing has been deleted yet")
	until := regexp.MustCompile(`name="until" value="(\d+)"`).FindStringSubmatch(page.Body)[1]
	putKeys(t, store, 0, "tmp:later", "stays", "tmp:5", "written again")
	c.post("/admin/keys/prefix", "space", "0", "prefix64", key64("tmp:"), "until", until).expect(422, "tick the box")
	c.post("/admin/keys/prefix", "space", "0", "prefix64", key64("tmp:"), "until", until, "sure", "1").expect(200, "Deleted", "tmp:later", "tmp:5")
	for key, want := range map[string]string{"tmp:0": "<none>", "tmp:1199": "<none>", "tmp:5": "written again", "tmp:later": "stays", "tmq": "stays", "tm": "stays"} {
		if is := keyNow(t, store, key); is != want {
			t.Errorf("%s is %q, want %q", key, is, want)
		}
	}
	c.get("/admin/log").expect(200, "keys.delete", "tmp:* (space 0)")
}

// TestKeysViewer: viewers see keys, and cannot change them.
func TestKeysViewer(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	putKeys(t, store, 0, "seen", "value")
	v := w.anna().lookOnly()
	v.get("/admin/keys").expect(200, "seen").lacks("Delete all keys")
	v.get("/admin/keys/one?key=seen").expect(200, "value").lacks("<textarea", "Delete this key")
	v.post("/admin/keys/one", "space", "0", "key", "seen", "rev", "0", "value", "x").expect(403)
	v.post("/admin/keys/delete", "space", "0", "key", "seen", "rev", "0").expect(403)
	v.post("/admin/keys/prefix", "space", "0", "prefix", "", "until", "9", "sure", "1").expect(403)
	if is := keyNow(t, store, "seen"); is != "value" {
		t.Errorf("the value is %q", is)
	}
}

// TestLooksKeys looks at the pages of keys, and watches changes live.
func TestLooksKeys(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	c := w.open()
	c.visit("/admin/keys")
	c.looks("keys-empty")
	for i := range 150 {
		putKeys(t, store, 0, fmt.Sprintf("session:%d", i), "x", fmt.Sprintf("invoice/2026/%d.pdf", i), "y")
	}
	putKeys(t, store, 0, "line\nbreak", "1", "\u202egpj.exe", "2", "counter", "1205", "config", `{"theme":"dark","limits":{"uploads":20,"size":1048576},"names":["ann","bob"]}`, "bytes", "\x00\x01\x02\xff and so on", strings.Repeat("long", 100), "3")
	c.visit("/admin/keys")
	c.looks("keys")
	c.Do(chromedp.Click(chromedp.CSS("#watch-go")))
	c.Until(`document.getElementById("watch-state").textContent.startsWith("Watching")`)
	putKeys(t, store, 0, "counter", "1206", "<b>bold</b>", "<i>value</i>")
	if _, _, err := store.Delete(t.Context(), 0, []byte("counter"), 0); err != nil {
		t.Fatal(err)
	}
	c.Until(`document.querySelectorAll("#watch-lines tr").length === 3 && document.querySelector("#watch-lines tr").textContent.includes("deleted") && document.querySelector("#watch-lines").textContent.includes("<i>value</i>")`)
	c.Do(chromedp.Click(chromedp.CSS("#watch-pause")))
	putKeys(t, store, 0, "counter", "7")
	putKeys(t, store, 0, "other", "7")
	c.Do(chromedp.Click(chromedp.CSS("#watch-pause")))
	c.Until(`document.querySelectorAll("#watch-lines tr").length === 5`)
	c.looks("keys-watch")
	c.visit("/admin/keys/one?key=config")
	c.looks("key")
	c.visit("/admin/keys/one?key=bytes")
	c.looks("key-bytes")
	c.visit("/admin/keys/one?key=new")
	c.looks("key-new")
	c.visit("/admin/keys/prefix?prefix=session:")
	c.looks("keys-prefix")
}

// TestKeysLive: the stream of changes resumes after an event, and ends at positions that this server has never reached.
func TestKeysLive(t *testing.T) {
	t.Parallel()
	w, store := startKV(t)
	c := w.anna()
	read := func(path string, lines int) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := c.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text strings.Builder
		for scan := bufio.NewScanner(resp.Body); lines > 0 && scan.Scan(); {
			if strings.HasPrefix(scan.Text(), "event:") || strings.HasPrefix(scan.Text(), "data:") {
				text.WriteString(scan.Text() + "\n")
				lines--
			}
		}
		return text.String()
	}
	_, before, err := store.Set(t.Context(), 0, []byte("a:0"), nil, kv.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	putKeys(t, store, 0, "a:1", "x", "b:1", "other", "a:2", "\xff", "a:3", "y")
	got := read(fmt.Sprintf("/admin/keys/live?prefix=a:&after=%d", before), 8)
	for _, want := range []string{"begin", `"key":"a:1"`, `"value":"\\xff"`, `"key":"a:3"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the stream lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "b:1") || strings.Contains(got, `"a:0"`) {
		t.Errorf("the stream has too much:\n%s", got)
	}
	if got := read("/admin/keys/live?prefix=a:&after=1000000", 3); !strings.Contains(got, "gap") {
		t.Errorf("a position of another history: %s", got)
	}
	c.get("/admin/keys/live?space=251").expect(400)
}
