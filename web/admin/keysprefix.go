package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

const (
	maxPrefixKeys = 100_000         // keys that one request counts or deletes
	deleteAtOnce  = 500             // keys of one transaction
	maxPrefixTime = 5 * time.Second // of counting: an engine on another machine may be slow
	prefixSamples = 20              // keys that the dry run names
)

// prefixDryRun is what deleting all keys with a prefix would do.
type prefixDryRun struct {
	Count, Bytes int
	More         bool // there are more than maxPrefixKeys
	Keys         []keyLine
	Until        uint64 // the revision that keys have at most that are deleted: later ones were not counted
}

func (d *prefixDryRun) count(t *kv.Tx, tree *keyTree) error {
	*d = prefixDryRun{Until: uint64(t.Now().UnixMicro())}
	begun := time.Now()
	for it, err := range t.ScanPrefix(tree.prefix) {
		if err != nil {
			return err
		}
		if d.Count == maxPrefixKeys || d.Count%1000 == 999 && time.Since(begun) > maxPrefixTime {
			d.More = true
			return nil
		}
		if d.Count < prefixSamples {
			d.Keys = append(d.Keys, tree.leaf(it))
		}
		d.Count++
		d.Bytes += len(it.Key) + len(it.Val)
		d.Until = max(d.Until, uint64(it.Rev))
	}
	return nil
}

func (a *Admin) keyPrefixPage(c *web.Context) error {
	space, err := spaceOf(c.Query("space"))
	if err != nil {
		return err
	}
	prefix, err := bytesOf(c.Query, "prefix")
	if err != nil {
		return err
	}
	return a.showPrefix(c, http.StatusOK, space, prefix, "")
}

// showPrefix renders the dry run of a deletion.
func (a *Admin) showPrefix(c *web.Context, status int, space uint8, prefix []byte, problem string) error {
	var d prefixDryRun
	tree := &keyTree{space: space, prefix: prefix}
	_, err := a.o.Store.View(c, engine.Read{}, space, func(t *kv.Tx) error { return d.count(t, tree) })
	if err != nil {
		return err
	}
	text, _ := keyText(prefix)
	return a.show(c, status, "keysprefix", web.Locals{
		"title": a.text("Delete keys"), "space": space, "prefix64": in64(prefix), "prefix_text": text,
		"prefix_query": keyAddress(space, "prefix", prefix), "dry": d, "most": maxPrefixKeys, "at_once": deleteAtOnce, "problem": problem,
	})
}

