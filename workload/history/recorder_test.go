package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/workload/history"
)

// TestRecorder records many goroutines that use a map behind a lock.
func TestRecorder(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := history.NewRecorder(&file, nil)
	var mu sync.Mutex
	data := map[string]string{}
	var wg sync.WaitGroup
	for c := range int64(6) {
		wg.Go(func() {
			for i := range 100 {
				key := fmt.Sprint("k", i%7)
				if i%2 == 0 {
					p := r.Begin(history.Op{Client: c, Step: history.Step{Kind: history.Get, Key: key}})
					mu.Lock()
					v, ok := data[key]
					mu.Unlock()
					p.Op.Got = history.Value{Text: v, Present: ok}
					p.End(history.OK)
					continue
				}
				v := fmt.Sprint(c, " ", i)
				p := r.Begin(history.Op{Client: c, Step: history.Step{Kind: history.Set, Key: key, Value: history.Some(v)}})
				mu.Lock()
				data[key] = v
				mu.Unlock()
				p.End(history.OK)
			}
			r.Begin(history.Op{Client: c, Step: history.Step{Kind: history.Delete, Key: "k0"}}) // never ends
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, ops := range [][]history.Op{r.Ops(), read} {
		res := history.Check(t.Context(), ops, history.Options{})
		if res.Verdict != history.Correct || len(ops) != 606 {
			t.Errorf("%d operations: %s\n%s", len(ops), res.Verdict, res.Explanation)
		}
	}
}

// TestRecorderEnd: virtual time, results that come with the end, ends that come too late.
func TestRecorderEnd(t *testing.T) {
	t.Parallel()
	now := int64(0)
	r := history.NewRecorder(nil, func() int64 { now += 10; return now })
	p := r.Begin(history.Op{Step: history.Step{Kind: history.Txn}, Steps: []history.Step{{Kind: history.Get, Key: "x"}}})
	late := r.Begin(history.Op{Step: history.Step{Kind: history.Txn}, Steps: []history.Step{{Kind: history.Get, Key: "x"}}})
	p.Op.Steps[0].Got = history.Some("1")
	p.End(history.OK)
	p.End(history.Fail)
	late.Op.Steps[0].Got = history.Some("2")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	late.End(history.OK)
	r.Add(history.Op{Outcome: history.OK, Step: history.Step{Kind: history.Get}})
	ops := r.Ops()
	if len(ops) != 2 || ops[0].Call != 10 || ops[0].Return != 30 || ops[0].Steps[0].Got != history.Some("1") || ops[0].Outcome != history.OK {
		t.Fatalf("%+v", ops)
	}
	if ops[1].Outcome != history.Unknown || ops[1].Steps[0].Got.Present {
		t.Errorf("the pending operation: %+v", ops[1])
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestRecorderErrors(t *testing.T) {
	t.Parallel()
	good := history.Op{Outcome: history.Unknown, Step: history.Step{Kind: history.Get}}
	r := history.NewRecorder(fullDisk{}, nil)
	r.Add(good)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("a full disk: %v", err)
	}
	r = history.NewRecorder(nil, nil)
	r.Add(history.Op{Outcome: history.OK, Step: history.Step{Kind: history.Set, Key: "\xff", Value: history.Some("1")}})
	r.Add(good)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "not UTF-8") || len(r.Ops()) != 0 {
		t.Errorf("bytes that are no text: %v", err)
	}
}
