package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// TestLimits writes the largest transactions, and larger ones, of which nothing must stay.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 100 MiB")
	}
	eng := open(t, at(Scheme, redisserver.Start(t), "t:"), Options{})
	defer eng.Close()
	cluster := open(t, at(SchemeCluster, redisserver.Cluster(t, 1)[0], "t:"), Options{})
	defer cluster.Close()
	many := func(n int) func(tx engine.Tx) error {
		return func(tx engine.Tx) error {
			for i := range n {
				if err := tx.Put(fmt.Appendf(nil, "{p}%d", i), nil); err != nil {
					return err
				}
			}
			return nil
		}
	}
	val := make([]byte, MaxValBytes)
	long := func(last int) func(tx engine.Tx) error { // two keys of 4 bytes
		return func(tx engine.Tx) error {
			if err := tx.Put([]byte("{p}a"), val); err != nil {
				return err
			}
			return tx.Put([]byte("{p}b"), val[:last])
		}
	}
	rest := MaxTxBytes - MaxValBytes - 2*len("{p}a")
	for name, c := range map[string]struct {
		eng       engine.Engine
		fit, over func(engine.Tx) error
		text      string
	}{
		"writes":            {eng, many(MaxTxWrites), many(MaxTxWrites + 1), "65536 times"},
		"bytes":             {eng, long(rest), long(rest + 1), "33554432 bytes"},
		"keys, cluster":     {cluster, many(MaxTxKeys), many(MaxTxKeys + 1), "8192 keys"},
		"bytes, in cluster": {cluster, long(rest), long(rest + 1), "33554432 bytes"},
	} {
		_, err := c.eng.Update(t.Context(), c.over)
		if refusedWith(t, err, engine.CodeTxTooLarge, c.text); !errors.Is(err, engine.ErrTxTooLarge) {
			t.Errorf("%s: the error does not match ErrTxTooLarge", name)
		}
		if _, err := c.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			for _, key := range []string{"{p}0", "{p}a"} {
				if _, ok, err := tx.Get([]byte(key)); ok || err != nil {
					return fmt.Errorf("%s is there: %v, %w", key, ok, err)
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: after a transaction that was too large: %v", name, err)
		}
		if _, err := c.eng.Update(t.Context(), c.fit); err != nil {
			t.Errorf("%s: the largest transaction: %v", name, err)
		}
		if _, err := c.eng.Update(t.Context(), func(tx engine.Tx) error {
			return errors.Join(tx.Delete([]byte("{p}0")), tx.Delete([]byte("{p}a")))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, eng := range []engine.Engine{eng, cluster} {
		refusesPairs(t, eng, val)
	}
}

// refusesPairs writes keys and values that are too long, made of val, and an empty key.
func refusesPairs(t *testing.T, eng engine.Engine, val []byte) {
	t.Helper()
	for _, c := range []struct {
		key, val []byte
		want     error
	}{
		{val[:MaxKeyBytes+1], nil, engine.ErrKeyTooLarge},
		{val[:1], make([]byte, MaxValBytes+1), engine.ErrValueTooLarge},
		{nil, nil, engine.ErrKeyEmpty},
	} {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error { return tx.Put(c.key, c.val) })
		if !errors.Is(err, c.want) {
			t.Errorf("a key of %d bytes and a value of %d: %v, want %v", len(c.key), len(c.val), err, c.want)
		}
	}
}

// TestReplacesTooMuch deletes more than one script may. A batch of several transactions is divided, one alone is refused.
func TestReplacesTooMuch(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{replaced: 1 << 20})
	defer eng.Close()
	const keys = 20
	for i := range keys {
		if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			return tx.Put(fmt.Appendf(nil, "k%d", i), make([]byte, 100<<10))
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		for i := range keys {
			if err := tx.Delete(fmt.Appendf(nil, "k%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if refusedWith(t, err, engine.CodeTxTooLarge, "replaces"); s.Do(t, "HLEN", "t:value") != fmt.Sprint(keys) {
		t.Errorf("%s of %d keys are left", s.Do(t, "HLEN", "t:value"), keys)
	}
	if _, err := eng.(engine.Eacher).UpdateEach(t.Context(), keys, func(tx engine.Tx, i int) error {
		return tx.Delete(fmt.Appendf(nil, "k%d", i))
	}); err != nil || s.Do(t, "HLEN", "t:value") != "0" {
		t.Errorf("one by one: %v, %s keys are left", err, s.Do(t, "HLEN", "t:value"))
	}
}

// TestOddKeys writes keys and values that look like something else, and the longest ones, and finds them after a restart,
// in scans, and in the feed.
func TestOddKeys(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	odd := []string{
		"\x00", "\x00\x00", "\x00\xff", "\r\n", "$3\r\nabc\r\n", "(", "(a", "+", "-", "[", "[a", "a\x00b", "a\xffb", "t:value",
		"{", "{}", "}{", "\xff", "\xff\xff", strings.Repeat("\x00", MaxKeyBytes), strings.Repeat("\xff", MaxKeyBytes),
	}
	pos, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		for _, k := range odd {
			if err := tx.Put([]byte(k), []byte(k+"\x00\r\n")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if _, err := eng.View(t.Context(), engine.Read{AtLeast: pos}, func(tx engine.Tx) error {
			for _, k := range odd {
				if v, ok, err := tx.Get([]byte(k)); err != nil || !ok || string(v) != k+"\x00\r\n" {
					return fmt.Errorf("%.20q has %.20q, %v, %w", k, v, ok, err)
				}
				n := 0
				for p, err := range tx.Scan([]byte(k), append([]byte(k), 0)) {
					if n++; err != nil || string(p.Key) != k || string(p.Val) != k+"\x00\r\n" {
						return fmt.Errorf("a scan of %.20q has %.20q = %.20q, %w", k, p.Key, p.Val, err)
					}
				}
				if n != 1 {
					return fmt.Errorf("a scan of %.20q has %d keys", k, n)
				}
			}
			var last []byte
			n := 0
			for p, err := range tx.Scan(nil, nil) {
				if err != nil || n > 0 && bytes.Compare(p.Key, last) <= 0 {
					return fmt.Errorf("%.20q comes after %.20q, %w", p.Key, last, err)
				}
				last = p.Key
				n++
			}
			if n != len(odd) {
				return fmt.Errorf("a scan has %d of %d keys", n, len(odd))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	check()
	s.Kill(t)
	s.Restart(t)
	check()
	for c, err := range eng.Changes(t.Context(), pos-1) {
		if err != nil || len(c.Writes) != len(odd) {
			t.Fatalf("the change has %d writes: %v", len(c.Writes), err)
		}
		for _, w := range c.Writes {
			if string(w.Val) != string(w.Key)+"\x00\r\n" {
				t.Errorf("in the feed %.20q has %.20q", w.Key, w.Val)
			}
		}
		break
	}
}

// TestClocks lets processes write in turn whose clocks are ten minutes apart. Times neither go back nor repeat, and no view is
// earlier than what it sees.
func TestClocks(t *testing.T) {
	s := redisserver.Start(t)
	var engines []engine.Engine
	for _, by := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		eng := open(t, at(Scheme, s, "t:"), Options{Now: func() time.Time { return time.Now().Add(by) }})
		defer eng.Close()
		engines = append(engines, eng)
	}
	var last time.Time
	var first engine.Position
	const rounds = 20
	for i := range rounds {
		eng := engines[i%len(engines)]
		var now time.Time
		pos, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			now = tx.Now()
			return tx.Put([]byte("a"), fmt.Append(nil, i))
		})
		if err != nil || !now.After(last) {
			t.Fatalf("write %d has the time %v, after %v: %v", i, now, last, err)
		}
		if last = now; i == 0 {
			first = pos
		}
		for _, eng := range engines {
			if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
				if tx.Now().Before(last) {
					return fmt.Errorf("a view has the time %v, before %v", tx.Now(), last)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
	last = time.Time{}
	n := 0
	for c, err := range engines[0].Changes(t.Context(), first-1) {
		if err != nil || !c.Time.After(last) {
			t.Fatalf("a change has the time %v, after %v: %v", c.Time, last, err)
		}
		last = c.Time
		if n++; n == rounds {
			break
		}
	}
}

// TestNeighbours keeps keys of other programs, and data below another prefix, in the same database.
func TestNeighbours(t *testing.T) {
	s := redisserver.Start(t)
	foreign := []string{"other", "t", "t:", "t:x", "meta", "value"}
	for _, k := range foreign {
		s.Do(t, "SET", k, "theirs")
	}
	ours, next := open(t, at(Scheme, s, "t:"), Options{}), open(t, at(Scheme, s, "t:t:"), Options{})
	defer ours.Close()
	defer next.Close()
	for range 2 {
		if _, err := add(next); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(ours); err != nil {
		t.Fatal(err)
	}
	keys := 0
	if _, err := ours.Update(t.Context(), func(tx engine.Tx) error {
		keys = 0
		for p, err := range tx.Scan(nil, nil) {
			if keys++; err != nil || string(p.Key) != "n" {
				return fmt.Errorf("there is a key %q: %w", p.Key, err)
			}
		}
		return tx.Delete([]byte("n"))
	}); err != nil || keys != 1 {
		t.Errorf("%d keys: %v", keys, err)
	}
	if n := count(t, next); n != 2 {
		t.Errorf("the neighbour's number is %d after two additions", n)
	}
	for _, k := range foreign {
		if got := s.Do(t, "GET", k); got != "theirs" {
			t.Errorf("%s of another program is %q", k, got)
		}
	}
}
