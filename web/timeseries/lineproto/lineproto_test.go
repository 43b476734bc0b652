package lineproto

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// show writes a line as the tables of tests have it: measurement{tag=value} key=kind:value @time.
func show(l *Line) string {
	var tags []string
	measurement, err := SplitSeries(l.Series, func(key, value []byte) { tags = append(tags, fmt.Sprintf("%s=%s", key, value)) })
	if err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("%s{%s}", measurement, strings.Join(tags, ";"))
	for _, f := range l.Fields {
		if f.Kind == String {
			s += fmt.Sprintf(" %s=string:%s", f.Key, f.Text)
		} else {
			s += fmt.Sprintf(" %s=%v:%v", f.Key, f.Kind, f.Value)
		}
	}
	if l.HasTime {
		s += fmt.Sprintf(" @%d", l.Time)
	}
	return s
}

var good = []struct{ line, want string }{
	// the examples of the reference
	{`myMeasurement,tag1=value1,tag2=value2 fieldKey="fieldValue" 1556813561098000000`, `myMeasurement{tag1=value1;tag2=value2} fieldKey=string:fieldValue @1556813561098000000`},
	{`m f=1.0`, `m{} f=float:1`},
	{`m f=1`, `m{} f=float:1`},
	{`m f=-1.234456e+78`, `m{} f=float:-1.234456e+78`},
	{`m f=1i,g=12485903i,h=-12485903i`, `m{} f=int:1 g=int:1.2485903e+07 h=int:-1.2485903e+07`},
	{`m f=1u,g=12485903u`, `m{} f=uint:1 g=uint:1.2485903e+07`},
	{`my\ Measurement fieldKey="string value"`, `my Measurement{} fieldKey=string:string value`},
	{`m fieldKey="\"string\" within a string"`, `m{} fieldKey=string:"string" within a string`},
	{`m,tag\ Key1=tag\ Value1,tag\ Key2=tag\ Value2 fieldKey=100`, `m{tag Key1=tag Value1;tag Key2=tag Value2} fieldKey=float:100`},
	{`m,tagKey=🍭 fieldKey="Launch 🚀" 1556813561098000000`, `m{tagKey=🍭} fieldKey=string:Launch 🚀 @1556813561098000000`},

	// names
	{`a\,b\ c,d\=e\,f\ g=h\=i\,j\ k l\=m\,n\ o=1`, `a,b c{d=e,f g=h=i,j k} l=m,n o=float:1`},
	{`a=b f=1`, `a=b{} f=float:1`},
	{`a\=b f=1`, `a\=b{} f=float:1`},
	{`a\b,c\d=e\f g\h=1`, `a\b{c\d=e\f} g\h=float:1`},
	{`a\\,b\\=c\\ d\\=1`, `a\{b\=c\} d\=float:1`},
	{`a\\\ b f=1`, `a\ b{} f=float:1`},
	{`a,b=c\\\\ f=1`, `a{b=c\\} f=float:1`},
	{`"a","b"="c" "d"=1`, `"a"{"b"="c"} "d"=float:1`},
	{`'a' f#=1`, `'a'{} f#=float:1`},
	{`_a,_b=c _d=1`, `_a{_b=c} _d=float:1`},
	{`m,b=1,a=2,c=3 f=1`, `m{b=1;a=2;c=3} f=float:1`},
	{"m,t=a\tb f\t=1", "m{t=a\tb} f\t=float:1"},
	{`m f=1,f=2`, `m{} f=float:1 f=float:2`},

	// spaces
	{`  m   f=1   5  `, `m{} f=float:1 @5`},
	{"\t m f=1", `m{} f=float:1`},
	{"m f=1 5\r", `m{} f=float:1 @5`},
	{"m f=1\r", `m{} f=float:1`},
	{`m f=1 `, `m{} f=float:1`},

	// booleans
	{`m a=t,b=T,c=true,d=True,e=TRUE`, `m{} a=bool:1 b=bool:1 c=bool:1 d=bool:1 e=bool:1`},
	{`m a=f,b=F,c=false,d=False,e=FALSE 1`, `m{} a=bool:0 b=bool:0 c=bool:0 d=bool:0 e=bool:0 @1`},

	// numbers
	{`m a=0,b=-0,c=0i,d=-0i,e=0u`, `m{} a=float:0 b=float:-0 c=int:0 d=int:0 e=uint:0`},
	{`m a=.5,b=-.5,c=5.,d=007,e=1e2,f=1E+2,g=1.e-2`, `m{} a=float:0.5 b=float:-0.5 c=float:5 d=float:7 e=float:100 f=float:100 g=float:0.01`},
	{`m a=9223372036854775807i,b=-9223372036854775808i,c=18446744073709551615u`, `m{} a=int:9.223372036854776e+18 b=int:-9.223372036854776e+18 c=uint:1.8446744073709552e+19`},
	{`m a=00000000000000000000001i,b=00000000000000000000001u,c=-999999999999999999i`, `m{} a=int:1 b=uint:1 c=int:-1e+18`},
	{`m a=0.1,b=0.30000000000000004,c=123456789012345678901234567890`, `m{} a=float:0.1 b=float:0.30000000000000004 c=float:1.2345678901234568e+29`},
	{`m a=1.7976931348623157e308,b=5e-324,c=1e-400,d=2.2250738585072011e-308`, `m{} a=float:1.7976931348623157e+308 b=float:5e-324 c=float:0 d=float:2.225073858507201e-308`},
	{`m a=9007199254740993,b=9007199254740991e22,c=1e23,d=1e0000000000000000000001`, `m{} a=float:9.007199254740992e+15 b=float:9.00719925474099e+37 c=float:1e+23 d=float:10`},

	// strings
	{`m a="",b="x"`, `m{} a=string: b=string:x`},
	{`m a="b,c=d e" 1`, `m{} a=string:b,c=d e @1`},
	{`m a="\\",b="\\\"",c="\n\,\ \=",d="\\\\\"x"`, `m{} a=string:\ b=string:\" c=string:\n\,\ \= d=string:\\"x`},
	{"m a=\"two\nlines\",b=1 1", "m{} a=string:two\nlines b=float:1 @1"},

	// timestamps
	{`m f=1 0`, `m{} f=float:1 @0`},
	{`m f=1 -1`, `m{} f=float:1 @-1`},
	{`m f=1 9223372036854775807`, `m{} f=float:1 @9223372036854775807`},
	{`m f=1 -9223372036854775808`, `m{} f=float:1 @-9223372036854775808`},
	{`m f=1 12345678`, `m{} f=float:1 @12345678`},
	{`m f=1 1234567890123456`, `m{} f=float:1 @1234567890123456`},
	{`m f=1 00000000000000000000000000000000012`, `m{} f=float:1 @12`},
}

