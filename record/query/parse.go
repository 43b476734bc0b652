package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// members are the members of a query, as parameters of a URL or as JSON.
var members = []string{"filter", "sort", "fields", "expand", "limit", "offset", "after", "count", "deleted", "asof", "group", "aggregate", "explain"}

// Parse reads a query from the parameters of a URL:
//
//	filter     a condition in the language of package expr
//	sort       what ParseOrders reads: -created,+title; with aggregates, groups and aggregates: -sum(total),status
//	fields     names to return: title,created
//	expand     what ParseExpand reads: owner,comments(post)
//	limit      records of a page, at most MaxLimit; with aggregates, groups
//	offset     records to skip, at most MaxOffset
//	after      the cursor of the page before
//	count      true to count the records of all pages
//	deleted    live, trash or all; without it, a filter that names is_deleted decides, and otherwise live
//	asof       a time, or the number of a change of the collection
//	group      what ParseGroup reads: status,month(created)
//	aggregate  what ParseAggregates reads: count,sum(total)
//	explain    true to learn how the records are found
//
// Unknown and repeated parameters are errors. An error is an *Error.
func Parse(params url.Values, s Scope) (*Query, error) {
	p := parser{scope: s, text: map[string]string{}}
	for name, texts := range params {
		if err := p.add(name, texts[0]); err != nil {
			return nil, err
		}
		if len(texts) > 1 {
			return nil, wrap(name, fmt.Errorf("appears %d times", len(texts)))
		}
	}
	if text := p.text["filter"]; strings.TrimSpace(text) != "" {
		x, err := expr.Parse(text)
		if err != nil {
			return nil, wrap("filter", err)
		}
		p.filter = x
	}
	return p.query()
}

// ParseJSON reads a query from a JSON object with the members that Parse has as parameters. The filter is a text or
// what expr.ParseJSON reads, and a list may be an array of texts. Queries of GotRo are valid:
//
//	{"filter": {"is_deleted": false, "created_at": ">2024-01-01"}, "order": ["-col1", "+col2"], "limit": 10, "offset": 5}
//
// GotRo's names of columns mean ours, unless the collection has such a field.
func ParseJSON(text []byte, s Scope) (*Query, error) {
	if len(text) > MaxQueryBytes {
		return nil, wrap("query", fmt.Errorf("too long (%d bytes, limit %d)", len(text), MaxQueryBytes))
	}
	v, err := value.Parse(text)
	if err == nil && (v.Kind() != value.JSON || v.String()[0] != '{') {
		err = fmt.Errorf("must be a JSON object")
	}
	if err != nil {
		return nil, wrap("query", err)
	}
	s.gotro = true
	p := parser{scope: s, text: map[string]string{}}
	m := jsonscan.New(text)
	for m.Open(); m.More('}'); {
		name, _ := m.Text()
		if err := p.addJSON(string(name), m.Raw()); err != nil {
			return nil, err
		}
	}
	return p.query()
}

// parser has the members of a query before they are checked.
type parser struct {
	scope  Scope
	filter expr.Expr
	text   map[string]string // by name, as in a URL
}

func (p *parser) add(name, text string) error {
	if !slices.Contains(members, name) {
		return &Error{Code: CodeInvalid, Member: fmt.Sprintf("%.60q", name), Text: "there is no such parameter" + meant(name, members)}
	}
	if _, ok := p.text[name]; ok {
		return wrap(name, fmt.Errorf("appears twice"))
	}
	p.text[name] = text
	return nil
}

// addJSON adds a member of JSON.
func (p *parser) addJSON(name string, raw []byte) error {
	if name == "order" {
		name = "sort" // as GotRo calls it
	}
	if raw[0] == 'n' {
		return nil
	}
	if name != "filter" {
		text, err := plain(raw)
		if err != nil {
			return wrap(name, err)
		}
		return p.add(name, text)
	}
	if err := p.add(name, ""); err != nil {
		return err
	}
	var err error
	switch raw[0] {
	case '{':
		p.filter, err = expr.ParseJSON(raw)
	case '"':
		var text string
		if text, err = plain(raw); err == nil && strings.TrimSpace(text) != "" {
			p.filter, err = expr.Parse(text)
		}
	default:
		err = fmt.Errorf("must be a string or an object, not %s", jsonscan.Kind(raw[0]))
	}
	return wrap(name, err)
}

// plain returns a JSON value as the parameter of a URL has it.
func plain(raw []byte) (string, error) {
	v, err := value.Parse(raw)
	if err != nil {
		return "", err
	}
	if list, ok := v.Texts(); ok {
		return strings.Join(list, ","), nil
	}
	if v.Kind() == value.JSON {
		return "", fmt.Errorf("must be a value or a list of strings, not %s", jsonscan.Kind(raw[0]))
	}
	return v.String(), nil
}

// query checks the members and makes a Query of them.
func (p *parser) query() (*Query, error) {
	q := &Query{Limit: DefaultLimit}
	s := p.scope
	for _, m := range []struct {
		name string
		read func(text string) error
	}{
		{"filter", func(string) (err error) { q.Where, err = Check(p.filter, s); return err }},
		{"group", func(text string) (err error) { q.Group, err = ParseGroup(text, s); return err }},
		{"aggregate", func(text string) (err error) { q.Aggregates, err = ParseAggregates(text, s); return err }},
		{"aggregate", func(string) error { return q.completeAggregates() }},
		{"sort", func(text string) (err error) { return q.sort(text, s) }},
		{"fields", func(text string) (err error) { q.Fields, err = s.projection(text); return err }},
		{"expand", func(text string) (err error) { q.Expand, err = ParseExpand(text, s); return err }},
		{"limit", func(text string) error { return number(&q.Limit, text, MaxLimit) }},
		{"offset", func(text string) error { return number(&q.Offset, text, MaxOffset) }},
		{"count", func(text string) error { return choice(&q.Count, text, "false", "true") }},
		{"explain", func(text string) error { return choice(&q.Explain, text, "false", "true") }},
		{"asof", func(text string) (err error) { q.AsOf, err = parseAsOf(text); return err }},
		{"deleted", func(text string) error { return p.deleted(q, text) }},
		{"after", func(text string) error { return p.after(q, text) }},
	} {
		if err := m.read(p.text[m.name]); err != nil {
			return nil, wrap(m.name, err)
		}
	}
	return q, p.together(q)
}

