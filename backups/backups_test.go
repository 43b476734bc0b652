package backups

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// real is a folder of backups of a real engine.
type real struct {
	t   *testing.T
	db  *embedded.DB
	dir string
	f   *Folder
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openReal(t *testing.T) *real {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: quiet(), LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, db: db, dir: filepath.Join(t.TempDir(), "backups")}
	r.open()
	t.Cleanup(func() {
		if err := errors.Join(r.f.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *real) options() Options {
	return Options{
		Backup: r.db.Backup, Logger: quiet(),
		Verify: func(in io.Reader) (Summary, error) { sum, err := embedded.VerifyBackup(in); return Summary(sum), err },
		Restore: func(ctx context.Context, in io.Reader, dir string) (Summary, error) {
			sum, err := embedded.Restore(ctx, in, dir, embedded.Options{Logger: quiet()})
			return Summary(sum), err
		},
	}
}

func (r *real) open() {
	r.t.Helper()
	f, err := Open(r.dir, r.options())
	if err != nil {
		r.t.Fatal(err)
	}
	r.f = f
}

func (r *real) set(key, val string) {
	r.t.Helper()
	if _, err := r.db.Update(r.t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) }); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) take() File {
	r.t.Helper()
	one, err := r.f.Take(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return one
}

func (r *real) files() []File {
	r.t.Helper()
	all, err := r.f.Files()
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestTakeAndRestore: a backup is listed as verified, also after a restart, and a folder that is restored from it has the data.
func TestTakeAndRestore(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.set("fish", "cod")
	p := &Progress{}
	one, err := r.f.Take(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if done, _ := p.Bytes(); done != one.Size || one.Size == 0 || !one.Good() || one.Kind != Manual || one.Summary.Keys != 1 {
		t.Errorf("%d bytes of %+v", done, one)
	}
	r.set("fish", "herring") // after the backup
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open()
	all := r.files()
	if len(all) != 1 || all[0] != one || Last(all) != one.Name {
		t.Fatalf("after a restart: %+v, want %+v", all, one)
	}
	dir, sum, err := r.f.Restore(t.Context(), one.Name, "trial", nil)
	if err != nil || sum != one.Summary || dir != filepath.Join(r.dir, "restored", "trial") {
		t.Fatalf("%s %+v %v", dir, sum, err)
	}
	if dirs, err := r.f.Restored(); err != nil || len(dirs) != 1 || dirs[0] != dir {
		t.Errorf("%q %v", dirs, err)
	}
	db, err := embedded.Open(dir, embedded.Options{Logger: quiet(), LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		if val, ok, err := tx.Get([]byte("fish")); err != nil || !ok || string(val) != "cod" {
			t.Errorf("%q %t %v", val, ok, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := r.f.Restore(t.Context(), one.Name, "trial", nil); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("into a folder that exists: %v", err)
	}
}

// TestNames: no name leads out of the folder.
func TestNames(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	one := r.take()
	secret := filepath.Join(filepath.Dir(r.dir), "secret.skerry")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../up", "a/b", `a\b`, "/etc", "-rf", ".hidden", "a\x00b", "ü", "a b", strings.Repeat("a", 65)} {
		if dir, err := r.f.NewFolder(name); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("NewFolder(%q): %q, %v", name, dir, err)
		}
		if _, _, err := r.f.Restore(t.Context(), one.Name, name, nil); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("Restore into %q: %v", name, err)
		}
	}
	for _, name := range []string{"", "../secret.skerry", secret, "verified.json", "LOCK", "./" + one.Name, "none.skerry"} {
		if _, _, err := r.f.OpenFile(name); engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("OpenFile(%q): %v", name, err)
		}
		if err := r.f.Remove(name, true); engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("Remove(%q): %v", name, err)
		}
		if _, err := r.f.Verify(t.Context(), name, nil); engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("Verify(%q): %v", name, err)
		}
	}
	if dirs, err := r.f.Restored(); err != nil || len(dirs) != 0 {
		t.Errorf("something was restored: %q %v", dirs, err)
	}
}

// TestDamaged: a file that has changed on the disk is damaged once it is read, is never restored, and is not the last good one.
func TestDamaged(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.set("fish", strings.Repeat("cod", 1000))
	first := r.take()
	second := r.take()
	path := filepath.Join(r.dir, second.Name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.f.Restore(t.Context(), second.Name, "trial", nil); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("restore: %v", err)
	}
	if dirs, err := r.f.Restored(); err != nil || len(dirs) != 0 {
		t.Errorf("a damaged backup left %q %v", dirs, err)
	}
	got, err := r.f.Verify(t.Context(), second.Name, nil)
	if err != nil || got.Good() || got.Problem == "" {
		t.Errorf("%+v %v", got, err)
	}
	if last := Last(r.files()); last != first.Name {
		t.Errorf("the last good one is %s, want %s", last, first.Name)
	}
	if err := os.Truncate(filepath.Join(r.dir, first.Name), 10); err != nil {
		t.Fatal(err)
	}
	if all := r.files(); all[1].Name != first.Name || !all[1].Verified.IsZero() {
		t.Errorf("another size is not the file that was verified: %+v", all[1])
	}
}

// TestRemove: the newest good backup goes only if that is said.
func TestRemove(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	first, second := r.take(), r.take()
	if err := r.f.Remove(second.Name, false); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("the newest good one: %v", err)
	}
	if err := r.f.Remove(first.Name, false); err != nil {
		t.Error(err)
	}
	if err := r.f.Remove(second.Name, true); err != nil || len(r.files()) != 0 {
		t.Errorf("%v, %+v", err, r.files())
	}
	if s := r.f.Status(); s.Files != 0 || s.Bytes != 0 || !s.Newest.IsZero() {
		t.Errorf("%+v", s)
	}
}

