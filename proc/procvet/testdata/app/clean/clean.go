// Package clean has procedures that keep every rule.
package clean

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

var (
	errUsedUp = errors.New("no votes are left")
	phone     = regexp.MustCompile(`^\+[0-9]+$`)
	limits    = map[string]int{"x": 3}
	maximum   atomic.Int64
)

// In is an argument.
type In struct {
	Phone string   `json:"phone"`
	Tags  []string `json:"tags,omitempty"`
}

// Out is a result.
type Out struct {
	Left  int       `json:"left"`
	At    time.Time `json:"at"`
	Names []string  `json:"names"`
}

// store wraps a transaction for as long as a procedure runs.
type store struct {
	tx    *kv.Tx
	calls int
}

func (s *store) bump(key string) (int64, error) {
	s.calls++
	return s.tx.Add([]byte(key), 1)
}

// Vote is clean.
var Vote = proc.Define("vote", func(tx *proc.Tx, in In) (Out, error) {
	s := &store{tx: tx.KV(0)}
	n, err := s.bump("votes/" + in.Phone)
	if err != nil {
		return Out{}, err
	}
	if !phone.MatchString(in.Phone) || int(n) > limits["x"] || n > maximum.Load() {
		return Out{}, fmt.Errorf("%s: %w", in.Phone, errUsedUp)
	}
	out := Out{At: tx.Now().Add(time.Hour).Truncate(time.Minute), Left: int(n)}
	seen := map[string]bool{}
	for item, err := range s.tx.ScanPrefix([]byte("votes/")) {
		if err != nil {
			return out, err
		}
		name := strings.TrimPrefix(string(item.Key), "votes/")
		seen[name] = true
		out.Names = append(out.Names, name)
	}
	sort.Slice(out.Names, func(i, j int) bool { return out.Names[i] < out.Names[j] })
	slices.Sort(out.Names)
	delete(seen, "x")
	count := 0
	each(out.Names, func(string) { count++ })
	var b strings.Builder
	fmt.Fprintf(&b, "%d", count)
	b.WriteString(strconv.Itoa(tx.Rand().IntN(10)))
	buf := new(bytes.Buffer)
	if err := json.NewEncoder(buf).Encode(out); err != nil {
		return out, err
	}
	if _, err := s.tx.Set([]byte("last"), buf.Bytes(), kv.SetOptions{}); err != nil {
		return out, err
	}
	var back Out
	if err := json.Unmarshal(buf.Bytes(), &back); err != nil {
		return out, err
	}
	return back, nil
})

func each(list []string, fn func(string)) {
	for _, s := range list {
		fn(s)
	}
}

// capability writes the engine's own keys, as one does that is handed them.
func capability(tx engine.Tx, key []byte) error { return tx.Put(key, []byte("v")) }

// Raw uses the engine's own keys by a capability and what only computes of packages that do I/O.
var Raw = proc.Define("raw", func(tx *proc.Tx, in struct{ Key []byte }) (string, error) {
	if err := capability(tx.Engine(), in.Key); err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort("h:1")
	if os.IsNotExist(err) {
		return "", engine.Errorf("no_such_host", "there is no %s", host)
	}
	u, err := url.Parse("http://h/" + http.StatusText(200))
	if err != nil {
		return "", err
	}
	start := tx.Now()
	for {
		if _, ok, err := tx.Engine().Get(in.Key); err != nil || !ok {
			break
		}
		in.Key = append(in.Key, 'x')
	}
	return u.String() + tx.Now().Sub(start).String(), nil
})

// All runs others; a procedure that writes may run both sorts.
var All = proc.Define("all", func(tx *proc.Tx, in In) (Out, error) {
	if _, err := Read.Run(tx, in); err != nil {
		return Out{}, err
	}
	return Vote.Run(tx, in)
})

// Read reads.
var Read = proc.DefineRead("read", func(tx *proc.Tx, in In) (int, error) {
	n, err := tx.KV(0).Count()
	return n, err
}).Describe("reads").Hint(func(h *proc.Hints, in In) { h.Key(0, []byte(in.Phone)) })

// Outside is no procedure, and may do what it likes.
func Outside(ctx context.Context, set *proc.Set) error {
	slog.Info("now", "time", time.Now())
	limits["x"]++
	go func() { time.Sleep(1) }()
	_, _, err := Vote.Call(ctx, set, In{})
	return err
}
