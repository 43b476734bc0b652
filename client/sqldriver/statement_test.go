package sqldriver

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// render formats a statement so that two of them can be compared.
func render(st *statement) string {
	var b strings.Builder
	word := "CALL "
	if st.readOnly {
		word = "SELECT * FROM "
	}
	fmt.Fprintf(&b, `%s"%s"`, word, strings.ReplaceAll(st.name, `"`, `""`))
	if st.open {
		return b.String()
	}
	b.WriteByte('(')
	for i, a := range st.args {
		if i > 0 {
			b.WriteString(", ")
		}
		if a.name != "" {
			fmt.Fprintf(&b, `"%s" => `, strings.ReplaceAll(a.name, `"`, `""`))
		}
		switch v := a.value.(type) {
		case nil:
			switch {
			case a.input < 0:
				b.WriteString("NULL")
			case st.names != nil:
				b.WriteString(":" + st.names[a.input])
			default:
				fmt.Fprintf(&b, "$%d", a.input+1)
			}
		case bool:
			fmt.Fprintf(&b, "%t", v)
		case number:
			b.WriteString(string(v))
		case string:
			fmt.Fprintf(&b, "'%s'", strings.ReplaceAll(v, "'", "''"))
		case []byte:
			fmt.Fprintf(&b, "X'%x'", v)
		default:
			panic(fmt.Sprintf("a literal of type %T", v))
		}
	}
	return b.String() + ")"
}

// TestStatements runs testdata/statements.txt: a statement, then ---- and its parsed form
// or the error, then an empty line. -rewrite updates it.
func TestStatements(t *testing.T) {
	t.Parallel()
	const file = "testdata/statements.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cases := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n\n")
	for i, c := range cases {
		text, want, found := strings.Cut(c, "\n----\n")
		if !found {
			t.Fatalf("case %d has no ----:\n%s", i, c)
		}
		st, err := parse(text)
		var got string
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = fmt.Sprintf("%s\n%d values", render(st), st.inputs)
		}
		if got != want && !*rewrite {
			t.Errorf("%s\n is: %s\nnot: %s", text, got, want)
		}
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(text + "\n----\n" + got + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStatementLimits(t *testing.T) {
	t.Parallel()
	fits := "CALL f('" + strings.Repeat("x", MaxStatementBytes-len("CALL f('')")) + "')"
	if _, err := parse(fits); err != nil {
		t.Errorf("a statement of %d bytes: %v", len(fits), err)
	}
	if _, err := parse(fits + ";"); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a statement of %d bytes: %v", len(fits)+1, err)
	}
	many := "CALL f(" + strings.Repeat("?,", MaxArguments-1) + "?"
	if st, err := parse(many + ")"); err != nil || st.inputs != MaxArguments {
		t.Errorf("%d arguments: %v", MaxArguments, err)
	}
	var syntax *SyntaxError
	if _, err := parse(many + ",?)"); !errors.As(err, &syntax) || !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("%d arguments: %v", MaxArguments+1, err)
	}
}

// TestStatementPlace checks that positions are in characters, and that lines are counted.
func TestStatementPlace(t *testing.T) {
	t.Parallel()
	_, err := parse("-- hé\nCALL föö(\n  'é', oops)")
	var syntax *SyntaxError
	if !errors.As(err, &syntax) || syntax.Line != 3 || syntax.Column != 8 {
		t.Errorf("%v", err)
	}
}

func TestStatementCache(t *testing.T) {
	t.Parallel()
	var c statements
	first, err := c.get("CALL f(?)")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * MaxCachedStatements {
		if _, err := c.get(fmt.Sprintf("CALL f(%d)", i)); err != nil {
			t.Fatal(err)
		}
		if again, err := c.get("CALL f(?)"); err != nil || again != first {
			t.Fatalf("a statement that is used all the time was forgotten after %d others (%v)", i, err)
		}
		if n := c.size(); n > MaxCachedStatements {
			t.Fatalf("%d statements are kept, over the limit of %d", n, MaxCachedStatements)
		}
	}
	long := "CALL f('" + strings.Repeat("x", MaxCachedBytes) + "')"
	before := c.size()
	if _, err := c.get(long); err != nil || c.size() != before {
		t.Errorf("a statement over MaxCachedBytes is kept (%v)", err)
	}
	if _, err := c.get("CALL"); err == nil || c.size() != before {
		t.Errorf("a wrong statement is kept (%v)", err)
	}
}

func FuzzStatement(f *testing.F) {
	for _, text := range []string{
		"CALL f(?, ?, 5, 'text', NULL, TRUE)", "{call f($2, $1)};;", "SELECT * FROM \"a b\"(:x, @y, :x)",
		"CALL f(a => ?, \"b\" => X'00ff') -- end", "/* c */ CALL f", "CALL f(-1.5e+3, +0)", "CALL f('it''s')", "CALL f($1, $3)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, err := parse(text)
		if err != nil {
			var syntax *SyntaxError
			if errors.As(err, &syntax) && (syntax.Line < 1 || syntax.Column < 1 || syntax.Line > 1+strings.Count(text, "\n") || syntax.Column > 1+len(text)) {
				t.Fatalf("%q: a place outside of it: %v", text, err)
			}
			return
		}
		again, err := parse(render(st))
		if err != nil {
			t.Fatalf("%q: written as %q: %v", text, render(st), err)
		}
		again.simple, again.names = st.simple, slices.Clone(again.names)
		if !reflect.DeepEqual(again, st) {
			t.Fatalf("%q: written as %q it is another: %#v, %#v", text, render(st), again, st)
		}
	})
}
