package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// refusedWith checks the error of a write.
func refusedWith(t *testing.T, err error, code engine.Code, text string) {
	t.Helper()
	if engine.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%v, want %s with %q", err, code, text)
	}
}

// replace sets one key and removes another.
func replace(eng engine.Engine, set, remove string) (engine.Position, error) {
	return eng.Update(context.Background(), func(tx engine.Tx) error {
		if err := tx.Delete([]byte(remove)); err != nil {
			return err
		}
		return tx.Put([]byte(set), []byte("x"))
	})
}

// TestNothingHalfWritten takes a right, or puts something else in place of a key, that a batch needs only after its first
// write. It must not be written in part.
func TestNothingHalfWritten(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{HistoryBytes: 1 << 10}) // nearly every batch trims it
	defer eng.Close()
	if _, err := replace(eng, "old", "none"); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		all := s.Do(t, "HGET", "t:meta", "pos") + " " + s.Do(t, "HEXISTS", "t:value", "old")
		for _, cmd := range [][]string{{"HLEN", "t:value"}, {"ZCARD", "t:order"}, {"XLEN", "t:change"}} {
			all += " " + s.Do(t, cmd...)
		}
		return all
	}
	before := state()
	for _, right := range []string{"get", "xadd", "hset", "zadd", "hdel", "zrem", "rpush", "llen", "lpop", "xtrim", "del", "publish"} {
		s.Do(t, "ACL", "SETUSER", "default", "-"+right)
		_, err := replace(eng, "new", "old")
		refusedWith(t, err, engine.CodeUnsupported, "ACL SETUSER")
		if right == "xadd" || right == "xtrim" || right == "publish" {
			_, err := eng.(*db).Raise(t.Context(), 1<<20)
			refusedWith(t, err, engine.CodeUnsupported, "ACL SETUSER")
		}
		s.Do(t, "ACL", "SETUSER", "default", "+"+right)
		if now := state(); now != before {
			t.Errorf("without %s: %s, want %s", right, now, before)
		}
	}
	s.Do(t, "ACL", "SETUSER", "default", "resetchannels")
	var err error
	// Redis ends the connections of subscribers who lose their channel, perhaps in the middle of a batch.
	eventually.True(t, "there is a connection again", func() bool {
		_, err = replace(eng, "new", "old")
		return !errors.Is(err, engine.ErrOutcomeUnknown)
	})
	refusedWith(t, err, engine.CodeUnsupported, "ACL SETUSER")
	s.Do(t, "ACL", "SETUSER", "default", "allchannels")
	if now := state(); now != before {
		t.Errorf("without a right to the channel: %s, want %s", now, before)
	}
	for _, key := range []string{"t:order", "t:change", "t:mark", "t:turn"} {
		had := s.Do(t, "EXISTS", key) == "1"
		if had {
			s.Do(t, "RENAME", key, "aside")
		}
		s.Do(t, "HSET", key, "a", "1")
		_, err := replace(eng, "new", "old")
		refusedWith(t, err, engine.CodeCorrupt, "another program")
		s.Do(t, "DEL", key)
		if had {
			s.Do(t, "RENAME", "aside", key)
		}
		if now := state(); now != before {
			t.Errorf("with another %s: %s, want %s", key, now, before)
		}
	}
	if _, err := replace(eng, "new", "old"); err != nil || state() == before {
		t.Errorf("in the end: %v", err)
	}
}

// TestNothingHalfWrittenInSlot takes a right from which only the second write of a transaction suffers.
func TestNothingHalfWrittenInSlot(t *testing.T) {
	s := redisserver.Cluster(t, 1)[0]
	eng := open(t, at(SchemeCluster, s, "t:"), Options{})
	defer eng.Close()
	if _, err := replace(eng, "{p}old", "{p}none"); err != nil {
		t.Fatal(err)
	}
	for range 5 { // the order of the keys is random
		for _, right := range []string{"set", "del"} {
			s.Do(t, "ACL", "SETUSER", "default", "-"+right)
			_, err := replace(eng, "{p}new", "{p}old")
			refusedWith(t, err, engine.CodeUnsupported, "ACL SETUSER")
			if s.Do(t, "EXISTS", "t:k:{p}old") != "1" || s.Do(t, "EXISTS", "t:k:{p}new") != "0" {
				t.Fatalf("without %s the transaction was written in part", right)
			}
			s.Do(t, "ACL", "SETUSER", "default", "+"+right)
		}
	}
	if _, err := replace(eng, "{p}new", "{p}old"); err != nil {
		t.Error(err)
	}
}

// TestScriptsFlushed makes the server forget the scripts, again and again, while two processes write.
func TestScriptsFlushed(t *testing.T) {
	s := redisserver.Start(t)
	u := at(Scheme, s, newPrefix())
	a, b := open(t, u, Options{}), open(t, u, Options{})
	defer a.Close()
	defer b.Close()
	adders(t, []engine.Engine{a, b}, func() {
		for range 30 {
			s.Do(t, "SCRIPT", "FLUSH")
		}
	})
}

