package series

import "testing"

// TestNameless: the aggregates of a series that has no name are series of their own.
func TestNameless(t *testing.T) {
	for _, c := range []struct{ of, want string }{{"temp", `temp:avg{A="1",z="2"}`}, {"", `:avg{A="1",z="2"}`}} {
		of := labels(t, c.of, "z", "2", "A", "1")
		got := of.summary(Avg)
		if got.String() != c.want {
			t.Errorf("%s is summarized as %s, want %s", of, got, c.want)
		}
		if err := got.normalize(); err != nil || got.String() != c.want || got[0].Name != "A" {
			t.Errorf("%s, %v", got, err)
		}
	}
}
