package skerry

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/transfer"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/transfers"
)

// Need is what one capability requires of an engine.
type Need struct {
	Name string
	engine.Promises
}

// Needs lists what capabilities require of an engine. Open refuses an engine that cannot carry what it opens.
func Needs() []Need {
	return []Need{
		{"plain keys by key", kv.NeedsPlain()},
		{"plain keys", kv.Needs()},
		{"anonymous sessions", session.NeedsPlain()},
		{"sessions of users", session.Needs()},
		{"users", kv.Needs()},
		{"procedures", kv.Needs()},
		{"records", keys.Needs()},
		{"time series", series.Needs()},
		{"change feed", engine.Promises{Feed: true}},
	}
}

// openTransfers serves the data to `skerry move`, and refuses an engine whose data is not complete.
func (s *Server) openTransfers() (c capability, err error) {
	if s.cluster == nil {
		if _, err := s.eng.View(context.Background(), engine.Read{}, unfinished); err != nil {
			return c, err
		}
	}
	f := transfers.New(s.eng)
	const read = "GET"
	return capability{name: "moves", routes: []api.Route{
		{Methods: read, Path: transfers.AboutPath, Handle: f.About, Text: "the source of `skerry move`; the routes below it are for that program"},
		{Methods: read, Path: transfers.RangePath, Handle: f.Range},
		{Methods: read, Path: transfers.SumPath, Handle: f.Sum},
		{Methods: read, Path: transfers.ChangesPath, Handle: f.Changes},
		{Methods: "POST", Path: transfers.MarkPath, Handle: f.Mark},
	}}, nil
}

// unfinished returns an error if a move into the engine is not complete.
func unfinished(tx engine.Tx) error {
	from, is, err := transfer.State(tx)
	if err == nil && is {
		err = engine.Errorf(engine.CodeFenced, "the engine has a part of the data of %s: `skerry move` has not finished", from)
	}
	return err
}
