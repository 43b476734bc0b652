package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/web/api"
)

// killer kills a server of site while something is done to its records.
type killer struct {
	*shell
	*rand.Rand
	p *server
}

const evesNotes = 300

// start starts the server, with the notes in their first form ("3") or a later one ("2").
func (k *killer) start(form string) {
	k.t.Helper()
	k.env = append(k.env, "SITE_NOTES="+form, fmt.Sprint("SITE_EVE=", evesNotes))
	k.p = k.serve("--admin", "127.0.0.1:0")
	k.p.waitReady()
	k.env = append(k.env, "ADMIN="+k.p.Admin)
}

// get asks the server for JSON. It returns false if there is no response.
func (k *killer) get(path string, to any) bool {
	resp, err := http.Get(k.p.Admin + path)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(to) == nil
}

// total returns how many notes meet a filter.
func (k *killer) total(filter string) int {
	k.t.Helper()
	var page struct{ Total int }
	if !k.get("/api/notes?count=true&limit=1&filter="+filter, &page) {
		k.t.Fatal("the notes cannot be counted")
	}
	return page.Total
}

// check verifies all collections.
func (k *killer) check() {
	k.t.Helper()
	if out := k.run("site verify --url $ADMIN"); !strings.HasPrefix(out, "notes: ") || !strings.Contains(out, "the last hash is") || strings.Contains(out, "[") {
		k.t.Fatalf("after kill -9: %s", out)
	}
}

// during runs a command line, kills the server at once when now returns true, and then the command.
func (k *killer) during(line string, now func() bool) {
	k.t.Helper()
	cmd := k.command("exec " + line)
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	eventually.True(k.t, "the middle of "+line, now)
	k.p.kill()
	cmd.Process.Kill()
	_ = cmd.Wait() // it was killed, or has failed
}

// TestKillRecords kills the process in the middle of an import, of a migration, of an undo and of a purge. After each,
// histories, records and indexes agree, and batches and an undo are there as a whole or not at all.
func TestKillRecords(t *testing.T) {
	t.Parallel()
	records := 6_000
	if testing.Short() {
		records = 2_000
	}
	k := &killer{shell: newSite(t), Rand: seed.Rand(t)}
	k.start("3")
	var b strings.Builder
	for i := range records {
		fmt.Fprintf(&b, `{"id":"many%d","data":{"n":%d,"by":"u%d","old":"x"}}`+"\n", i, i, i)
	}
	k.write("many.jsonl", b.String())
	at := evesNotes + 1 + k.IntN(records/2)
	k.during("site import notes many.jsonl --batch 50 --partial --url $ADMIN", func() bool { return k.total("") >= at })
	k.start("3")
	k.check()
	n := k.total("") - evesNotes
	t.Logf("%d of %d records were imported", n, records)
	if n%50 != 0 || n < at-evesNotes {
		t.Errorf("%d records of batches of 50 were imported, and %d before the server ended", n, at-evesNotes)
	}
	k.run("site import notes many.jsonl --batch 500 --existing update --url $ADMIN")
	if n := k.total("") - evesNotes; n != records {
		t.Fatalf("%d records, want %d", n, records)
	}
	k.p.kill()
	k.start("2")
	k.migrate(records)
	k.undo()
	k.purge()
}

// migrate kills the server in the middle of a migration.
func (k *killer) migrate(records int) {
	k.t.Helper()
	k.during("site migrate up --allow-loss --url $ADMIN", func() bool {
		var all api.Migrations
		return k.get("/records/migrations", &all) && all.Migrations[0].Version == 2 && (all.Migrations[0].Progress == nil || all.Migrations[0].Progress.Done > 0)
	})
	k.start("2")
	k.check()
	k.want("site migrate status --wait --url $ADMIN", "notes: version 2, up to date\n")
	k.check()
	k.want("site export notes --to all.jsonl --url $ADMIN | cut -d, -f1", fmt.Sprintf("all.jsonl: %d records\n", records+evesNotes))
	k.want(`site export notes --filter 'author > "u4"' --to some.jsonl --url $ADMIN | cut -d: -f1`, "some.jsonl\n")
	scan := k.notes("all.jsonl")
	maps.DeleteFunc(scan, func(id, data string) bool { return strings.HasPrefix(id, "eve") || id[4:] <= "4" })
	if some := k.notes("some.jsonl"); !maps.Equal(some, scan) || len(scan) == 0 {
		k.t.Errorf("an index has %d records, a scan %d", len(some), len(scan))
	}
	for id, data := range scan {
		if strings.Contains(data, "old") || !strings.Contains(data, "author") {
			k.t.Fatalf("%s is %s after the migration", id, data)
		}
	}
}

// undo kills the server at some moment of an undo.
func (k *killer) undo() {
	k.t.Helper()
	until := time.Now().Add(time.Duration(k.IntN(150)) * time.Millisecond)
	k.during("site undo --actor eve --since 1h --url $ADMIN", func() bool { return time.Now().After(until) })
	k.start("2")
	k.check()
	n := k.total("id~%22eve%25%22")
	k.t.Logf("%d notes of eve's are left", n)
	if n != 0 && n != evesNotes {
		k.t.Errorf("%d of %d creations were taken back", evesNotes-n, evesNotes)
	}
}

// purge kills the server while records are purged one after the other.
func (k *killer) purge() {
	k.t.Helper()
	before, purged, last := k.total(""), atomic.Int64{}, int64(10+k.IntN(200))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			body := strings.ReplaceAll(`{"ops":[{"op":"delete","collection":"notes","id":"ID"},{"op":"purge","collection":"notes","id":"ID"}]}`, "ID", fmt.Sprint("many", i))
			resp, err := http.Post(k.p.Admin+"/api/tx", "application/json", strings.NewReader(body))
			if err != nil {
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				k.t.Errorf("purge: %s", resp.Status)
				return
			}
			purged.Add(1)
		}
	}()
	eventually.True(k.t, "some purges", func() bool { return purged.Load() >= last })
	k.p.kill()
	<-ended
	k.start("2")
	k.check()
	if n := int64(before - k.total("")); !slices.Contains([]int64{purged.Load(), purged.Load() + 1}, n) {
		k.t.Errorf("%d records are gone, and %d purges were acknowledged", n, purged.Load())
	}
}
