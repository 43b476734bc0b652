package typescript_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/calls"
	"github.com/skerrydb/skerry/web/records"
)

// blog returns the collections of testdata/records/blog.json, of which posts and comments are open to users.
func blog(t testing.TB) (list []schema.Collection) {
	t.Helper()
	b, err := os.ReadFile("testdata/records/blog.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if name := list[i].Name; name == "posts" || name == "comments" {
			list[i].Rules = schema.Rules{List: "true", View: "true", Create: "@auth.id != null", Update: "created_by = @auth.id", Delete: "created_by = @auth.id", History: "true", Subscribe: "true"}
		}
	}
	return list
}

// TestGoldenRecords compares the module of testdata/records/blog.json, without the parts that are the same in all.
func TestGoldenRecords(t *testing.T) {
	got := generate(t, nil, typescript.Options{Collections: blog(t)})
	for _, file := range []string{"runtime.ts", "records.ts"} {
		tail, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		own, ok := strings.CutSuffix(got, "\n"+string(tail))
		if !ok {
			t.Fatalf("the module does not end in %s", file)
		}
		got = own
	}
	const golden = "testdata/records/blog.golden.ts"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("made\n%s\nnot\n%s", got, want)
	}
}

func TestMalformedCollections(t *testing.T) {
	for want, list := range map[string][]schema.Collection{
		`two collections are named "a"`: {{Name: "a"}, {Name: "a"}},
		`collection "a b": `:            {{Name: "a b"}},
		`collection "a": `:              {{Name: "a", Fields: []schema.Field{{Name: "x", Type: "tree"}}}},
	} {
		var b bytes.Buffer
		if err := typescript.Generate(&b, nil, typescript.Options{Collections: list}); err == nil || !strings.HasPrefix(err.Error(), want) || b.Len() > 0 {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestNodeRecords compiles testdata/records/run.ts with the module generated for an application with records, procedures
// and tokens, and runs it against that application.
func TestNodeRecords(t *testing.T) {
	node := need(t, "node", "nodejs")
	url, open := startApplication(t)
	dir := scratch(t)
	write(t, filepath.Join(dir, "api.ts"), generate(t, open, typescript.Options{Collections: blog(t)}))
	program, err := os.ReadFile("testdata/records/run.ts")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "run.ts"), string(program))
	tsc(t, dir, append(strictest(), "--declaration", "false", "--isolatedDeclarations", "false", "api.ts", "run.ts")...)
	tsc(t, dir, append(strictest(), "--noEmit", "--noUnusedParameters", "api.ts")...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--trace-warnings", "run.js", url, password)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// greet is open to logged-in users, who cannot set user.
type greet struct {
	User string `json:"user"`
	Text string `json:"text"`
}

// application returns a web application with records, open procedures, and the user ann@example.org. The streams of its
// records work as long as run does.
func application(t *testing.T, db *embedded.DB) (app *web.App, run func(ctx context.Context)) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := kv.New(db, kv.Options{})
	must(err)
	sessions, err := session.New(store, session.Options{})
	must(err)
	users, err := auth.New(store, auth.Options{Sessions: sessions, Argon2: auth.Params{MemoryKiB: 64, Passes: 1}, MinPassword: auth.LeastPassword})
	must(err)
	_, err = users.Create(t.Context(), "ann@example.org", password+" long enough", true)
	must(err)
	changes, err := feed.New(db, feed.Options{})
	must(err)
	all, err := record.Open(db, record.Options{Feed: changes})
	must(err)
	must(all.Define(blog(t)...))
	set, err := proc.New(db, proc.Options{},
		proc.DefineRead("greet", func(_ *proc.Tx, in greet) (string, error) { return in.Text + ", " + in.User[:1], nil }),
		proc.Define("closed", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, nil }))
	must(err)
	app, err = web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Sessions: sessions, User: account.User(users)})
	must(err)
	_, err = account.New(app, users, account.Options{Sessions: sessions, Closed: true, TokenPrefix: "/api/auth"})
	must(err)
	must(calls.Mount(app, set, calls.Options{Open: map[string]calls.Rule{"greet": {Allow: calls.LoggedIn, User: "user"}}}))
	records.Mount(app, all, records.Options{})
	return app, func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { _ = changes.Run(ctx) })
		running.Go(func() { _ = all.Run(ctx) })
		running.Wait()
	}
}

// startApplication serves an application until the test ends, and returns the procedures that it lists.
func startApplication(t *testing.T) (url string, open []proc.Schema) {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	app, run := application(t, db)
	srv := web.NewServer(app, slog.New(slog.DiscardHandler))
	srv.RegisterOnShutdown(app.EndStreams)
	running, stop := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(l) })
	served.Go(func() { run(running) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		stop()
		served.Wait()
		if err := db.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	url = "http://" + l.Addr().String()
	resp, err := http.Get(url + "/api/procedures")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Procedures []proc.Schema }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Procedures) != 1 {
		t.Fatalf("%d: %+v %v", resp.StatusCode, list, err)
	}
	return url, list.Procedures
}
