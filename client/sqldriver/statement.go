package sqldriver

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Limits of a statement.
const (
	// MaxStatementBytes is the longest statement. Pass larger values as arguments.
	MaxStatementBytes = 1 << 20
	// MaxArguments is the maximum number of arguments of one call.
	MaxArguments = 1024
)

// SyntaxError describes an error in a statement and its position.
type SyntaxError struct {
	Line   int    // from 1
	Column int    // from 1, in characters
	Text   string // what is wrong
}

// Error returns the text with its position.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("skerry: line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// statement is a parsed statement. Only schema changes after parsing.
type statement struct {
	name     string    // of the procedure
	readOnly bool      // SELECT: the procedure must only read
	open     bool      // no parentheses: the arguments are all values that the caller provides
	args     []operand // in order
	inputs   int       // number of values that the caller provides; -1: any number
	names    []string  // of the values, if placeholders are :name or @name
	simple   bool      // every argument is a placeholder, by position, in order
	none     uncounted // its driver.Result if the reply has no count

	schema atomic.Pointer[schema] // of the procedure; shared by all statements that call it
}

// operand is one argument of a statement.
type operand struct {
	name  string       // "": by position
	input int          // index of the caller's value; -1: value
	value driver.Value // a literal: nil, bool, string, []byte or number
}

// number is a numeric literal in JSON syntax.
type number string

// parser parses one statement.
type parser struct {
	text  string
	at    int
	style byte // of placeholders: 0 none yet, or one of ? $ :
	used  []bool
	st    *statement
}

// parse parses a statement. docs/sql.md has the grammar.
func parse(text string) (*statement, error) {
	if len(text) > MaxStatementBytes {
		return nil, fmt.Errorf("skerry: the statement has %d bytes, over the limit of %d", len(text), MaxStatementBytes)
	}
	p := &parser{text: text, st: new(statement)}
	if err := p.statement(); err != nil {
		return nil, err
	}
	if err := p.inputs(p.st); err != nil {
		return nil, err
	}
	p.st.none.name = p.st.name
	return p.st, nil
}

// inputs determines how many values the caller must provide.
func (p *parser) inputs(st *statement) error {
	st.inputs = len(p.used)
	if st.open {
		st.inputs = -1
	}
	for i, used := range p.used {
		if !used {
			return p.failAt(len(p.text), "$%d is missing: placeholders are numbered from $1 without gaps", i+1)
		}
	}
	st.simple = !st.open && st.names == nil
	for i, a := range st.args {
		if a.name != "" || a.input != i {
			st.simple = false
		}
	}
	return nil
}

func (p *parser) statement() error {
	if err := p.space(); err != nil {
		return err
	}
	start := p.at
	braces := p.take("{")
	if err := p.space(); err != nil {
		return err
	}
	if braces && p.peek() == '?' {
		return p.fail("{? = CALL …} is not supported: a procedure returns its results as rows")
	}
	begin := p.at
	word := p.word()
	switch strings.ToUpper(word) {
	case "CALL":
		p.st.open = true
	case "SELECT":
		p.st.readOnly = true
		if err := p.star(); err != nil {
			return err
		}
	default:
		p.at = begin
		return p.unknown(word, start)
	}
	if err := p.call(); err != nil {
		return err
	}
	return p.end(braces, start)
}

// star parses * FROM.
func (p *parser) star() error {
	if err := p.space(); err != nil {
		return err
	}
	if !p.take("*") {
		return p.fail("only SELECT * FROM procedure(…) is supported: there are no tables, expressions or lists of columns")
	}
	if err := p.space(); err != nil {
		return err
	}
	at := p.at
	if !strings.EqualFold(p.word(), "FROM") {
		p.at = at
		return p.fail("FROM procedure(…) is expected")
	}
	return nil
}

// unknown returns a helpful error for other common statements.
func (p *parser) unknown(word string, start int) error {
	switch strings.ToUpper(word) {
	case "":
		if p.at >= len(p.text) && p.at == start {
			return p.fail("the statement is empty")
		}
		return p.fail("CALL procedure(…) is expected")
	case "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "SET":
		return p.fail("%s is not supported: a procedure is the transaction; put what must happen together into one", strings.ToUpper(word))
	}
	return p.fail("%s is not supported: statements are CALL procedure(…), and SELECT * FROM procedure(…) for those that only read", clip(word))
}

// call parses the name of a procedure and its arguments.
func (p *parser) call() error {
	if err := p.space(); err != nil {
		return err
	}
	name, err := p.identifier()
	if err != nil {
		return err
	}
	if name == "" {
		return p.fail("the name of a procedure is expected")
	}
	p.st.name = name
	if err := p.space(); err != nil {
		return err
	}
	if !p.take("(") {
		if p.st.readOnly {
			return p.fail("( is expected after the name of a procedure; there are no tables")
		}
		return nil
	}
	p.st.open = false
	return p.arguments()
}