// completeAggregates makes a query for groups one for the numbers of their records if it does not say.
func (q *Query) completeAggregates() error {
	if len(q.Group) > 0 && len(q.Aggregates) == 0 {
		q.Aggregates = []Aggregate{{Name: string(CountOf), Op: CountOf}}
	}
	if len(q.Aggregates) > 0 {
		q.Limit = MaxGroups
	}
	return q.distinct()
}

// sort reads what to sort the records or groups by.
func (q *Query) sort(text string, s Scope) (err error) {
	if len(q.Aggregates) > 0 {
		if q.GroupOrders, err = q.groupOrders(text); err != nil {
			return err
		}
		text = ""
	}
	q.Orders, err = ParseOrders(text, s)
	return err
}

// together checks members that do not go together.
func (p *parser) together(q *Query) error {
	if len(q.Aggregates) > 0 {
		for _, name := range []string{"fields", "expand", "offset", "after", "count"} {
			if p.text[name] != "" {
				return wrap(name, fmt.Errorf("cannot be used with group or aggregate, which return no records"))
			}
		}
	}
	if q.After != nil && q.Offset > 0 {
		return wrap("offset", fmt.Errorf("cannot be used with after"))
	}
	return nil
}

func number(n *int, text string, limit int) error {
	if text == "" {
		return nil
	}
	v, err := strconv.Atoi(text)
	switch {
	case err != nil || v < 0:
		return fmt.Errorf("%.60q is not a number from 0 to %d", text, limit)
	case v > limit:
		return fmt.Errorf("%d is more than %d; to go further, pass the cursor of the previous page as after", v, limit)
	}
	*n = v
	return nil
}

// choice sets v to the number of text among the names.
func choice(v *bool, text, no, yes string) error {
	if text != "" && text != no && text != yes {
		return fmt.Errorf("%.60q is neither %s nor %s", text, yes, no)
	}
	*v = text == yes
	return nil
}

// isDeleted is the number of the column.
var isDeleted = func() int {
	all := schema.Columns()
	return slices.IndexFunc(all[:], func(c schema.Column) bool { return c.Name == "is_deleted" })
}()

func (p *parser) deleted(q *Query, text string) error {
	if p.filter != nil {
		q.Filter = expr.String(p.filter)
	}
	if text != "" {
		i := slices.Index(deletedNames, text)
		if i < 0 {
			return fmt.Errorf("%.60q is not one of %s%s", text, strings.Join(deletedNames, ", "), meant(text, deletedNames))
		}
		q.Deleted = Deleted(i)
		return nil
	}
	if q.Where.Mentions(isDeleted) {
		q.Deleted = Both
	}
	for _, b := range q.Where.Bounds(p.scope.Collection) {
		if b.Name == "is_deleted" && b.Op == expr.Equal && len(b.Values) == 1 && b.Values[0].Kind() == value.Bool {
			q.Deleted = Live
			if b.Values[0].Bool() {
				q.Deleted = Trash
			}
		}
	}
	return nil
}

func (p *parser) after(q *Query, text string) (err error) {
	if text != "" {
		q.After, err = q.Orders.ReadCursor(p.scope.Collection, q.listing(), text)
	}
	return err
}

func parseAsOf(text string) (a AsOf, err error) {
	if text == "" {
		return a, nil
	}
	if a.Seq, err = strconv.ParseUint(text, 10, 63); err == nil {
		if a.Seq == 0 {
			err = fmt.Errorf("changes are numbered from 1")
		}
		return a, err
	}
	v, err := value.ParseTime(text)
	if err != nil {
		return a, fmt.Errorf("%w, nor the number of a change", err)
	}
	a.At, _ = v.Time()
	return a, nil
}

// list calls each for the names of a list with commas between them. at is where the name stands.
func list(text string, limit int, each func(name string, at expr.Span) error) error {
	if len(text) > expr.MaxTextBytes {
		return fmt.Errorf("too long (%d bytes, limit %d)", len(text), expr.MaxTextBytes)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	at, n := 0, 0
	for part := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(part)
		from := at + strings.Index(part, name)
		span := expr.Span{Pos: from, End: from + len(name)}
		at += len(part) + 1
		if n++; n > limit {
			return fail(span, "more than %d names", limit)
		}
		if err := each(name, span); err != nil {
			return err
		}
	}
	return nil
}

// projection reads the names of columns and fields.
func (s Scope) projection(text string) (names []string, err error) {
	err = list(text, MaxListed, func(name string, at expr.Span) error {
		t, err := s.path([]string{name}, at, MaxHops)
		if err != nil {
			return err
		}
		if t.source == column {
			name = schema.Columns()[t.index].Name
		}
		if slices.Contains(names, name) {
			return fail(at, "%s appears twice", name)
		}
		names = append(names, name)
		return nil
	})
	return names, err
}