func TestParse(t *testing.T) {
	var p Parser
	var l Line
	for _, c := range good {
		if err := p.Parse([]byte(c.line), time.Nanosecond, &l); err != nil {
			t.Errorf("%q: %v", c.line, err)
		} else if got := show(&l); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

var bad = []struct {
	line   string
	offset int
	reason string
}{
	{``, 0, `line is blank`},
	{`   `, 3, `line is blank`},
	{`# m f=1`, 0, `line is a comment`},
	{`,a=b f=1`, 0, `measurement is missing`},
	{`m`, 1, `line has no fields`},
	{`m,a=b`, 5, `line has no fields`},
	{`m\ f=1`, 6, `line has no fields`},
	{`m `, 2, `field is missing`},
	{`m f=1,`, 6, `field is missing`},
	{`m f=1, 5`, 6, `field is missing`},
	{`m ,f=1`, 2, `field is missing`},
	{`m =1`, 2, `field has no name`},
	{`m usage`, 7, `field "usage" has no value`},
	{`m usage 5`, 7, `field "usage" has no value`},
	{`m usage,b=1`, 7, `field "usage" has no value`},
	{`m usage\=1`, 10, `field "usage\\=1" has no value`},
	{`m usage=`, 8, `field "usage" has no value`},
	{`m usage=,b=1`, 8, `field "usage" has no value`},
	{`m usage= 5`, 8, `field "usage" has no value`},
	{"m a\nb=1", 3, `field key has a line break`},
	{"m a\\\nb=1", 4, `field key has a line break`},
	{`m a=b`, 4, `field "a" has the invalid value "b"`},
	{`m a\ b=c`, 7, `field "a b" has the invalid value "c"`},
	{`m a=tru`, 4, `field "a" has the invalid value "tru"`},
	{`m a=tRUE`, 4, `field "a" has the invalid value "tRUE"`},
	{`m a='b'`, 4, `field "a" has the invalid value "'b'"`},
	{`m a=+1`, 4, `field "a" has the invalid value "+1"`},
	{`m a=-`, 4, `field "a" has the invalid value "-"`},
	{`m a=.`, 4, `field "a" has the invalid value "."`},
	{`m a=1e`, 4, `field "a" has the invalid value "1e"`},
	{`m a=1e+`, 4, `field "a" has the invalid value "1e+"`},
	{`m a=1.5i`, 4, `field "a" has the invalid value "1.5i"`},
	{`m a=1ii`, 4, `field "a" has the invalid value "1ii"`},
	{`m a=i`, 4, `field "a" has the invalid value "i"`},
	{`m a=-u`, 4, `field "a" has the invalid value "-u"`},
	{`m a=0x1p4`, 4, `field "a" has the invalid value "0x1p4"`},
	{`m a=1_000`, 4, `field "a" has the invalid value "1_000"`},
	{`m a=1=2`, 4, `field "a" has the invalid value "1=2"`},
	{"m a=1\tb=2", 4, `field "a" has the invalid value "1\tb=2"`},
	{`m a=NaN`, 4, `field "a" is NaN, which is not a finite number`},
	{`m a=-inf`, 4, `field "a" is -inf, which is not a finite number`},
	{`m a=+Infinity 1`, 4, `field "a" is +Infinity, which is not a finite number`},
	{`m a=1e309`, 4, `field "a" is 1e309, which overflows float64`},
	{`m a=-1e99999999999`, 4, `field "a" is -1e99999999999, which overflows float64`},
	{`m a=9223372036854775808i`, 4, `field "a" is 9223372036854775808i, which overflows int64`},
	{`m a=-9223372036854775809i`, 4, `field "a" is -9223372036854775809i, which overflows int64`},
	{`m a=18446744073709551616u`, 4, `field "a" is 18446744073709551616u, which overflows uint64`},
	{`m a=-1u`, 4, `field "a" is -1u, but unsigned integers are not negative`},
	{`m a="b`, 4, `field "a" has no closing quote`},
	{`m a="b\"`, 4, `field "a" has no closing quote`},
	{`m a="b\`, 4, `field "a" has no closing quote`},
	{`m a="b"c`, 7, `field "a" has text after its closing quote`},
	{`m a="b""c"`, 7, `field "a" has text after its closing quote`},
	{`m a=1 x`, 6, `timestamp "x" is not an integer`},
	{`m a=1 +5`, 6, `timestamp "+5" is not an integer`},
	{`m a=1 -`, 6, `timestamp "-" is not an integer`},
	{`m a=1 1.5`, 6, `timestamp "1.5" is not an integer`},
	{`m a=1 1e9 `, 6, `timestamp "1e9" is not an integer`},
	{`m a=1 5 6`, 6, `timestamp "5 6" is not an integer`},
	{`m a=1 b=2`, 6, `timestamp "b=2" is not an integer`},
	{`m a=1 9223372036854775808`, 6, `timestamp 9223372036854775808 overflows int64 in nanoseconds; check the precision`},
	{`m a=1 -9223372036854775809`, 6, `timestamp -9223372036854775809 overflows int64 in nanoseconds; check the precision`},
	{`m a=1 99999999999999999999999999`, 6, `timestamp 99999999999999999999999999 overflows int64 in nanoseconds; check the precision`},
	{`m a=1 18446744073709551617`, 6, `timestamp 18446744073709551617 overflows int64 in nanoseconds; check the precision`},

	// found by SplitSeries
	{`m, a=1`, 2, `tag is missing`},
	{`m,,b=c a=1`, 2, `tag is missing`},
	{`m,=c a=1`, 2, `tag has no name`},
	{`m,b a=1`, 3, `tag "b" has no value`},
	{`m,b,c=d a=1`, 3, `tag "b" has no value`},
	{`m,host= a=1`, 7, `tag "host" has an empty value`},
	{`m,host=,b=c a=1`, 7, `tag "host" has an empty value`},
	{`m,b=c=d a=1`, 5, `value of tag "b" has an equals sign without a backslash`},
	{`m,b=1,b=2 a=1`, 6, `tag "b" appears twice`},
	{`m,c=1,b=2,c=3 a=1`, 10, `tag "c" appears twice`},
	{`m,a\b=1,a\\b=2 a=1`, 8, `tag "a\\b" appears twice`},
	{"m\nn a=1", 1, `series has a line break`},
	{"m,b\n=c a=1", 3, `series has a line break`},
	{"m,b=c\n a=1", 5, `series has a line break`},
	{"m,b=c\\\n a=1", 6, `series has a line break`},
}

// parse parses the line and splits its series.
func parse(p *Parser, line []byte, precision time.Duration, l *Line) error {
	if err := p.Parse(line, precision, l); err != nil {
		return err
	}
	_, err := SplitSeries(l.Series, nil)
	return err
}

func TestErrors(t *testing.T) {
	var p Parser
	var l Line
	for _, c := range bad {
		err := parse(&p, []byte(c.line), time.Nanosecond, &l)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v, want %s", c.line, err, c.reason)
		} else if syntax.Offset != c.offset || syntax.Reason != c.reason {
			t.Errorf("%q:\n got %d %s\nwant %d %s", c.line, syntax.Offset, syntax.Reason, c.offset, c.reason)
		}
	}
	if err := p.Parse([]byte("m a"), 0, &l); err.Error() != `byte 3: field "a" has no value` {
		t.Error(err)
	}
}

func TestSplitSeriesSpace(t *testing.T) {
	if _, err := SplitSeries([]byte("m,a=b c"), nil); err == nil || err.Error() != "byte 5: series has a space without a backslash" {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	var p Parser
	var l Line
	list := func(n int, format string) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, format, i)
		}
		return s.String()
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ fits, reason, over string }{
		{`m a="` + long(MaxLineBytes-6) + `"`, `line has more than 65536 bytes`, `m a="` + long(MaxLineBytes-5) + `"`},
		{`m a="` + long(MaxLineBytes-6) + "\"\r", `line has more than 65536 bytes`, `m a="` + long(MaxLineBytes-5) + "\"\r"},
		{`m a=1` + list(MaxFields-1, ",a%d=1"), `line has more than 1000 fields`, `m a=1` + list(MaxFields, ",a%d=1")},
		{`m` + list(MaxTags, ",a%d=1") + ` a=1`, `series has more than 100 tags`, `m` + list(MaxTags+1, ",a%d=1") + ` a=1`},
		{long(MaxNameBytes-1) + `\  a=1`, `measurement has more than 4096 bytes`, long(MaxNameBytes+1) + ` a=1`},
		{`m,` + long(MaxNameBytes-1) + `\ =b a=1`, `key of a tag has more than 4096 bytes`, `m,` + long(MaxNameBytes+1) + `=b a=1`},
		{`m,a=` + long(MaxNameBytes-1) + `\  a=1`, `value of a tag has more than 4096 bytes`, `m,a=` + long(MaxNameBytes+1) + ` a=1`},
		{`m ` + long(MaxNameBytes-1) + `\ =1`, `field "` + long(60) + `"... has a key of more than 4096 bytes`, `m ` + long(MaxNameBytes+1) + `=1`},
	} {
		if err := parse(&p, []byte(c.fits), 0, &l); err != nil {
			t.Errorf("%.100q, of %d bytes: %v", c.fits, len(c.fits), err)
		}
		err := parse(&p, []byte(c.over), 0, &l)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Reason != c.reason {
			t.Errorf("%.100q, of %d bytes: %v, want %s", c.over, len(c.over), err, c.reason)
		}
	}
}

func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		text      string
		precision time.Duration
		want      int64
		ok        bool
	}{
		{"5", 0, 5, true},
		{"5", time.Nanosecond, 5, true},
		{"5", time.Microsecond, 5_000, true},
		{"-5", time.Millisecond, -5_000_000, true},
		{"1465839830", time.Second, 1465839830_000_000_000, true},
		{"3", time.Hour, int64(3 * time.Hour), true},
		{"9223372036", time.Second, 9223372036_000_000_000, true},
		{"9223372037", time.Second, 0, false},
		{"-9223372037", time.Second, 0, false},
		{"9223372036854775", time.Microsecond, 9223372036854775_000, true},
		{"9223372036854776", time.Microsecond, 0, false},
		{"18446744073709551616", time.Second, 0, false},
		{"18446744074", time.Second, 0, false}, // beyond 64 bits
		{"-4611686018427387904", 2, math.MinInt64, true},
	} {
		var p Parser
		var l Line
		err := p.Parse([]byte("m a=1 "+c.text), c.precision, &l)
		if ok := err == nil; ok != c.ok || ok && (l.Time != c.want || !l.HasTime) {
			t.Errorf("%s × %v: %d, %v", c.text, c.precision, l.Time, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	new(Parser).Parse([]byte("m a=1 1"), -1, new(Line))
}

func TestKindString(t *testing.T) {
	for k, want := range []string{"float", "int", "uint", "bool", "string", "Kind(5)"} {
		if got := Kind(k).String(); got != want {
			t.Errorf("%d: %s, want %s", k, got, want)
		}
	}
}

// TestReuse: nothing of a line is left in the next one.
func TestReuse(t *testing.T) {
	var p Parser
	var l Line
	for _, c := range []struct{ line, want string }{
		{`a,b=c d="\"e\"",f\ g=t 5`, `a{b=c} d=string:"e" f g=bool:1 @5`},
		{`h i=1`, `h{} i=float:1`},
		{`j k\ l="m",n\ o="\\"`, `j{} k l=string:m n o=string:\`},
	} {
		if err := p.Parse([]byte(c.line), 0, &l); err != nil || show(&l) != c.want {
			t.Errorf("%q: %s, %v", c.line, show(&l), err)
		}
		for _, f := range l.Fields {
			if (f.Kind == String) != (f.Text != nil) {
				t.Errorf("%q: field %s has text %q", c.line, f.Key, f.Text)
			}
		}
	}
}
