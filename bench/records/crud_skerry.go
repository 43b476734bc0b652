package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
)

// localStore is Skerry's records in this process.
func localStore() *crudStore {
	return &crudStore{name: "skerry", times: map[int64]*crudTimes{}, open: func(dir string) (func() (crudSession, error), func() (int64, int64, error), func() error, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, nil, err
		}
		eng, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, nil, nil, err
		}
		db, err := record.Open(eng, record.Options{})
		if err == nil {
			err = db.Define(item.Describe())
		}
		session := func() (crudSession, error) { return localSession{db}, nil }
		count := func() (int64, int64, error) {
			r, err := item.Count(context.Background(), eng)
			return r.Records, r.Changes, err
		}
		return session, count, eng.Close, err
	}}
}

type localSession struct{ db *record.DB }

func (s localSession) insert(n int64) error {
	_, err := s.db.Update(context.Background(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create(item.Collection, string(item.AppendID(nil, n)), crudData(n))
		return err
	})
	return err
}

func (s localSession) update(n int64) error {
	_, err := s.db.Update(context.Background(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Update(item.Collection, string(item.AppendID(nil, n)), crudChange(n), 0)
		return err
	})
	return err
}

func (s localSession) close() error { return nil }

// scan reads pages of at most query.MaxLimit records.
func (s localSession) scan(from int64, up bool, limit int, row func(id int64) error) error {
	after := ""
	for limit > 0 {
		var page *record.Page
		if _, err := s.db.View(context.Background(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
			q, err := tx.ParseQuery(item.Collection, crudQuery(from, up, min(limit, query.MaxLimit), after))
			if err != nil {
				return err
			}
			if page, err = tx.Find(item.Collection, q); err != nil {
				return err
			}
			for _, r := range page.Items {
				n, ok := r.Value("number").Int()
				if !ok || r.Value("title").IsNull() {
					return fmt.Errorf("a record without its fields: %s", r.AppendJSON(nil))
				}
				if err := row(n); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if limit, after = limit-len(page.Items), page.Next; after == "" {
			break
		}
	}
	return nil
}

// crudQuery is a page of a scan.
func crudQuery(from int64, up bool, limit int, after string) url.Values {
	op, sort := "<=", "-id"
	if up {
		op, sort = ">=", "id"
	}
	q := url.Values{"filter": {fmt.Sprintf("id %s %q", op, item.AppendID(nil, from))}, "sort": {sort}, "limit": {strconv.Itoa(limit)}}
	if after != "" {
		q.Set("after", after)
	}
	return q
}

// restStore is Skerry's records over HTTP.
func restStore(s *system) *crudStore {
	return &crudStore{name: "skerry-rest", times: map[int64]*crudTimes{}, open: func(dir string) (func() (crudSession, error), func() (int64, int64, error), func() error, error) {
		session := func() (crudSession, error) {
			c, err := dial(s.addr)
			return restSession{c, &s.dialect}, err
		}
		count := func() (int64, int64, error) {
			var r item.Report
			err := s.ask("GET", "/report", &r)
			return r.Records, r.Changes, err
		}
		return session, count, s.stop, s.start(filepath.Base(dir), 0)
	}}
}

type restSession struct {
	*client
	d *dialect
}

func (s restSession) do(want int) ([]byte, error) {
	status, body, err := s.send(time.Now())
	if err == nil && status != want {
		err = fmt.Errorf("status %d instead of %d: %q", status, want, body)
	}
	return body, err
}

func (s restSession) insert(n int64) error {
	s.requestJSON("POST", s.d.records, fmt.Appendf(nil, `{"id":%q,"data":%s}`, item.AppendID(nil, n), crudData(n)))
	_, err := s.do(s.d.created)
	return err
}

func (s restSession) update(n int64) error {
	s.requestJSON("PATCH", s.d.records+"/"+string(item.AppendID(nil, n)), s.d.wrap(crudChange(n)))
	_, err := s.do(200)
	return err
}

func (s restSession) scan(from int64, up bool, limit int, row func(id int64) error) error {
	after := ""
	for limit > 0 {
		s.request("GET", s.d.records+"?"+crudQuery(from, up, min(limit, query.MaxLimit), after).Encode())
		body, err := s.do(200)
		if err != nil {
			return err
		}
		for rest := body; limit > 0; limit-- {
			var text string
			if text, rest = member(rest, number); text == "" {
				break
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			if err := row(n); err != nil {
				return err
			}
		}
		next, _ := member(body, []byte(`"next":`))
		if after = strings.Trim(next, `"`); after == "" || after == "null" {
			break
		}
	}
	return nil
}

func (s restSession) close() error { return s.conn.Close() }
