package timeseries

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/series"
)

// Forget makes a Face forget which series lines have as soon as it knows more than max of them.
func (f *Face) Forget(s *series.Store, max int) {
	k := f.known.of(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.max = max
}

// TestFind: fields are found at their place and at any other.
func TestFind(t *testing.T) {
	fields := []field{{"a", 1}, {"b", 2}, {"c", 3}}
	for i, f := range fields {
		for place := range 5 {
			if id, ok := find(fields, place, []byte(f.key)); !ok || id != series.ID(i+1) {
				t.Errorf("%s at %d is %d, %v", f.key, place, id, ok)
			}
		}
	}
	if id, ok := find(fields, 0, []byte("d")); ok {
		t.Errorf("d is %d", id)
	}
}

// TestKnownForgets: it never knows more than its limit and one body.
func TestKnownForgets(t *testing.T) {
	k := &known{max: 10, lines: map[string][]field{}}
	for i := range 1000 {
		k.add([]missing{{fmt.Sprint("m", i), "f"}, {fmt.Sprint("n", i), "f"}}, []series.ID{1, 0})
		if len(k.lines) > 11 {
			t.Fatalf("it knows %d", len(k.lines))
		}
		if _, ok := k.lines[fmt.Sprint("n", i)]; ok {
			t.Fatal("it knows a series without an id")
		}
	}
}

// TestMissingLabels: the name has the measurement and the field, as they are without escapes.
func TestMissingLabels(t *testing.T) {
	for line, want := range map[string]string{
		`m`:              `m_f`,
		`m,b=2,a=1`:      `m_f{a="1",b="2"}`,
		`a\ b\,c,x=y\ z`: `a b,c_f{x="y z"}`,
	} {
		l, err := missing{line, "f"}.labels()
		if err != nil || l.String() != want {
			t.Errorf("%s: %s, %v, want %s", line, l, err, want)
		}
	}
	for _, line := range []string{"m,a=1,a=2", "m,=1", "m,a", strings.Repeat("m", 3000), "m,__name__=1"} {
		if l, err := (missing{line, "f"}).labels(); err == nil {
			t.Errorf("%.40s: %s", line, l)
		}
	}
}
