package lineproto

import (
	"slices"
	"testing"
)

func TestNextLine(t *testing.T) {
	for _, c := range []struct {
		body string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"a\n", []string{"a"}},
		{"a\nb\nc", []string{"a", "b", "c"}},
		{"\n\na\n\n", []string{"", "", "a", ""}},
		{"a\r\nb\r\n", []string{"a\r", "b\r"}},

		// line breaks in strings
		{"m a=\"x\ny\" 1\nm b=2", []string{"m a=\"x\ny\" 1", "m b=2"}},
		{"m a=\"x\\\"\ny\",b=\"\n\n\"\nm", []string{"m a=\"x\\\"\ny\",b=\"\n\n\"", "m"}},
		{"m a=\"\\\\\"\nm b=\"\\\\\\\"\n\"\nm", []string{"m a=\"\\\\\"", "m b=\"\\\\\\\"\n\"", "m"}},
		{"m a=\"x\n\nm b=1\n", []string{"m a=\"x\n\nm b=1\n"}},
		{"m a=\"x\\\"\nm b=1\n", []string{"m a=\"x\\\"\nm b=1\n"}},
		{"m a=\"x\"", []string{"m a=\"x\""}},

		// quotes in names are ordinary
		{"m\"\nm b=1", []string{"m\"", "m b=1"}},
		{"m,t=\"x\nm b=1", []string{"m,t=\"x", "m b=1"}},
		{"m,t=\" a=1\nm b=1", []string{"m,t=\" a=1", "m b=1"}},
		{"m \"=1\nm b=1", []string{"m \"=1", "m b=1"}},
		{"m,t\\ =\" a=1\nm b=1", []string{"m,t\\ =\" a=1", "m b=1"}}, // this space is part of a name
		{"m a\\=\"=1\nm b=1", []string{"m a\\=\"=1", "m b=1"}},       // and this equals sign
		{"m a=1 \"\\\nm b=1", []string{"m a=1 \"\\", "m b=1"}},

		// comments
		{"# it's a=\"here\nm b=1\n  # b=\"\n", []string{"# it's a=\"here", "m b=1", "  # b=\""}},
		{"\t# a=\"\nm b=1", []string{"\t# a=\"", "m b=1"}},
	} {
		var got []string
		for line, rest := []byte(nil), []byte(c.body); len(rest) > 0; {
			line, rest = NextLine(rest)
			got = append(got, string(line))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.body, got, c.want)
		}
	}
}

func TestBlank(t *testing.T) {
	for line, want := range map[string]bool{"": true, " ": true, "\r": true, "\t \r": true, "#": true, "  # m a=1": true, "m a=1": false, " m#": false, "\\": false} {
		if got := Blank([]byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
