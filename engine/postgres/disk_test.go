package postgres

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// filler writes values of 20 kB that do not compress, and knows which were acknowledged.
type filler struct {
	d     *DB
	acked []string
	n     int
}

// write writes one value. What an unknown outcome has written may be there or not.
func (f *filler) write(t *testing.T) error {
	f.n++
	key := fmt.Sprint("key", f.n)
	val := make([]byte, 20_000)
	_, _ = rand.Read(val) // it never fails
	_, err := f.d.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(key), append([]byte(key), val...)) })
	if err == nil {
		f.acked = append(f.acked, key)
	}
	return err
}

// kept checks that everything acknowledged is there.
func (f *filler) kept(t *testing.T) {
	t.Helper()
	for _, key := range f.acked {
		val, _, err := get(t.Context(), f.d, engine.Read{}, key)
		if err != nil || !strings.HasPrefix(val, key) || len(val) != 20_000+len(key) {
			t.Fatalf("acknowledged key %s has %d bytes, %v", key, len(val), err)
		}
	}
	t.Logf("%d writes acknowledged", len(f.acked))
}

// TestFullDisk fills the disk that has the tables. Writes say so, reads go on, and writes do once there is room.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	disk := pgserver.NewDisk(t, 24<<20)
	s := pgserver.StartOn(t, disk, false)
	s.Exec(t, "CREATE TABLESPACE small LOCATION '"+disk.Mkdir(t, "space")+"'")
	s.Exec(t, "CREATE DATABASE app TABLESPACE small")
	f := &filler{d: openT(t, s.URL("app"), Options{})}
	for round := range 2 {
		if err := f.write(t); err != nil {
			t.Fatalf("round %d, with room: %v", round, err)
		}
		disk.Fill(t)
		var err error
		eventually.True(t, "the disk is full", func() bool { err = f.write(t); return err != nil })
		wantCode(t, err, engine.CodeDiskFull, "the disk of the database server is full: make room there")
		f.kept(t)
		disk.Free(t)
	}
	if err := f.write(t); err != nil {
		t.Errorf("a write after there was room again: %v", err)
	}
	f.kept(t)
	if n := f.d.retries.Load(); n != 0 {
		t.Errorf("writes to a full disk were tried again %d times", n)
	}
	if _, err := collect(t, f.d, 0, f.d.Position()); err != nil {
		t.Errorf("changes: %v", err)
	}
}

// TestFullLogDisk fills the disk that has PostgreSQL's write-ahead log, so that the server stops. Nothing acknowledged
// is lost, and the engine goes on with the server.
func TestFullLogDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	disk := pgserver.NewDisk(t, 24<<20)
	s := pgserver.StartOn(t, disk, true, "min_wal_size=2MB", "max_wal_size=4MB")
	s.Exec(t, "CREATE DATABASE app")
	f := &filler{d: openT(t, s.URL("app"), Options{Patience: 200 * time.Millisecond})}
	if err := f.write(t); err != nil {
		t.Fatal(err)
	}
	disk.Fill(t)
	eventually.True(t, "the server stops", func() bool {
		err := f.write(t)
		if err != nil && !errors.Is(err, engine.ErrOutcomeUnknown) && engine.CodeOf(err) != engine.CodeUnavailable && engine.CodeOf(err) != engine.CodeDiskFull {
			t.Fatalf("a write to a server that stops: %v", err)
		}
		return err != nil
	})
	s.Kill(t) // it may be recovering from the panic, again and again
	disk.Free(t)
	s.Restart(t)
	eventually.True(t, "writes go on", func() bool { return f.write(t) == nil })
	f.kept(t)
}
