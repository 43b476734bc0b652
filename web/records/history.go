package records

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// DefaultHistory is the default number of changes in a page of a history.
const DefaultHistory = 20

// parameters returns the parameters of the query string. It allows only the given names, each once.
func parameters(c *web.Context, names ...string) (map[string]string, error) {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return nil, web.WrongParameter("", "the query string is malformed: %v", err)
	}
	all := map[string]string{}
	for _, n := range names {
		if len(query[n]) == 1 {
			all[n] = query[n][0]
			delete(query, n)
		}
	}
	for n, values := range query {
		if len(values) > 1 {
			return nil, web.WrongParameter(n, "appears %d times", len(values))
		}
		return nil, web.WrongParameter(n, "there is no such parameter")
	}
	return all, nil
}

// number returns a parameter that must be above 0, or 0 if it is missing.
func number(params map[string]string, name string) (uint64, error) {
	text, ok := params[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, web.WrongParameter(name, "must be a number above 0")
	}
	return n, nil
}

func (f *Face) history(c *web.Context) error {
	params, err := parameters(c, "before", "limit")
	if err != nil {
		return err
	}
	before, err := number(params, "before")
	if err != nil {
		return err
	}
	limit, err := number(params, "limit")
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = DefaultHistory
	}
	body := []byte{}
	err = f.view(c, func(tx *record.Tx) error {
		all, err := tx.History(name(c), id(c), before, int(min(limit, record.MaxHistory+1)))
		if err != nil {
			return err
		}
		body = append(body[:0], `{"items":[`...)
		for i, ch := range all {
			if i > 0 {
				body = append(body, ',')
			}
			body = ch.AppendJSON(body)
		}
		body = append(body, ']')
		if len(all) > 0 && all[len(all)-1].Rev > 1 {
			body = strconv.AppendUint(append(body, `,"next":`...), all[len(all)-1].Rev, 10)
		}
		body = append(body, '}')
		return nil
	})
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, body)
}

// moment returns the past state that a request asks for, or nil for the present.
func moment(c *web.Context) (*record.Moment, error) {
	params, err := parameters(c, "rev", "asof")
	if err != nil {
		return nil, err
	}
	return momentOf(params)
}

// momentOf is moment for the parameters rev and asof.
func momentOf(params map[string]string) (m *record.Moment, err error) {
	if len(params) == 0 {
		return nil, nil
	}
	m = &record.Moment{}
	if m.Rev, err = number(params, "rev"); err != nil {
		return nil, err
	}
	if text, ok := params["asof"]; ok {
		if m.Seq, err = number(params, "asof"); err != nil {
			if m.At, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, web.WrongParameter("asof", "must be a time (RFC 3339) or the number of a change")
			}
		}
	}
	return m, nil
}

// revert restores the data of an earlier revision.
func (f *Face) revert(c *web.Context) error {
	var in struct {
		To uint64 `json:"to"`
	}
	if err := f.mayUpdate(c); err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	return f.writeOne(c, http.StatusOK, record.Op{Kind: record.Revert, ID: id(c), To: in.To}, strconv.AppendUint(nil, in.To, 10))
}
