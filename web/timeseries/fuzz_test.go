package timeseries_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries/lineproto"
)

var oddValues = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e300, 0.1, 999999999999999}

// FuzzWrite: any body is stored, or refused with a report that counts each line once.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("m,h=a f=1.5,i=2i,s=\"x\ny\" 1\n\n# c\nm,h=a,h=b f=1 1\nm f=1,f=2\r\n,x y=1 1\nm f=NaN"))
	f.Add([]byte("m\\ x,a\\,b=c\\=d f=t 9223372036854775807"))
	s := plain(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, strs := 0, 0
		var p lineproto.Parser
		var l lineproto.Line
		for rest := body; len(rest) > 0; {
			var line []byte
			line, rest = lineproto.NextLine(rest)
			if lineproto.Blank(line) {
				continue
			}
			lines++
			if p.Parse(bytes.Clone(line), 1, &l) == nil {
				numbers := false
				for _, x := range l.Fields {
					numbers = numbers || x.Kind != lineproto.String
				}
				if !numbers {
					strs++
				}
			}
		}
		at := site{t, s.db, s.app, s.face, s.Promises}
		switch r := at.write(string(body)); r.Code {
		case 204:
		case 400:
			p := r.partial()
			if p.Code != "series_partial" || p.Refused < 1 || len(p.Errors) != min(p.Refused, 100) || p.Refused+p.Stored+strs != lines {
				t.Errorf("%q: %d lines, %d of strings: %s", body, lines, strs, r.Body)
			}
		default:
			t.Errorf("%q: %d %s", body, r.Code, r.Body)
		}
	})
}

// FuzzSelector: nothing panics, and what a selector selects, the one that its matchers print as does.
func FuzzSelector(f *testing.F) {
	for _, text := range []string{`m`, `m{a="b"}`, `{a!='b',"c d"=~"x|y",}`, "{a!~`.*`}", `m{a="\u00e9\n"}`} {
		f.Add(text, "b")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		match, err := series.ParseSelector(text)
		if err != nil {
			return
		}
		var parts []string
		for _, m := range match {
			parts = append(parts, strconv.Quote(m.Name)+m.Op.String()+strconv.Quote(m.Value))
		}
		again, err := series.ParseSelector("{" + strings.Join(parts, ",") + "}")
		if err != nil || len(again) != len(match) {
			t.Fatalf("%q prints as %q: %v", text, parts, err)
		}
		for i, m := range match {
			if n := again[i]; m.Name != n.Name || m.Op != n.Op || m.Value != n.Value || m.Matches(value) != n.Matches(value) {
				t.Fatalf("%q prints as %q", text, parts)
			}
		}
	})
}
