package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// otherEngine hides everything of an engine that is optional.
type otherEngine struct{ engine.Engine }

// withOther returns the engines of the program and one more, with the scheme other.
func withOther() verb.Engines {
	all := engines()
	all["other"] = func(ctx context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
		eng, err := openEmbedded(ctx, u, o)
		return otherEngine{eng}, err
	}
	return all
}

// TestOtherEngine serves from an engine that is not the embedded one.
func TestOtherEngine(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=other", "SKERRY_ENGINE=other:"+s.dir+"/e")
	p := s.serve()
	if p.Data != "other:"+s.dir+"/e" || p.MemoryBytes != 0 {
		t.Errorf("it announces %+v", p.Announcement)
	}
	if out := s.run("curl -X PUT -d one " + p.HTTP + "/db/k"); strings.Contains(out, "problem") {
		t.Fatalf("write over HTTP: %s", out)
	}
	if got := p.ask("GET k"); got != "one" {
		t.Errorf("read over RESP: %q", got)
	}
	if got := p.ask("SET k two"); got != "+OK" {
		t.Errorf("write over RESP: %q", got)
	}
	if code, body := get(t, p.HTTP+"/db/k"); code != http.StatusOK || body != "two" {
		t.Errorf("read over HTTP: %d %q", code, body)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.log())
	}
	if got := s.serve().ask("GET k"); got != "two" {
		t.Errorf("after a restart: %q", got)
	}
}

// TestOtherEngineRefused: features that only the embedded engine has are refused with another one.
func TestOtherEngineRefused(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=other")
	for command, want := range map[string]string{
		"serve --engine other:e --memory 1GiB --node :0 --archive a": "! skerry serve: memory: only the embedded engine has this setting, not other\n! skerry serve: archive: only the embedded engine has this setting, not other\n! skerry serve: node: only the embedded engine has this setting, not other\n",
		"serve --engine other:e --data d":                            "--engine: other:e and data both select the data: set only one of them\n",
		"serve --engine other://u:pw@h/e?x=1":                        "the URL of an embedded engine is embedded:///folder, without a host or a query\n",
		"serve --engine none://u:secret@h/e":                         "none://u:xxxxx@h/e: unknown engine \"none\" (available: cassandra, embedded, other, postgres, postgresql, redis, redis+cluster, rediss, rediss+cluster); a URL is like embedded:///folder\n",
		"serve --engine /folder":                                     "--engine: \"/folder\" has no scheme; a URL is like embedded:///folder\n",
		"serve --engine 'x://u:secret@h:port'":                       "--engine: not a URL like embedded:///folder: invalid port \":port\" after host\n",
		"serve --engine embedded://host/folder":                      "--engine: embedded://host/folder: the URL of an embedded engine is embedded:///folder, without a host or a query\n",
		"check --engine other:e":                                     "skerry check: --engine: this verb works with the embedded engine only, not with other\n",
		"restore --from f --data d --engine other:e":                 "skerry restore: --engine: this verb works with the embedded engine only, not with other\n",
		"cluster status --engine other:e":                            "skerry cluster status: --engine: this verb works with the embedded engine only, not with other\n",
		"bench other:e --memory 1GiB":                                "skerry bench: --memory: only the embedded engine has a memory limit, not other\n",
	} {
		if out := s.run("skerry " + command); !strings.Contains(out, want) || !strings.HasSuffix(out, "[2]\n") || strings.Contains(out, "secret") {
			t.Errorf("%s: want %q, got\n%s", command, want, out)
		}
	}
	for variable, want := range map[string]string{"SKERRY_ENGINE=other:e": "SKERRY_ENGINE: this verb works", "SKERRY_CONFIG=c": "c: engine: this verb works"} {
		if out := s.run("echo 'engine = \"other:e\"' > c; " + variable + " skerry check"); !strings.Contains(out, want) {
			t.Errorf("%s: want %q, got\n%s", variable, want, out)
		}
	}
	// The embedded engine by its URL is the same as by its folder.
	if out := s.run("skerry bench embedded:e --duration 1ms --workload counter >/dev/null && skerry check --engine embedded:e"); !strings.Contains(out, "sound:") {
		t.Errorf("a folder by its URL:\n%s", out)
	}
	if out := s.run("skerry bench other:e2 --duration 1ms --workload counter"); !strings.Contains(out, "the invariant holds") {
		t.Errorf("bench of another engine:\n%s", out)
	}
}

// TestRecordsInTables: the URL says where PostgreSQL stores new collections. Those that exist stay where they are.
func TestRecordsInTables(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	on := func(query string, fn func(db *record.DB)) {
		t.Helper()
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery += query
		eng, err := openPostgres(t.Context(), u, verb.EngineOptions{})
		if err != nil {
			t.Fatal(err)
		}
		db, err := record.Open(eng, record.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fn(db)
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}
	create := func(db *record.DB, collection, id string) {
		t.Helper()
		err := db.Define(schema.Collection{Name: collection, Fields: []schema.Field{{Name: "title", Type: schema.Text}}})
		if err == nil {
			_, err = db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
				_, err := tx.Create(collection, id, []byte(`{"title":"one"}`))
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	on("", func(db *record.DB) { create(db, "posts", "a") })
	on("&records=keys", func(db *record.DB) { create(db, "posts", "b"); create(db, "notes", "a") })
	on("&records=tables", func(db *record.DB) { create(db, "posts", "c") })

	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var titles int
	var notes *string
	if err := c.QueryRow(t.Context(), `SELECT count(data->>'title'), to_regclass('skerry_records.notes')::text FROM skerry_records.posts`).Scan(&titles, &notes); err != nil || titles != 3 || notes != nil {
		t.Errorf("posts has %d titles, want 3, and notes is in %v: %v", titles, notes, err)
	}

	u, _ := url.Parse(at + "&records=files")
	if _, err := openPostgres(t.Context(), u, verb.EngineOptions{}); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "keys or tables") {
		t.Errorf("records=files: %v", err)
	}
}

// TestPasswordOfEngine serves with a password in the URL's query. No output shows it, whether the server starts or not.
func TestPasswordOfEngine(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	s := newShell(t)
	s.env = append(s.env, "SKERRY_ENGINE="+at+"&password=geheim")
	p := s.serve()
	if !strings.Contains(p.Data, "password=xxxxx") {
		t.Errorf("it announces %s", p.Data)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 || strings.Contains(p.log(), "geheim") {
		t.Errorf("exit code %d\n%s", code, p.log())
	}
	for _, bad := range []string{
		"postgres://u:geheim@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?user=u&password=geheim", "postgres://u:geheim@127.0.0.1:1/db?sslmode=geheim",
		"postgres://u:geheim@127.0.0.1:1/db?port=geheim", "postgres://u:geheim@127.0.0.1:1/db?records=x", "postgres://u:geheim/@127.0.0.1/db",
		strings.Replace(at, "skerry@", "nobody:geheim@", 1), at + "&password=geheim&no_such_setting=1",
		"redis://u:geheim@127.0.0.1:1/0", "redis://127.0.0.1:1/0?password=geheim", "redis://u:geheim@127.0.0.1:1/x", "redis://u:ge/heim@h/0",
	} {
		if out := s.run("skerry serve --engine '" + bad + "'"); !strings.Contains(out, "skerry serve: ") || strings.Contains(out, "geheim") || strings.Contains(out, ":ge") {
			t.Errorf("%s: %s", bad, out)
		}
	}
}
