package acme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/acme"
)

// space returns a Storage on an engine of its own.
func space(t *testing.T) (*acme.Storage, *kv.Store) {
	t.Helper()
	_, store := open(t, t.TempDir())
	return storage(t, store, acme.StorageOptions{}), store
}

func storage(t *testing.T, store *kv.Store, o acme.StorageOptions) *acme.Storage {
	t.Helper()
	if o.Logger == nil {
		o.Logger = (&output{}).logger()
	}
	s, err := acme.NewStorage(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStorageModel: after random changes the storage equals a map of files, and it responds like certmagic's
// own storage in a folder.
func TestStorageModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	s, _ := space(t)
	files := map[string]string{}
	name := func() string {
		// d… are folders and f… files, as a folder on disk cannot be both. d1- sorts
		// before d1/.
		parts := make([]string, r.IntN(3))
		for i := range parts {
			parts[i] = []string{"d1", "d1-", "d2"}[r.IntN(3)]
		}
		return path.Join(path.Join(parts...), []string{"f1", "f2.json", "f2"}[r.IntN(3)])
	}
	for range 300 {
		n := name()
		switch r.IntN(4) {
		case 0, 1:
			files[n] = strings.Repeat("x", r.IntN(5))
			if err := s.Store(t.Context(), n, []byte(files[n])); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := s.Delete(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			delete(files, n)
		case 3:
			folder := path.Dir(n)
			if folder == "." || r.IntN(4) > 0 {
				continue
			}
			if err := s.Delete(t.Context(), folder); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(files, func(f, _ string) bool { return strings.HasPrefix(f, folder+"/") })
		}
	}
	disk := &certmagic.FileStorage{Path: t.TempDir()}
	for n, text := range files {
		if err := disk.Store(t.Context(), n, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"", "d1", "d1-", "d2", "d1/d1", "d1/d1-", "d1/d2", "d2/d2", "d", "f1", "f2", "f2.json", "d1/f1", "d1-/f2", "d1/d2/f1", "d9/f1"} {
		sameAnswers(t, s, disk, n)
	}
}

// sameAnswers compares the results of two storages for one name.
func sameAnswers(t *testing.T, s, want certmagic.Storage, name string) {
	t.Helper()
	for _, recursive := range []bool{false, true} {
		a, errA := s.List(t.Context(), name, recursive)
		b, errB := want.List(t.Context(), name, recursive)
		slices.Sort(b)
		if !slices.Equal(a, b) || errors.Is(errA, fs.ErrNotExist) != errors.Is(errB, fs.ErrNotExist) && name != "" {
			t.Errorf("List %q %v: %q, %v, want %q, %v", name, recursive, a, errA, b, errB)
		}
	}
	if name == "" {
		return
	}
	a, errA := s.Stat(t.Context(), name)
	b, errB := want.Stat(t.Context(), name)
	if errors.Is(errA, fs.ErrNotExist) != errors.Is(errB, fs.ErrNotExist) || a.IsTerminal != b.IsTerminal || a.Key != b.Key || a.IsTerminal && (a.Size != b.Size || time.Since(a.Modified) > time.Hour) {
		t.Errorf("Stat %q: %+v, %v, want %+v, %v", name, a, errA, b, errB)
	}
	if a, b := s.Exists(t.Context(), name), want.Exists(t.Context(), name); a != b {
		t.Errorf("Exists %q: %v, want %v", name, a, b)
	}
	if b.IsTerminal || errors.Is(errB, fs.ErrNotExist) {
		a, errA := s.Load(t.Context(), name)
		b, errB := want.Load(t.Context(), name)
		if !bytes.Equal(a, b) || errors.Is(errA, fs.ErrNotExist) != errors.Is(errB, fs.ErrNotExist) {
			t.Errorf("Load %q: %q, %v, want %q, %v", name, a, errA, b, errB)
		}
	}
}

// TestStorageConcurrent: readers see whole files, and every writer sees its own last write.
func TestStorageConcurrent(t *testing.T) {
	t.Parallel()
	s, _ := space(t)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			own := fmt.Sprintf("w/%d", w)
			for i := range 30 {
				text := bytes.Repeat([]byte{byte(i)}, 1000)
				for _, name := range []string{own, "w/shared"} {
					if err := s.Store(t.Context(), name, text); err != nil {
						t.Error(err)
					}
				}
				if got, err := s.Load(t.Context(), own); err != nil || !bytes.Equal(got, text) {
					t.Errorf("a writer does not read what it wrote: %v", err)
				}
				got, err := s.Load(t.Context(), "w/shared")
				if err != nil || len(got) != 1000 || bytes.Count(got, got[:1]) != 1000 {
					t.Errorf("a torn file: %v", err)
				}
				if names, err := s.List(t.Context(), "w", true); err != nil || !slices.Contains(names, own) {
					t.Errorf("list %q, %v", names, err)
				}
			}
		})
	}
	all.Wait()
}

