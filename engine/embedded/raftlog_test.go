package embedded

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/raft"
)

// TestVoteIsKept ends a process at every moment of the life of its vote, with
// and without the loss of power: what was durable or was ever seen by a start
// must not be taken back.
func TestVoteIsKept(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fs := memfs.New(seed)
		var known raft.Vote // that it must have at least
		for range 8 {
			f, err := openVote(fs, "")
			if err != nil {
				if fs.Stats().Writes > 0 && rng.IntN(2) == 0 {
					fs.Kill()
				} else {
					fs.Crash()
				}
				continue
			}
			if f.last.Term < known.Term || f.last.Term == known.Term && f.last != known {
				t.Fatalf("seed %d: the vote was %+v and is %+v after a start", seed, known, f.last)
			}
			known = f.last
			fs.StopAfter(rng.IntN(8))
			for {
				next := raft.Vote{Term: known.Term + 1, For: rng.Uint64N(5)}
				if f.set(next) != nil {
					break
				}
				known = next
			}
			if rng.IntN(2) == 0 {
				fs.Kill()
			} else {
				fs.Crash()
			}
			fs.StopAfter([]int{-1, -1, 0, 1, 2}[rng.IntN(5)]) // while it starts again
		}
	}
}

// TestVoteIsRead reads the vote without a right to write, as a check does.
func TestVoteIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := openVote(journal.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := raft.Vote{Term: 7, For: 2}
	if err := errors.Join(f.set(want), f.f.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := readVote(journal.OS(), dir); got != want || err != nil {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
}
