package resp_test

import (
	"bufio"
	"strings"
	"testing"
)

// The transcripts are only as good as their comparison.
func TestMatchReply(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"+OK", "+OK", true},
		{"+OK", `"OK"`, false},
		{"$-1", "_", false},
		{"$-1", "*-1", false},
		{":<98..100>", ":99", true},
		{":<98..100>", ":101", false},
		{":<98..100>", `"99"`, false},
		{":<int>", ":-7", true},
		{":<int>", ":7x", false},
		{`"a=<int> b=<any>"`, `"a=1 b=x y"`, true},
		{`"a=<int> b=<any>"`, `"a= b=x y"`, false},
		{"*2|  :1|  :2", "*2|  :1|  :2", true},
		{"*2|  :1|  :2", "*2|  :1|  :3", false},
		{"*2|  :1|  :2", "*2|  :1", false},
		{"*2|  :1", "*2|  :1|  :2", false},
		{"*<int>|  ...", "*2|  :1|  :2", true},
		{"*<int>|  ...", "*2|  :1|:2", false},
		{"*3|  *<int>|    ...|  :9", "*3|  *2|    :1|    :2|  :9", true},
		{"*3|  *<int>|    ...|  :9", "*3|  *2|    :1|    :2|  :8", false},
		{"", "+OK", false},
	} {
		want, got := strings.Split(c.want, "|"), strings.Split(c.got, "|")
		if c.want == "" {
			want = nil
		}
		if matchReply(want, got) != c.ok {
			t.Errorf("want %q, got %q: matched is %t", c.want, c.got, !c.ok)
		}
	}
}

// Every type is printed so that it cannot be taken for another.
func TestReplyLines(t *testing.T) {
	for wire, want := range map[string]string{
		"+OK\r\n":                         "+OK",
		"-ERR no \r\n":                    `-ERR no\x20`,
		":7\r\n":                          ":7",
		"$2\r\n\x00\"\r\n":                `"\x00\""`,
		"$-1\r\n":                         "$-1",
		"*-1\r\n":                         "*-1",
		"_\r\n":                           "_",
		"#t\r\n":                          "#t",
		",1.5\r\n":                        ",1.5",
		"(12\r\n":                         "(12",
		"=5\r\ntxt:a\r\n":                 `="txt:a"`,
		"!3\r\nERR\r\n":                   `!"ERR"`,
		"*2\r\n*0\r\n~1\r\n:1\r\n":        "*2|  *0|  ~1|    :1",
		"%1\r\n+k\r\n>1\r\n$1\r\nv\r\n":   `%1|  +k|  >1|    "v"`,
		"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n": `|1|  +ttl|  :5|"v"`,
	} {
		v, err := readReply(bufio.NewReader(strings.NewReader(wire)), 0)
		if got := strings.Join(v.lines(), "|"); err != nil || got != want {
			t.Errorf("%q is printed as %q, want %q; %v", wire, got, want, err)
		}
	}
	for _, bad := range []string{"", "OK\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "$3\r\nabcd\r\n", "*1\r\n", strings.Repeat("*1\r\n", 100)} {
		if v, err := readReply(bufio.NewReader(strings.NewReader(bad)), 0); err == nil {
			t.Errorf("%q is read as %q", bad, v.lines())
		}
	}
}