// TestStorageRefuses: invalid names, values over the limit, an ended context and a node
// that does not lead are errors.
func TestStorageRefuses(t *testing.T) {
	t.Parallel()
	eng, store := open(t, t.TempDir())
	s := storage(t, store, acme.StorageOptions{})
	for _, name := range []string{"", "/a", "a/", "a//b", "/"} {
		if err := s.Store(t.Context(), name, nil); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("Store %q: %v", name, err)
		}
		if err := s.Delete(t.Context(), name); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("Delete %q: %v", name, err)
		}
	}
	if err := s.Store(t.Context(), strings.Repeat("a", kv.MaxKeyBytes), nil); !errors.Is(err, engine.ErrKeyTooLarge) {
		t.Errorf("a long name: %v", err)
	}
	if err := s.Store(t.Context(), "a", make([]byte, kv.MaxValBytes+1)); !errors.Is(err, engine.ErrValueTooLarge) || s.Exists(t.Context(), "a") {
		t.Errorf("a large file: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Store(ended, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := s.Store(t.Context(), "a", []byte("text")); err != nil {
		t.Fatal(err)
	}
	other := storage(t, keys(t, follower{eng}), acme.StorageOptions{})
	if got, err := other.Load(t.Context(), "a"); err != nil || string(got) != "text" {
		t.Errorf("Load on a node that does not lead: %q, %v", got, err)
	}
	for what, err := range map[string]error{
		"Store": other.Store(t.Context(), "b", nil), "Delete": other.Delete(t.Context(), "a"), "Lock": other.Lock(t.Context(), "l"),
	} {
		if !errors.Is(err, engine.ErrNotLeader) {
			t.Errorf("%s on a node that does not lead: %v", what, err)
		}
	}
	if err := other.Unlock(t.Context(), "l"); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Unlock of what is not locked: %v", err)
	}
	if _, err := acme.NewStorage(store, acme.StorageOptions{Lease: -1}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a negative lease: %v", err)
	}
}

// TestDeleteMany: a folder with more files than one transaction deletes is deleted completely.
func TestDeleteMany(t *testing.T) {
	t.Parallel()
	s, store := space(t)
	var pairs []engine.Pair
	for i := range 2*acme.MaxDeleteKeys + 7 {
		pairs = append(pairs, engine.Pair{Key: fmt.Appendf(nil, "f/many/%d", i), Val: []byte("x")})
	}
	if _, err := store.MSet(t.Context(), acme.DefaultSpace, pairs); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), "many-more/1", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "many"); err != nil {
		t.Fatal(err)
	}
	if names, err := s.List(t.Context(), "", true); err != nil || !slices.Equal(names, []string{"many-more", "many-more/1"}) {
		t.Errorf("%q are left, %v", names, err)
	}
}

