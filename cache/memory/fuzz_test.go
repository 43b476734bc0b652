package memory

import (
	"bytes"
	"testing"
)

// FuzzOperations runs a sequence of operations, of 4 bytes each, on a small cache and on a map. The first byte says
// whether all hashes are equal.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00Sa00Sb99Ga00Da00Ga00"))
	f.Add([]byte("\x01Sa00Sb99Da00Gb00F000Gb00"))
	f.Add(append([]byte{0}, bytes.Repeat([]byte("Sa\x30\x01Sb\x07\x02Sc\xff\x03Sd\x08\x04Ga00"), 100)...))
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 || len(program) > 1<<14 {
			return
		}
		c, err := New(Options{MaxBytes: MinBytes, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		if program[0]&1 == 1 {
			c.mask = 0
		}
		last := map[string][]byte{}
		for p := program[1:]; len(p) >= 4; p = p[4:] {
			key := string(p[1:2])
			switch p[0] % 8 {
			case 0:
				c.Delete(key)
				delete(last, key)
			case 1:
				if p[2] == 0 {
					c.Flush()
					clear(last)
				}
			case 2, 3, 4:
				v := bytes.Repeat(p[3:4], int(p[2])*int(p[2])/8)
				delete(last, key)
				if c.Set(key, v) {
					last[key] = v
				}
			default:
				want, has := last[key]
				if v, ok := c.Get(nil, key); ok && (!has || !bytes.Equal(v, want)) {
					t.Fatalf("%q is %.20q, want %.20q (%v)", key, v, want, has)
				}
			}
		}
		c.check(t)
	})
}