// keyPrefixDelete deletes the keys that a dry run has counted, in transactions of deleteAtOnce keys.
func (a *Admin) keyPrefixDelete(c *web.Context) error {
	space, err := spaceOf(c.Form("space"))
	if err != nil {
		return err
	}
	prefix, err := bytesOf(c.Form, "prefix")
	if err != nil {
		return err
	}
	until, err := strconv.ParseUint(c.Form("until").String(), 10, 64)
	if err != nil || c.Form("sure").String() == "" {
		return a.showPrefix(c, http.StatusUnprocessableEntity, space, prefix, a.text("Nothing was deleted: tick the box to say that you are sure."))
	}
	text, _ := keyText(prefix)
	deleted := 0
	err = a.act(c, "keys.delete", fmt.Sprintf("%s* (space %d)", shorten(text, maxKeyShown), space), "all keys up to revision "+strconv.FormatUint(until, 10), func() error {
		var err error
		deleted, err = a.deletePrefix(c, space, prefix, kv.Revision(until))
		if err != nil {
			return fmt.Errorf("after %d keys: %w", deleted, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if deleted == maxPrefixKeys {
		return a.done(c, "/keys/prefix?"+string(keyAddress(space, "prefix", prefix)), "deleted") // and so on
	}
	return a.done(c, "/keys?"+string(keyAddress(space, "prefix", prefix)), "deleted")
}

// deletePrefix deletes at most maxPrefixKeys keys with a prefix whose revision is at most until.
func (a *Admin) deletePrefix(ctx context.Context, space uint8, prefix []byte, until kv.Revision) (deleted int, err error) {
	hi := engine.PrefixEnd(prefix)
	for lo := prefix; lo != nil && deleted < maxPrefixKeys; {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		var doomed [][]byte
		var next []byte
		_, err := a.o.Store.Update(ctx, space, func(t *kv.Tx) error {
			doomed, next = doomed[:0], nil
			read := 0
			for it, err := range t.Scan(lo, hi) {
				if err != nil {
					return err
				}
				if read++; read > deleteAtOnce || deleted+len(doomed) == maxPrefixKeys {
					next = bytes.Clone(it.Key)
					break
				}
				if it.Rev <= until {
					doomed = append(doomed, bytes.Clone(it.Key))
				}
			}
			for _, key := range doomed {
				if _, err := t.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return deleted, err
		}
		deleted += len(doomed)
		lo = next
	}
	return deleted, nil
}

const (
	maxLiveValue = 200 // bytes of a value in an event of changes
	keyLookEvery = time.Second
)

// keyEvent is a change of a key, as keys.mjs gets it.
type keyEvent struct {
	At      int64  `json:"at"` // Unix milliseconds
	Key     string `json:"key"`
	Query   string `json:"query"`
	Deleted bool   `json:"deleted"`
	Size    int    `json:"size"`
	Value   string `json:"value"`
	Expires int64  `json:"expires"` // Unix milliseconds; 0: never
}

func newKeyEvent(e kv.Event) keyEvent {
	text, _ := keyText(e.Key)
	out := keyEvent{At: e.Time.UnixMilli(), Key: shorten(text, maxKeyShown), Query: string(keyAddress(e.Space, "key", e.Key)), Deleted: e.Deleted}
	if e.Deleted {
		return out
	}
	out.Size = len(e.Val)
	if !e.Expires.IsZero() {
		out.Expires = e.Expires.UnixMilli()
	}
	out.Value = valuePreview(e.Val, maxLiveValue)
	return out
}

// valuePreview returns the beginning of a value on one line.
func valuePreview(v []byte, most int) string {
	cut := v[:min(len(v), most)]
	for len(cut) < len(v) && len(cut) > 0 && len(cut) > most-utf8.UTFMax && !utf8.Valid(cut) {
		cut = cut[:len(cut)-1]
	}
	text, _ := keyText(cut)
	if len(cut) < len(v) {
		text += "…"
	}
	return text
}

// herePosition returns the position that this node has reached.
func (a *Admin) herePosition(ctx context.Context, space uint8) (engine.Position, error) {
	return a.o.Store.View(ctx, engine.Read{Level: engine.Local}, space, func(*kv.Tx) error { return nil })
}

// keysLive streams the changes of keys with a prefix.
func (a *Admin) keysLive(c *web.Context) error {
	space, err := spaceOf(c.Query("space"))
	if err != nil {
		return err
	}
	prefix, err := bytesOf(c.Query, "prefix")
	if err != nil {
		return err
	}
	if err := a.o.Store.Promises().Meets("watching keys", engine.Promises{Feed: true}); err != nil {
		return err
	}
	after, err := a.herePosition(c, space)
	if err != nil {
		return err
	}
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		id := s.LastID()
		if id == "" {
			id = c.Query("after").String()
		}
		if n, err := strconv.ParseUint(id, 10, 64); err == nil {
			after = engine.Position(n)
		}
		if err := s.SendJSON(web.Event{ID: strconv.FormatUint(uint64(after), 10), Name: "begin"}, struct{}{}); err != nil {
			return err
		}
		looked := a.o.Now()
		for e, err := range a.o.Store.Watch(s.Context(), space, prefix, after) {
			if errors.Is(err, engine.ErrTruncated) {
				if after, err = a.herePosition(c, space); err != nil {
					return err
				}
				return s.SendJSON(web.Event{ID: strconv.FormatUint(uint64(after), 10), Name: "gap"}, struct{}{}) // the client goes on from here
			}
			if err != nil {
				return err
			}
			if now := a.o.Now(); now.Sub(looked) > keyLookEvery { // before the event is sent: there may have been none for hours
				if looked = now; !a.lookAgain(c) {
					return nil
				}
			}
			event := web.Event{Name: "change"}
			if !e.More { // resume only after whole transactions
				event.ID = strconv.FormatUint(uint64(e.Pos), 10)
			}
			if err := s.SendJSON(event, newKeyEvent(e)); err != nil {
				return err
			}
		}
		return nil
	})
}