func lock(t *testing.T, s *acme.Storage, name string) {
	t.Helper()
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// unlock may be called in any goroutine.
func unlock(t *testing.T, s *acme.Storage, name string) {
	t.Helper()
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// TestLockExcludes: one holder at a time, of many in two processes' worth of storages.
func TestLockExcludes(t *testing.T) {
	t.Parallel()
	a, store := space(t)
	b := storage(t, store, acme.StorageOptions{})
	var all sync.WaitGroup
	n, inside := 0, 0 // unguarded but for the lock
	for _, s := range []*acme.Storage{a, a, a, b, b, b} {
		all.Go(func() {
			for range 5 {
				if err := s.Lock(t.Context(), "x"); err != nil {
					t.Error(err)
					return
				}
				if inside++; inside != 1 {
					t.Errorf("%d hold the lock", inside)
				}
				n++
				inside--
				unlock(t, s, "x")
			}
		})
	}
	all.Wait()
	if n != 30 {
		t.Errorf("%d turns, want 30", n)
	}
	locks(t, store, 0)
}

// TestUnlockTwice: of two concurrent calls of Unlock only one succeeds.
func TestUnlockTwice(t *testing.T) {
	t.Parallel()
	s, _ := space(t)
	for range 50 {
		lock(t, s, "a")
		errs := make(chan error)
		for range 2 {
			go func() { errs <- s.Unlock(t.Context(), "a") }()
		}
		if a, b := <-errs, <-errs; errors.Is(a, engine.ErrInvalid) == errors.Is(b, engine.ErrInvalid) {
			t.Fatalf("%v, %v", a, b)
		}
	}
}

// TestLockTakesTurns: whoever waits gets the lock, can stop waiting, and other
// names are free.
func TestLockTakesTurns(t *testing.T) {
	t.Parallel()
	a, store := space(t)
	b := storage(t, store, acme.StorageOptions{})
	lock(t, a, "x")
	for _, s := range []*acme.Storage{a, b} {
		if ok, err := s.TryLock(t.Context(), "x"); ok || err != nil {
			t.Errorf("TryLock of a held lock: %v, %v", ok, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock of a held lock: %v", err)
		}
		cancel()
	}
	if ok, err := b.TryLock(t.Context(), "y"); !ok || err != nil {
		t.Errorf("TryLock of another lock: %v, %v", ok, err)
	}
	unlock(t, b, "y")
	unlock(t, a, "x")
	lock(t, b, "x")
	unlock(t, b, "x")
}

// expires returns when a key expires; zero if there is none.
func expires(t *testing.T, store *kv.Store, key string) time.Time {
	t.Helper()
	e, _, _, err := store.Get(t.Context(), engine.Read{}, acme.DefaultSpace, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return e.Expires
}

// TestLockOfTheDead: the lock of a process that ended is free when its lease expires.
func TestLockOfTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	eng, store := open(t, dir)
	lock(t, storage(t, store, acme.StorageOptions{Lease: time.Second}), "x")
	end := expires(t, store, "l/x")
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	_, store = open(t, dir)
	s := storage(t, store, acme.StorageOptions{Lease: time.Second})
	lock(t, s, "x")
	if early := time.Until(end); early > 100*time.Millisecond {
		t.Errorf("the lock is free %v before its lease ends", early)
	}
	unlock(t, s, "x")
}

// TestLockIsRenewed: the lease of a living holder moves on, and one that was lost
// is not given back in another holder's place.
func TestLockIsRenewed(t *testing.T) {
	t.Parallel()
	_, store := open(t, t.TempDir())
	key := []byte("l/x")
	var s *acme.Storage
	var out *output
	lost := func() bool { return strings.Contains(out.String(), "its lease expired") }
	for lease, renewed := 600*time.Millisecond, false; !renewed; lease *= 2 { // a slow machine needs a longer one
		out = &output{}
		s = storage(t, store, acme.StorageOptions{Lease: lease, Logger: out.logger()})
		lock(t, s, "x")
		first := expires(t, store, "l/x")
		eventually.True(t, "the lease is renewed", func() bool {
			renewed = !first.IsZero() && expires(t, store, "l/x").After(first)
			return renewed || lost()
		})
	}
	if _, _, err := store.Set(t.Context(), acme.DefaultSpace, key, []byte("another"), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the loss is noticed", lost)
	if ok, err := s.TryLock(t.Context(), "x"); ok || err != nil {
		t.Errorf("the same process takes it before its holder gave it back: %v, %v", ok, err)
	}
	if err := s.Unlock(t.Context(), "x"); err != nil {
		t.Errorf("Unlock of a lost lock: %v", err)
	}
	if e, ok, _, err := store.Get(t.Context(), engine.Read{}, acme.DefaultSpace, key); err != nil || !ok || string(e.Val) != "another" {
		t.Errorf("the other holder's lock is %q, %v, %v", e.Val, ok, err)
	}
}
