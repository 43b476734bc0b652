package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// startConsole runs a server with keys, records and a graph.
func startConsole(t *testing.T) (*world, *kv.Store) {
	t.Helper()
	var all *skerry.Services
	w := start(t, serveWith(func(s *skerry.Services) {
		all = s
		if err := s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}, {Name: "size", Type: schema.Int}}, Indexes: []schema.Index{record.By("size")}}); err != nil {
			panic(err)
		}
	}))
	putKeys(t, all.KV, 0, "a", "1", "b", "<b>2</b>", "c\n", "\xff")
	_, err := all.Records.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		for i := range 150 {
			if _, err := tx.Create("notes", fmt.Sprintf("note%03d", i), fmt.Appendf(nil, `{"size":%d,"text":"<i>note %d</i>"}`, i, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = all.Graphs.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
		ann, err := tx.AddVertex([]string{"person"}, "ann")
		if err != nil {
			return err
		}
		ben, err := tx.AddVertex([]string{"person"}, "ben")
		if err != nil {
			return err
		}
		_, err = tx.AddEdge("knows", ann, ben, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, all.KV
}

// consoleAt returns the address that runs a text that only reads.
func consoleAt(lang, text string, more ...string) string {
	q := url.Values{"run": {"1"}, "lang": {lang}, "text": {text}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "/admin/console?" + q.Encode()
}

// TestConsoleCommands: commands run as those of Redis clients do, and change something only if that is allowed.
func TestConsoleCommands(t *testing.T) {
	t.Parallel()
	w, store := startConsole(t)
	c := w.anna()
	c.get("/admin/console").expect(200, "Redis commands", "INCRBY</b> key increment").lacks("name=\"problem\"")
	c.get(consoleAt("keys", "get a\nMGET b none\n# a comment\n\nTTL a\nDBSIZE\nEXISTS a none\nSTRLEN b\nSCAN 0\nGET \"c\\n\"")).expect(200, "&lt;b&gt;2&lt;/b&gt;", "(nil)", "<td class=\"cell\">2.1</td>", "<td class=\"cell\">null</td>", `\xff`, "-1").lacks("<b>2")
	for _, text := range []string{"SET a 5", "DEL a", "INCR a", "EXPIRE a 5", "PERSIST a", "FLUSHALL", "CONFIG SET slowlog-max-len 5", "CLIENT PAUSE 5000", "CALL nosuch", "SHUTDOWN", "SWAPDB 0 1"} {
		c.get(consoleAt("keys", "GET a\n"+text, "write", "1")).expect(422, "Allow changes", text+"\n^")
		c.post("/admin/console", "run", "1", "lang", "keys", "text", text).expect(422, "Allow changes")
	}
	for text, want := range map[string]string{
		"NOSUCH x": "unknown command &#39;NOSUCH&#39;", "GET": "wrong number of arguments", "GET a b": "wrong number of arguments", `GET "a`: "does not end", "": "nothing to run", "SCAN x": "invalid cursor",
		"MULTI": "does not run MULTI", "WAIT 1 0": "does not run WAIT", "SUBSCRIBE x": "does not run SUBSCRIBE", "CLIENT TRACKING ON": "does not run CLIENT TRACKING", "CLIENT REPLY OFF": "does not run CLIENT REPLY",
		"MONITOR": "unknown command", "DEBUG SLEEP 1": "unknown command", "REPLICAOF a 1": "unknown command", "<b>": "&lt;b&gt;",
	} {
		c.get(consoleAt("keys", text)).expect(422, want).lacks("<b>'")
		c.post("/admin/console", "run", "1", "lang", "keys", "text", text, "write", "1").expect(422, want)
	}
	if is := keyNow(t, store, "a"); is != "1" {
		t.Errorf("a is %s", is)
	}
	c.post("/admin/console", "run", "1", "lang", "keys", "text", "SET a 5 EXAT 4102444800\r\nINCRBY a 3\r\nDECR a\r\nSET new 'x y' NX\r\nSET new z NX\r\nEXPIRETIME a\r\nDEL b none", "write", "1").expect(200, "Changes were committed", "(nil)", "<td class=\"cell\">7</td>", "<td class=\"cell\">4102444800</td>")
	if is := keyNow(t, store, "a") + keyNow(t, store, "new") + keyNow(t, store, "b"); is != "7x y<none>" {
		t.Errorf("the keys are %s", is)
	}
	// A command that fails ends the run. Those before it stay, and nothing runs if a later line cannot.
	c.post("/admin/console", "run", "1", "lang", "keys", "text", "SET a 9\nINCR new\nSET a 10", "write", "1").expect(422, "not an integer", "INCR new\n^", "Changes were committed", "<td class=\"cell\">OK</td>")
	c.post("/admin/console", "run", "1", "lang", "keys", "text", "SET a 11\nNOSUCH", "write", "1").expect(422, "NOSUCH\n^").lacks("Changes were committed")
	if is := keyNow(t, store, "a"); is != "9" {
		t.Errorf("a is %s", is)
	}
	c.get("/admin/log").expect(200, "console.run", "SET a 5 EXAT 4102444800", "failed")
	c.get(consoleAt("keys", strings.Repeat("GET a\n", 101))).expect(422, "at most 100")
	c.get(consoleAt("keys", "GET a", "space", "250")).expect(422, "127")
	c.get(consoleAt("sql", "GET a")).expect(422, "no language")
	c.post("/admin/console", "run", "1", "lang", "keys", "text", strings.Repeat("x", 70_000)).expect(422, "longer than")
}

// TestConsoleReplies: replies of all types are shown, and cut; the console sees what Redis clients see.
func TestConsoleReplies(t *testing.T) {
	t.Parallel()
	w, store := startConsole(t)
	c := w.anna()
	c.get(consoleAt("keys", "INFO server")).expect(200, "<pre", "redis_version:7.0.15")
	c.get(consoleAt("keys", "CONFIG GET databases")).expect(200, "<td class=\"cell\">databases</td><td class=\"cell\">string</td><td class=\"cell\">16</td>")
	c.get(consoleAt("keys", "COMMAND INFO get", "as", "json")).expect(200, "&#34;reply&#34;: [", "&#34;readonly&#34;")
	c.get(consoleAt("keys", "MGET a none", "as", "json")).expect(200, "null", "&#34;1&#34;")
	c.get(consoleAt("keys", "KEYS nothing*")).expect(200, "(empty)")
	c.get(consoleAt("keys", "GET \"\\xff\\x00\\r\"")).expect(200, "(nil)", `\xff\x00\r`)
	putKeys(t, store, 127, "big", strings.Repeat("<", 300_000), "a", "in space 127")
	c.get(consoleAt("keys", "GET a", "space", "127")).expect(200, "in space 127")
	c.get(consoleAt("keys", "GET big", "space", "127")).expect(200, "<pre", "…").lacks("<<")
	c.get(consoleAt("keys", "GET big\nGET a", "space", "127")).expect(200, "…", "in space 127")
	many := []string{}
	for i := range 250 {
		many = append(many, fmt.Sprintf("many%03d", i), "x")
	}
	putKeys(t, store, 5, many...)
	c.get(consoleAt("keys", "KEYS many*", "space", "5")).expect(200, "200 rows", "larger than a page shows")
	putKeys(t, store, 6, "x", strings.Repeat("x", 5<<20), "y", strings.Repeat("y", 5<<20))
	c.get(consoleAt("keys", "MGET x y", "space", "6")).expect(422, "over the limit of 8388608 bytes")
}

// TestConsoleExplain: what is explained is not run.
func TestConsoleExplain(t *testing.T) {
	t.Parallel()
	w, store := startConsole(t)
	c := w.anna()
	c.get(consoleAt("keys", "DEL a b\nWAIT 1 1", "explain", "1")).expect(200, "This was not run", "may change something", "<td class=\"cell\">a b</td>", "key [key …]", "O(N)", "@keyspace", "it blocks, or changes its connection")
	c.post("/admin/console", "explain", "1", "lang", "keys", "text", "DEL a b", "write", "1").expect(200, "This was not run").lacks("Changes were committed")
	c.get(consoleAt("keys", "DEL", "explain", "1")).expect(422, "wrong number")
	c.get(consoleAt("filter", "size > 140", "collection", "notes", "explain", "1")).expect(200, "This was not run", "by_size").lacks("note141")
	c.get(consoleAt("gremlin", "g.addV('person')", "explain", "1")).expect(200, "This was not run", "<pre")
	c.get("/admin/log").expect(200).lacks("console.run")
	if is := keyNow(t, store, "a"); is != "1" {
		t.Errorf("a is %s", is)
	}
}

// TestConsoleFilter: records are found, with the plan, and errors have their place.
func TestConsoleFilter(t *testing.T) {
	t.Parallel()
	w, _ := startConsole(t)
	c := w.anna()
	c.get(consoleAt("filter", "size > 140", "collection", "notes", "sort", "-size")).expect(200, "note149", "&lt;i&gt;note 149", "by_size", "9 rows", "How it was found").lacks("note140", "<i>")
	c.get(consoleAt("filter", "size > 147", "collection", "notes", "as", "json")).expect(200, "&#34;size&#34;: 148", "2 rows").lacks("id=\"result\"")
	c.get(consoleAt("keys", "GET a", "as", "json")).expect(200, "&#34;reply&#34;: &#34;1&#34;")
	c.get(consoleAt("gremlin", "g.V('ann')", "as", "json")).expect(200, "&#34;label&#34;: &#34;person&#34;")
	c.get(consoleAt("filter", "", "collection", "notes")).expect(200, "There are more records", "100 rows")
	c.get(consoleAt("filter", "size >> 140", "collection", "notes")).expect(422, "size &gt;&gt; 140\n      ^")
	c.get(consoleAt("filter", "nosuch = 1", "collection", "notes")).expect(422, "nosuch")
	c.get(consoleAt("filter", "size = 1", "collection", "none")).expect(422)
	c.get(consoleAt("filter", "size = 1")).expect(422, "choose a collection")
}

// TestConsoleGremlin: traversals run, are explained, and change something only if that is allowed.
func TestConsoleGremlin(t *testing.T) {
	t.Parallel()
	w, _ := startConsole(t)
	c := w.anna()
	c.get(consoleAt("gremlin", "g.V()")).expect(200, "&#34;id&#34;:&#34;ann&#34;", "2 rows", "How it was found")
	c.get(consoleAt("gremlin", "g.V('ann').out('knows').id()")).expect(200, "&#34;ben&#34;")
	c.get(consoleAt("gremlin", "g.E()")).expect(200, "&#34;from&#34;:&#34;ann&#34;")
	c.get(consoleAt("gremlin", "g.V().group().by(label).by(id().fold())")).expect(200, "person")
	c.get(consoleAt("gremlin", "g.V().explain()")).expect(200, "<pre")
	c.get(consoleAt("gremlin", "g.V().profile()")).expect(200, "altogether", "traverserCount 2")
	c.get(consoleAt("gremlin", "g.V().nosuch()")).expect(422, "g.V().nosuch()\n      ^")
	c.get(consoleAt("gremlin", "g.V(")).expect(422, "g.V(\n    ^")
	c.get(consoleAt("gremlin", "g.inject(1).repeat(map(constant(1))).times(300000).count()")).expect(422)
	c.get(consoleAt("gremlin", "g.addV('person')")).expect(422, "Allow changes")
	c.get(consoleAt("gremlin", "g.addV('person')", "write", "1")).expect(422, "Allow changes")
	c.get(consoleAt("gremlin", "g.V().count()")).expect(200, "<td class=\"cell\">2</td>")
	c.post("/admin/console", "run", "1", "lang", "gremlin", "text", "g.addV('person').property('name', '<b>')", "write", "1").expect(200, "Changes were committed", "&#34;person&#34;")
	c.get(consoleAt("gremlin", "g.V().count()")).expect(200, "<td class=\"cell\">3</td>")
	c.get(consoleAt("gremlin", "g.inject(1).repeat(union(identity(), identity())).times(30)")).expect(200)
	c.get("/admin/log").expect(200, "console.run", "g.addV")
}

// TestConsoleViewer: viewers run what reads.
func TestConsoleViewer(t *testing.T) {
	t.Parallel()
	w, store := startConsole(t)
	v := w.anna().lookOnly()
	v.get("/admin/console").expect(200, "You can read, but change nothing").lacks(`name="write"`)
	v.get(consoleAt("keys", "GET a")).expect(200, "<td class=\"cell\">1</td>")
	v.get(consoleAt("keys", "SET a 2", "write", "1")).expect(422, "Allow changes")
	v.post("/admin/console", "run", "1", "lang", "keys", "text", "SET a 2", "write", "1").expect(403)
	if is := keyNow(t, store, "a"); is != "1" {
		t.Errorf("a is %s", is)
	}
}

// TestLooksConsole looks at the console, which keeps what was run in the browser.
func TestLooksConsole(t *testing.T) {
	t.Parallel()
	w, _ := startConsole(t)
	c := w.open()
	c.visit("/admin/console")
	c.looks("console-empty")
	run := func(lang, text string) {
		t.Helper()
		c.Click(`[name=lang][value=` + lang + `]`)
		browsertest.Eval[bool](c.Tab, `document.getElementById("text").value = "", document.getElementById("text").select(), true`)
		c.Do(chromedp.SendKeys(chromedp.CSS("#text"), text))
		c.Click(`#console p.row button`)
	}
	run("keys", "SCAN 0")
	c.Until(`document.querySelectorAll("#result tbody tr").length === 4 && document.querySelectorAll("#earlier option").length === 2`)
	c.looks("console-keys")
	c.Until(`!document.getElementById("syntax").hidden && document.getElementById("syntax").textContent.startsWith("SCAN cursor [MATCH pattern]")`)
	run("keys", "SET a 1")
	c.Until(`document.querySelector("#problem pre") !== null`)
	c.Refused(1) // the status is 422
	c.looks("console-refused")
	c.Click(`[name=explain]`)
	c.Until(`document.querySelectorAll("#result tbody tr").length === 7`)
	c.looks("console-explain")
	browsertest.Eval[bool](c.Tab, `document.querySelector("[name=collection]").value = "notes", true`)
	run("filter", "size < 30")
	c.Until(`document.querySelectorAll("#result tbody tr").length === 30`)
	c.looks("console-filter")
	run("gremlin", "g.V().nosuch()")
	c.Until(`document.querySelector("#problem pre") !== null`)
	c.Refused(1) // the status is 422
	c.looks("console-error")
	c.Until(`document.querySelectorAll("#earlier option").length === 5`)
	browsertest.Eval[bool](c.Tab, `document.getElementById("earlier").value = "1", document.getElementById("earlier").dispatchEvent(new Event("change", {bubbles: true}))`)
	c.Until(`document.getElementById("text").value === "size < 30" && document.querySelector("[name=lang]:checked").value === "filter" && document.querySelector("[name=collection]").value === "notes"`)
}
