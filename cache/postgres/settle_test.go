package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/cache"
)

// script is a server and a stream that do what a test says, and the sink that the reports go to.
type script struct {
	*settler
	queue    []*change
	received cache.Position
	heard    time.Time
	snap     snapshot
	end      cache.Position // of the log
	form     string
	nudges   int
	reports  []string
	pos      cache.Position
	proof    time.Time
}

func newScript() *script {
	s := &script{heard: time.Now(), snap: snapshot{xmin: 10, xmax: 10}, end: 100, received: 100, form: "shape"}
	s.settler = &settler{every: time.Second, s: s, db: s, sink: s, shape: "shape", reached: 100}
	return s
}

func (s *script) take() ([]*change, cache.Position, time.Time, error) {
	list := s.queue
	s.queue = nil
	return list, s.received, s.heard, nil
}
func (s *script) status(cache.Position, bool) error { return nil }
func (s *script) now(context.Context, bool) (snapshot, cache.Position, string, error) {
	return s.snap, s.end, s.form, nil
}
func (s *script) nudge(context.Context) error { s.nudges++; return nil }

func (s *script) Resume() (string, cache.Position)   { return "", 0 }
func (s *script) Begin(string, cache.Position, bool) { s.reports = append(s.reports, "begin") }
func (s *script) Changed(keys ...string)             { s.reports = append(s.reports, keys...) }
func (s *script) ChangedAll(string)                  { s.reports = append(s.reports, "all") }
func (s *script) Lag(int64)                          {}
func (s *script) Reached(pos cache.Position, at time.Time) {
	s.pos = pos
	if !at.IsZero() {
		s.proof = at
	}
}

// commit makes the stream have a transaction. It is visible once the snapshot says so.
func (s *script) commit(xid uint32, keys ...string) {
	s.queue = append(s.queue, &change{xid: xid, from: s.end, end: s.end + 10, keys: keys})
	s.end += 10
	s.received = s.end
}

// step runs a round, and checks which keys were reported in it and the position then.
func (s *script) step(t *testing.T, due bool, pos cache.Position, reports ...string) {
	t.Helper()
	s.reports = nil
	if _, err := s.round(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.reports, reports) || s.pos != pos {
		t.Fatalf("reported %q up to %d, want %q up to %d", s.reports, s.pos, reports, pos)
	}
}

// TestForcedBarrier: a change is reported once it is visible, and the position does not pass it before.
func TestForcedBarrier(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.snap = snapshot{xmin: 10, xmax: 12, running: []uint64{10}}
	s.commit(10, "a")
	s.commit(11, "b")
	s.step(t, false, 100, "b") // 10 waits for a standby
	s.step(t, true, 100)
	s.snap = snapshot{xmin: 12, xmax: 12}
	s.step(t, false, 120, "a")
}

// TestForcedProof: a proof has the time of the question that the stream has answered, not a later one.
func TestForcedProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.end = 110 // a commit that the stream does not have yet
		asked := time.Now()
		s.step(t, true, 100)
		time.Sleep(time.Second)
		s.step(t, true, 100)
		if !s.proof.IsZero() {
			t.Error("a proof, and the stream is behind")
		}
		if s.nudges != 1 {
			t.Errorf("a period has not sufficed: %d nudges", s.nudges)
		}
		time.Sleep(time.Second)
		s.end = 100
		s.snap = snapshot{xmin: 11, xmax: 11}
		s.commit(10, "a")
		s.step(t, true, 110, "a")
		if !s.proof.Equal(asked) {
			t.Errorf("the proof is of %v, the question was asked at %v", s.proof, asked)
		}
	})
}

// TestForcedBegin: a transaction that has committed before the feed began, and becomes visible later, empties the cache:
// the stream will not report it. One that the stream reports does not.
func TestForcedBegin(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.snap = snapshot{xmin: 10, xmax: 12, running: []uint64{10, 11}}
	if err := s.begin(t.Context(), "h", 100, false); err != nil || !slices.Equal(s.reports, []string{"begin"}) {
		t.Fatalf("%q, %v", s.reports, err)
	}
	s.snap = snapshot{xmin: 10, xmax: 12, running: []uint64{10}}
	s.commit(11, "b")
	s.step(t, false, 110, "b")
	s.snap = snapshot{xmin: 12, xmax: 12}
	s.step(t, true, 110, "all")
	s.step(t, true, 110)
}

// TestForcedShape: a table that was altered ends the feed, before anything that the same snapshot sees counts.
func TestForcedShape(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.step(t, true, 100)
	s.form = "other"
	s.end = 200
	if _, err := s.round(t.Context(), true); !errors.Is(err, errShape) || s.pos != 100 || !s.proof.IsZero() {
		t.Errorf("%v, position %d, proof %v", err, s.pos, s.proof)
	}
}

// TestForcedSilentStream: a stream that says nothing while an answer is due ends the feed, but not one that is busy.
func TestForcedSilentStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.end = 200
		s.step(t, true, 100)
		time.Sleep(streamWithin + time.Second)
		s.heard = time.Now()
		s.step(t, true, 100) // it sends a large transaction
		time.Sleep(streamWithin + time.Second)
		if _, err := s.round(t.Context(), true); !errors.Is(err, errSilent) {
			t.Error(err)
		}
	})
}

// TestForcedConfirm: the slot keeps what the last seconds may need again.
func TestForcedConfirm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.snap = snapshot{xmin: 1 << 20, xmax: 1 << 20}
		var got []string
		for range 30 {
			s.commit(20, "a")
			if _, err := s.round(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			if pos := s.confirmed(); pos > 0 && pos+100 > s.pos {
				got = append(got, fmt.Sprint(pos, " at ", s.pos))
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if len(got) > 0 || s.confirmed() == 0 {
			t.Errorf("confirmed too early: %q, or never: %d", got, s.confirmed())
		}
	})
}
