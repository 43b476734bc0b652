package requestid_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web/requestid"
)

// TestIDs: ids differ, within a run and between runs, and may be taken over.
func TestIDs(t *testing.T) {
	one, two := requestid.New(), requestid.New()
	seen := map[string]bool{}
	for range 100 {
		for _, s := range []*requestid.Source{one, two} {
			id := s.Next()
			if seen[id] || !requestid.Good(id) || !strings.HasPrefix(id, s.Run()) {
				t.Errorf("id %q of run %q", id, s.Run())
			}
			seen[id] = true
		}
	}
}

// TestGood: nothing that could end a line or a header is taken over.
func TestGood(t *testing.T) {
	for id, want := range map[string]bool{
		"a-B_9.z": true, strings.Repeat("a", requestid.MaxBytes): true,
		"": false, strings.Repeat("a", requestid.MaxBytes+1): false, "a b": false, "a\r\nb": false, "é": false, "a/b": false, "\x00": false,
	} {
		if requestid.Good(id) != want {
			t.Errorf("%q: want %v", id, want)
		}
	}
}
