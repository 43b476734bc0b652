package history

import (
	"strings"
	"testing"
)

// TestMany: what is over the limits of numbers, with smaller numbers.
func TestMany(t *testing.T) {
	t.Parallel()
	good := Op{Outcome: Unknown, Step: Step{Kind: Get}}
	r := NewRecorder(nil, nil)
	r.most = 3
	for range 4 {
		r.Add(good)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "more than 3 operations") || len(r.Ops()) != 3 {
		t.Errorf("operations of a recorder: %v", err)
	}
	r = NewRecorder(nil, nil)
	r.mostPending = 2
	for range 3 {
		r.Begin(good)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "more than 2 calls") {
		t.Errorf("pending calls of a recorder: %v", err)
	}
	const line = `{"client":1,"op":"get","key":"x","call":1,"outcome":"unknown"}` + "\n"
	if _, err := readUpTo(strings.NewReader(strings.Repeat(line, 4)), 3); err == nil || !strings.Contains(err.Error(), "more than 3 operations") {
		t.Errorf("operations of a file: %v", err)
	}
	if ops, err := readUpTo(strings.NewReader(strings.Repeat(line, 3)), 3); err != nil || len(ops) != 3 {
		t.Errorf("as many operations as may be: %v", err)
	}
	f := file{most: 1, pending: map[int64]object{}, began: map[int64]int{}}
	for id, want := range []string{"", "more than 1 calls wait for their return"} {
		_, _, err := f.read([]byte(`{"event":"call","id":` + string(rune('0'+id)) + `,"client":1,"op":"get","key":"x","call":1}`))
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("call %d of a file: %v", id, err)
		}
	}
}