// TestForeignScript blocks the server by another program's script. Writes wait for a while, then they fail; once the script
// has ended they succeed.
func TestForeignScript(t *testing.T) {
	s := redisserver.Start(t, "--busy-reply-threshold", "1")
	eng, hasty := open(t, at(Scheme, s, "t:"), Options{}), open(t, at(Scheme, s, "t:"), Options{patience: 100 * time.Millisecond})
	defer eng.Close()
	defer hasty.Close()
	if _, err := add(eng); err != nil {
		t.Fatal(err)
	}
	block := func() (end func()) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Try("EVAL", "while true do end", "0") // until it is killed
		}()
		eventually.True(t, "the server is busy", func() bool {
			reply, err := s.Try("PING")
			return err == nil && strings.HasPrefix(reply, "-BUSY")
		})
		return func() {
			s.Do(t, "SCRIPT", "KILL")
			<-ended
		}
	}
	end := block()
	_, err := add(hasty)
	refusedWith(t, err, engine.CodeUnavailable, "busy with a script")
	_, err = Open(t.Context(), at(Scheme, s, "t:"), Options{})
	refusedWith(t, err, engine.CodeUnavailable, "busy with a script")
	end()
	if _, err := add(eng); err != nil {
		t.Errorf("after the script: %v", err)
	}

	end = block()
	retries := eng.(*db).retries.Load()
	written := make(chan error, 1)
	go func() {
		_, err := add(eng)
		written <- err
	}()
	eventually.True(t, "the write waits", func() bool { return eng.(*db).retries.Load() > retries })
	end()
	if err := <-written; err != nil {
		t.Errorf("a write that waited: %v", err)
	}
	if n := count(t, eng); n != 3 {
		t.Errorf("the number is %d after three additions", n)
	}
}

// TestKilledScript kills the engine's own scripts in the middle of batches. They run again. Redis kills no script that has
// written; these end without a pause after their first write, so none is ever found in that state.
func TestKilledScript(t *testing.T) {
	s := redisserver.Start(t, "--busy-reply-threshold", "1")
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	const keys, kills = 20_000, 3
	ended := make(chan struct{})
	stop := make(chan struct{})
	tries := &eng.(*db).retries
	go func() {
		defer close(ended)
		for tries.Load() < kills { // a script may end before it notices that it is killed
			select {
			case <-stop:
				return
			default:
			}
			if reply, _ := s.Try("SCRIPT", "KILL"); reply != "OK" && !strings.HasPrefix(reply, "-NOTBUSY") {
				t.Errorf("SCRIPT KILL: %s", reply)
			}
		}
	}()
	rounds := 0
	write := func() bool {
		if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			for i := range keys {
				if err := tx.Put(fmt.Appendf(nil, "k%d", i), fmt.Append(nil, rounds)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Errorf("round %d: %v", rounds, err)
			return true
		}
		rounds++
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	eventually.True(t, "scripts are killed", write)
	close(stop)
	<-ended
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		n := 0
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			if string(p.Val) != fmt.Sprint(rounds-1) {
				return fmt.Errorf("%s is of round %s, and %d was the last", p.Key, p.Val, rounds-1)
			}
			n++
		}
		if n != keys {
			return fmt.Errorf("there are %d of %d keys", n, keys)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestFailedSnapshot lets a snapshot of the server fail, as on a full disk: Redis then refuses writes until one succeeds.
func TestFailedSnapshot(t *testing.T) {
	s := redisserver.Start(t, "--dbfilename", "taken")
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	if _, err := add(eng); err != nil {
		t.Fatal(err)
	}
	snapshot := func(result string) {
		t.Helper()
		s.Do(t, "BGSAVE")
		eventually.True(t, "the snapshot is "+result, func() bool {
			info := s.Do(t, "INFO", "persistence")
			return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+result)
		})
	}
	taken := filepath.Join(s.Dir, "taken") // a folder in place of the file, which stops root too
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "CONFIG", "SET", "save", "3600 1000000")
	snapshot("err")
	_, err := add(eng)
	refusedWith(t, err, engine.CodeDiskFull, "its disk is full")
	if n := count(t, eng); n != 1 {
		t.Errorf("the number is %d after one addition", n)
	}
	second := open(t, at(Scheme, s, "t:"), Options{}) // reads are possible, so it opens
	if n := count(t, second); n != 1 {
		t.Errorf("the number is %d after one addition, for a second process", n)
	}
	second.Close()
	if err := os.Remove(taken); err != nil {
		t.Fatal(err)
	}
	snapshot("ok")
	if _, err := add(eng); err != nil || count(t, eng) != 2 {
		t.Errorf("after a snapshot that succeeded: %v", err)
	}
}