// TestLeftovers: a start removes what a crash has left of a backup, and nothing else; a damaged note of checks is no obstacle.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	one := r.take()
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	stays := []string{"mine.tmp", "skerry-1.skerry.abc.tmp", "LOCK", "notes.txt"}
	goes := []string{"scheduled-20261130T033000.000Z.skerry.1a2b.tmp", "verified.json.9z.tmp"}
	for _, name := range append(goes, stays...) {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, "verified.json"), []byte(`{"`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	for _, name := range goes {
		if _, err := os.Stat(filepath.Join(r.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	for _, name := range stays {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err != nil {
			t.Error(err)
		}
	}
	if all := r.files(); len(all) != 1 || all[0].Name != one.Name || !all[0].Verified.IsZero() {
		t.Errorf("%+v", all)
	}
	if got, err := r.f.Verify(t.Context(), one.Name, nil); err != nil || !got.Good() {
		t.Errorf("%+v %v", got, err)
	}
}

// TestUnusable: a folder that is a file or in use is refused at the start.
func TestUnusable(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	if _, err := Open(r.dir, r.options()); engine.CodeOf(err) != engine.CodeLocked {
		t.Errorf("in use: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, r.options()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file: %v", err)
	}
	wrong := func(change func(o *Options)) {
		t.Helper()
		o := r.options()
		change(&o)
		if _, err := Open(t.TempDir(), o); engine.CodeOf(err) != engine.CodeInvalid {
			t.Error(err)
		}
	}
	wrong(func(o *Options) { o.Backup = nil })
	wrong(func(o *Options) { o.Every = time.Second })
	wrong(func(o *Options) { o.Keep = -1 })
	wrong(func(o *Options) { o.Keep = MaxKeep + 1 })
}

// TestOneAtATime: while a backup is taken, nothing else is taken, verified or deleted; a stop leaves no file.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	one := r.take()
	begun, ended := make(chan struct{}), make(chan error, 1)
	r.f.o.Backup = func(ctx context.Context, w io.Writer) (engine.Position, error) {
		_, _ = w.Write([]byte("half"))
		close(begun)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := r.f.Take(ctx, nil)
		ended <- err
	}()
	<-begun
	if _, err := r.f.Take(t.Context(), nil); engine.CodeOf(err) != engine.CodeQueueFull {
		t.Errorf("take: %v", err)
	}
	if _, err := r.f.Verify(t.Context(), one.Name, nil); engine.CodeOf(err) != engine.CodeQueueFull {
		t.Errorf("verify: %v", err)
	}
	if err := r.f.Remove(one.Name, true); engine.CodeOf(err) != engine.CodeQueueFull {
		t.Errorf("remove: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	names, err := os.ReadDir(r.dir)
	if err != nil || len(names) != 3 { // LOCK, the first one and verified.json
		t.Errorf("%v %v", names, err)
	}
}
