package embedded

import (
	"reflect"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

func sampleBatch() *batch {
	b := newBatch(41, 0)
	b.add(1_000_000, 2)
	b.put([]byte("key"), []byte("value"))
	b.remove([]byte("gone"))
	b.add(1_000_007, 1)
	b.put([]byte{0, 255}, nil)
	return b
}

func TestBatch(t *testing.T) {
	want := []engine.Change{
		{Pos: 42, Time: time.UnixMicro(1_000_000), Writes: []engine.Write{
			{Key: []byte("key"), Val: []byte("value")}, {Key: []byte("gone"), Deleted: true}}},
		{Pos: 43, Time: time.UnixMicro(1_000_007), Writes: []engine.Write{{Key: []byte{0, 255}, Val: []byte{}}}},
	}
	var got []engine.Change
	for c, err := range changes(sampleBatch().buf) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded\n%v, want\n%v", got, want)
	}
}

// FuzzBatch checks that no bytes make the decoders panic or read what is not there, and
// that both find the same.
func FuzzBatch(f *testing.F) {
	f.Add(sampleBatch().buf)
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		total := 0
		var last engine.Change
		var all []engine.Write
		var failed error
		for c, err := range changes(data) {
			if failed = err; err != nil {
				break
			}
			for _, w := range c.Writes {
				total += len(w.Key) + len(w.Val)
			}
			all, last = append(all, c.Writes...), c
		}
		if total > len(data) {
			t.Errorf("%d bytes decoded out of %d", total, len(data))
		}
		writes, n, micros, err := decodeWrites(nil, data)
		if (err == nil) != (failed == nil) {
			t.Fatalf("decodeWrites: %v, changes: %v", err, failed)
		}
		if err != nil || n == 0 {
			return
		}
		base, _ := batchBase(data) // it was read before
		if !reflect.DeepEqual(writes, all) || base+n != last.Pos || micros != last.Time.UnixMicro() {
			t.Errorf("decodeWrites: %v to %d at %d\nchanges: %v to %d at %d", writes, base+n, micros, all, last.Pos, last.Time.UnixMicro())
		}
	})
}
