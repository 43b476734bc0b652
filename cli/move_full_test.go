package cli

import (
	neturl "net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine/postgres"
)

// fullMove moves a server's data to a target that becomes full, makes room, and moves on.
func fullMove(t *testing.T, to, want string, room func()) {
	s := newShell(t)
	p := s.serve()
	fillMoved(t, p, 20_000)
	out := s.run("skerry move --from " + p.HTTP + " --to " + to)
	if !strings.Contains(out, want) || !strings.HasSuffix(out, "[1]\n") {
		t.Fatalf("a move to a full target: %s", out)
	}
	if got := p.ask("SET k0 1"); got != "+OK" {
		t.Errorf("a write to the source: %s", got)
	}
	if out := s.run("timeout 60 skerry serve --engine '" + to + "' --http 127.0.0.1:0 --resp off 2>&1 | grep -v level="); !strings.Contains(out, "`skerry move` has not finished") {
		t.Errorf("serve a part: %s", out)
	}
	room()
	moveAll(s, 0, p.HTTP, to)
	next := s.serve("--engine", to)
	for key, want := range map[string]string{"k0": "1", "k19999": strings.Repeat("v", 200)} {
		if got := next.ask("GET " + key); got != want {
			t.Errorf("%s on the target: %s", key, got)
		}
	}
}

func TestMoveToFullRedis(t *testing.T) {
	t.Parallel()
	rd := redisserver.Start(t, "--maxmemory", "10mb")
	fullMove(t, rd.URL(), "the server has reached its maxmemory", func() { rd.Do(t, "CONFIG", "SET", "maxmemory", "0") })
}

// TestMoveToFullPostgres: a trigger reports a full disk once the table has some size.
func TestMoveToFullPostgres(t *testing.T) {
	t.Parallel()
	url := pgserver.Shared(t).Database(t)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	exec := func(sql string) {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), u, postgres.Options{}) // makes the tables
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	exec(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF pg_relation_size('skerry.kv') > 1000000 THEN
			RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
		END IF;
		RETURN NULL;
	END $$`)
	exec("CREATE TRIGGER full_disk AFTER INSERT ON skerry.kv EXECUTE FUNCTION full_disk()")
	fullMove(t, url, "the disk of the database server is full", func() { exec("DROP TRIGGER full_disk ON skerry.kv") })
}
