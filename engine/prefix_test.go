package engine

import "testing"

func TestPrefixEnd(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": "", "a": "b", "a\x00": "a\x01", "a\xfe": "a\xff", "a\xff": "b", "a\xff\xff": "b",
		"\xff": "", "\xff\xff": "", "\xfe\xff": "\xff",
	} {
		given := []byte(prefix)
		end := PrefixEnd(given)
		if string(end) != want || (end == nil) != (want == "") {
			t.Errorf("%q: %q, want %q", prefix, end, want)
		}
		if string(given) != prefix {
			t.Errorf("%q became %q", prefix, given)
		}
	}
}
