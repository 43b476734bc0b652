package main

import (
	"slices"
	"testing"
	"time"
)

func at(ms ...int) *writer {
	w := &writer{}
	for i, m := range ms {
		w.acks = append(w.acks, ack{key: i, end: time.Duration(m) * time.Millisecond, lat: time.Millisecond})
	}
	return w
}

func TestGapIsOfAllWritersTogether(t *testing.T) {
	w := &writers{each: []*writer{at(10, 20, 700, 710), at(15, 400, 705), at(1500)}}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct{ from, to, want int }{
		{0, 1000, 380}, // 20 to 400, not 20 to 700
		{400, 1000, 300},
		{0, 2000, 790},
		{705, 1000, 5},
	} {
		if got := w.gap(ms(c.from), ms(c.to)); got != ms(c.want) {
			t.Errorf("from %d to %d ms: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
	if n := w.ackedSince(ms(700)); n != 3 {
		t.Errorf("%d writes after 700 ms, want 3", n)
	}
	if rate, lat := w.between(ms(400), ms(1400)); rate != 3 || lat.Count != 3 {
		t.Errorf("%v /s, %d latencies from 400 to 1400 ms, want 3", rate, lat.Count)
	}
}

func TestListsOfNumbersAscend(t *testing.T) {
	if got, err := counts("1000,100000"); err != nil || !slices.Equal(got, []uint64{1000, 100_000}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "a", "5,5", "7,3", "1,"} {
		if got, err := counts(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// The targets name cells by their keys.
func TestTargetsFindTheirCells(t *testing.T) {
	m := &measurements{cells: map[string]*cell{}, faults: map[string]*faults{}}
	for _, k := range []struct {
		system string
		faces  []string
	}{{"skerry", []string{"RESP", "HTTP"}}, {"etcd", []string{"gRPC", "lean", "HTTP"}}} {
		for _, face := range k.faces {
			for _, s := range spots {
				if s.http == (face == "HTTP") {
					m.cells[cellKey(k.system, face, s)] = &cell{samples: []sample{{rate: 1, p50: 1}}}
				}
			}
		}
	}
	for _, key := range []string{"skerry RESP leader write 8×64", "etcd lean leader read 8×64", "etcd gRPC followers read 8×64",
		"skerry RESP leader write 1×1", "etcd lean leader write 1×1", "skerry HTTP leader write 512×1", "etcd HTTP leader write 512×1"} {
		if got := m.one(rate, key); got != 1 {
			t.Errorf("%s: %v", key, got)
		}
	}
}