// arguments parses the arguments and the closing parenthesis.
func (p *parser) arguments() error {
	if err := p.space(); err != nil {
		return err
	}
	if p.take(")") {
		return nil
	}
	for {
		if len(p.st.args) == MaxArguments {
			return p.fail("more than %d arguments", MaxArguments)
		}
		if err := p.argument(); err != nil {
			return err
		}
		if err := p.space(); err != nil {
			return err
		}
		if p.take(")") {
			return nil
		}
		if !p.take(",") {
			return p.fail(", or ) is expected after an argument")
		}
		if err := p.space(); err != nil {
			return err
		}
	}
}

// argument parses value or name => value.
func (p *parser) argument() error {
	at := p.at
	name, err := p.identifier()
	if err != nil {
		return err
	}
	if name != "" {
		if err := p.space(); err != nil {
			return err
		}
		if p.take("=>") {
			return p.named(at, name)
		}
		p.at = at
	}
	if n := len(p.st.args); n > 0 && p.st.args[n-1].name != "" {
		return p.fail("an argument by position follows one by name")
	}
	return p.value("")
}

func (p *parser) named(at int, name string) error {
	for _, a := range p.st.args {
		if a.name == name {
			return p.failAt(at, "the argument %s is given twice", clip(name))
		}
	}
	if err := p.space(); err != nil {
		return err
	}
	return p.value(name)
}

// value parses a placeholder or a literal.
func (p *parser) value(name string) (err error) {
	a := operand{name: name, input: -1}
	switch c := p.peek(); {
	case c == '?' || c == '$' || c == ':' || c == '@':
		a.input, err = p.placeholder(c)
	case c == '\'':
		a.value, err = p.quoted('\'')
	case c == '"' || c == '`':
		return p.fail("text is written in single quotes; %c is for names", c)
	case c == '-' || c == '+' || c >= '0' && c <= '9' || c == '.':
		a.value, err = p.number()
	default:
		a.value, err = p.keyword()
	}
	if err == nil {
		p.st.args = append(p.st.args, a)
	}
	return err
}

// keyword parses NULL, TRUE, FALSE or X'00ff'.
func (p *parser) keyword() (driver.Value, error) {
	at := p.at
	word := p.word()
	switch strings.ToUpper(word) {
	case "NULL":
		return nil, nil
	case "TRUE":
		return true, nil
	case "FALSE":
		return false, nil
	case "X":
		if p.peek() == '\'' {
			return p.hex(at)
		}
	case "":
		if p.at >= len(p.text) {
			return nil, p.fail("a value is expected, but the statement ends here")
		}
		return nil, p.fail("a value is expected, not %q", clip(p.text[p.at:]))
	}
	p.at = at
	return nil, p.fail("%s is not a value: text is written in single quotes, an argument by name is %s => value", clip(word), clip(word))
}

// placeholder parses ?, $1, :name or @name and returns the index of the value.
func (p *parser) placeholder(c byte) (int, error) {
	at := p.at
	style := c
	if c == '@' {
		style = ':'
	}
	if p.style != 0 && p.style != style {
		return 0, p.fail("placeholders of two kinds in one statement: use only one of ?, $1 and :name")
	}
	p.style = style
	p.at++
	switch style {
	case '?':
		p.used = append(p.used, true)
		return len(p.used) - 1, nil
	case '$':
		n := p.digits()
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > MaxArguments || n[0] == '0' {
			return 0, p.failAt(at, "a placeholder is $1 to $%d", MaxArguments)
		}
		for len(p.used) < i {
			p.used = append(p.used, false)
		}
		p.used[i-1] = true
		return i - 1, nil
	}
	name := p.word()
	if name == "" {
		return 0, p.failAt(at, "a name is expected after %c", c)
	}
	for i, n := range p.st.names {
		if n == name {
			return i, nil
		}
	}
	p.st.names = append(p.st.names, name)
	p.used = append(p.used, true)
	return len(p.used) - 1, nil
}

// end parses what may follow the call.
func (p *parser) end(braces bool, start int) error {
	if err := p.space(); err != nil {
		return err
	}
	if braces && !p.take("}") {
		return p.fail("} is expected: { of line %d is not closed", p.place(start).Line)
	}
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.take(";") {
			continue
		}
		if p.at < len(p.text) {
			return p.fail("the statement ends before %q: one statement at a time, and nothing like WHERE or AS", clip(p.text[p.at:]))
		}
		return nil
	}
}

// fail returns an error at the current position.
func (p *parser) fail(format string, args ...any) error { return p.failAt(p.at, format, args...) }

func (p *parser) failAt(at int, format string, args ...any) error {
	e := p.place(at)
	e.Text = fmt.Sprintf(format, args...)
	return e
}

// place converts an offset to line and column.
func (p *parser) place(at int) *SyntaxError {
	before := p.text[:min(at, len(p.text))]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{Line: 1 + strings.Count(before, "\n"), Column: 1 + utf8.RuneCountInString(before[line:])}
}

// clip shortens the part of a statement that an error repeats.
func clip(s string) string {
	const most = 24
	if len(s) <= most {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
