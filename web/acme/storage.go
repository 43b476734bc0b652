package acme

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
)

// DefaultSpace is the kv space of certificates. Redis clients cannot SELECT it.
const DefaultSpace = keyspace.Certificates

// The first bytes of keys; do not change.
const (
	filePrefix  = "f/" // then certmagic's key; the value is the file
	leasePrefix = "l/" // then the lock's name; the value is who holds it
)

// DefaultLease is how long a lock outlives a process that died holding it.
const DefaultLease = 30 * time.Second

// MaxDeleteKeys is the maximum number of files that one transaction of Delete
// removes. Delete uses several for more.
const MaxDeleteKeys = 1000

// StorageOptions configures a Storage. The zero value works.
type StorageOptions struct {
	Space  uint8         // 0: DefaultSpace
	Lease  time.Duration // 0: DefaultLease; renewed after every third of it
	Logger *slog.Logger  // nil: slog.Default()
}

// Storage keeps certmagic's files and locks as plain keys, so that all nodes have them. It implements
// certmagic.Storage and certmagic.TryLocker. Reads see every write that was acknowledged on any node. On a
// node that does not lead, writes and locks fail with engine.ErrNotLeader. Files larger than a kv value
// fail with engine.ErrValueTooLarge.
//
// A lock is a key that expires. Its holder renews it, so the lock of a dead process ends by itself. A holder
// that is cut off or stalled for longer than the lease loses the lock without being stopped. Its later writes
// are not fenced, because certmagic does not pass the lock of a write: a certificate may then be ordered
// twice, and all nodes use the one written last.
type Storage struct {
	store *kv.Store
	space uint8
	lease time.Duration
	log   *slog.Logger

	mu   sync.Mutex        // guards held
	held map[string]*lease // locks that this Storage has or waits for, by name
}

var (
	_ certmagic.Storage   = (*Storage)(nil)
	_ certmagic.TryLocker = (*Storage)(nil)
)

// NewStorage returns a Storage in a key space of store. Mistakes are CodeInvalid.
func NewStorage(store *kv.Store, o StorageOptions) (*Storage, error) {
	if o.Lease < 0 || o.Lease > 0 && o.Lease < 10*time.Millisecond {
		return nil, engine.Errorf(engine.CodeInvalid, "certificates: a lease of %v is too short, use 0 or at least 10 ms", o.Lease)
	}
	return &Storage{
		store: store, space: cmp.Or(o.Space, DefaultSpace), lease: cmp.Or(o.Lease, DefaultLease),
		log: cmp.Or(o.Logger, slog.Default()), held: map[string]*lease{},
	}, nil
}

// String names the storage in certmagic's log.
func (s *Storage) String() string { return fmt.Sprintf("kv space %d", s.space) }

// fileKey returns the key of a file. certmagic makes names with path.Join; other names could not be listed
// again.
func fileKey(name string) ([]byte, error) {
	if name == "" || name[0] == '/' || name[len(name)-1] == '/' || strings.Contains(name, "//") {
		return nil, engine.Errorf(engine.CodeInvalid, "certificates: %q is not the name of a file: its parts must not be empty", name)
	}
	return []byte(filePrefix + name), nil
}

// below returns the prefix of all keys in a folder; "" is the whole storage.
func below(folder string) []byte {
	if folder == "" {
		return []byte(filePrefix)
	}
	return []byte(filePrefix + folder + "/")
}

// Store writes a file.
func (s *Storage) Store(ctx context.Context, name string, value []byte) error {
	key, err := fileKey(name)
	if err != nil {
		return err
	}
	if _, _, err := s.store.Set(ctx, s.space, key, value, kv.SetOptions{SkipOld: true}); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Load returns a file; a missing one is fs.ErrNotExist.
func (s *Storage) Load(ctx context.Context, name string) ([]byte, error) {
	key, err := fileKey(name)
	if err != nil {
		return nil, err
	}
	e, ok, _, err := s.store.Get(ctx, engine.Read{}, s.space, key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("load %s: %w", name, err)
	case !ok:
		return nil, fmt.Errorf("load %s: %w", name, fs.ErrNotExist)
	case e.Val == nil:
		return []byte{}, nil
	}
	return e.Val, nil
}

// Delete removes a file, or a folder with its contents. Deleting what does not exist is not an error.
func (s *Storage) Delete(ctx context.Context, name string) error {
	key, err := fileKey(name)
	if err != nil {
		return err
	}
	for more := true; more; {
		_, err := s.store.Update(ctx, s.space, func(t *kv.Tx) error {
			more = false
			keys := [][]byte{key}
			for it, err := range t.ScanPrefix(below(name)) {
				if err != nil {
					return err
				}
				if more = len(keys) == MaxDeleteKeys; more {
					break
				}
				keys = append(keys, bytes.Clone(it.Key))
			}
			for _, k := range keys {
				if _, err := t.Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// Exists reports whether there is a file or folder with that name; it is false on an error.
func (s *Storage) Exists(ctx context.Context, name string) bool {
	_, err := s.Stat(ctx, name)
	return err == nil
}

// List returns the full names of the files and folders in a folder, in ascending order; "" is the whole
// storage. If recursive, it includes the contents of the folders. A missing folder is fs.ErrNotExist; a file
// has no contents.
func (s *Storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	prefix := below(folder)
	var names []string
	isFile := false
	_, err := s.store.View(ctx, engine.Read{}, s.space, func(t *kv.Tx) (err error) {
		names = nil
		if folder != "" {
			if _, isFile, err = t.Get([]byte(filePrefix + folder)); err != nil {
				return err
			}
		}
		for it, err := range t.ScanPrefix(prefix) {
			if err != nil {
				return err
			}
			names = appendNames(names, string(it.Key[len(filePrefix):]), len(prefix)-len(filePrefix), recursive)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	if len(names) == 0 && !isFile && folder != "" {
		return nil, fmt.Errorf("list %s: %w", folder, fs.ErrNotExist)
	}
	// A folder may sort after a file that differs only in a byte less than "/".
	slices.Sort(names)
	return slices.Compact(names), nil
}

// appendNames adds a file and the folders that lead to it, from byte at on.
func appendNames(names []string, file string, at int, recursive bool) []string {
	for {
		slash := strings.IndexByte(file[at:], '/')
		if slash < 0 {
			return append(names, file)
		}
		names = append(names, file[:at+slash])
		if !recursive {
			return names
		}
		at += slash + 1
	}
}

// Stat describes a file or folder; a missing one is fs.ErrNotExist.
func (s *Storage) Stat(ctx context.Context, name string) (certmagic.KeyInfo, error) {
	key, err := fileKey(name)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	info := certmagic.KeyInfo{Key: name}
	_, err = s.store.View(ctx, engine.Read{}, s.space, func(t *kv.Tx) error {
		e, ok, err := t.Get(key)
		if err != nil {
			return err
		}
		if ok {
			info.IsTerminal, info.Size = true, int64(len(e.Val))
			info.Modified = time.UnixMicro(int64(e.Rev)).UTC()
			return nil
		}
		for _, err := range t.ScanPrefix(below(name)) {
			return err // one file is enough
		}
		return fs.ErrNotExist
	})
	if err != nil {
		return certmagic.KeyInfo{}, fmt.Errorf("stat %s: %w", name, err)
	}
	return info, nil
}
