package skerry_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestRecordsInProcedures: procedures of a server find its records.
func TestRecordsInProcedures(t *testing.T) {
	t.Parallel()
	type note struct {
		Text string `json:"text"`
	}
	add := proc.Define("add", func(tx *proc.Tx, in note) (string, error) {
		if tx.Value("another key") != nil {
			t.Error("there is a value for another key")
		}
		records, err := record.From(tx, record.Program())
		if err != nil {
			return "", err
		}
		r, err := records.Create("notes", "first", []byte(`{"text":"`+in.Text+`"}`))
		if err != nil {
			return "", err
		}
		return r.Value("text").String(), nil
	})
	o := application(func(s *skerry.Services) {
		if err := s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}}}); err != nil {
			t.Error(err)
		}
	})
	o.Procedures = []proc.Procedure{add}
	s, _, _ := start(t, openEngine(t), o)
	if code, text := request(t, "POST", s.AdminURL()+"/api/call/add", strings.NewReader(`{"text":"fish"}`)); code != http.StatusOK || !strings.Contains(text, "fish") {
		t.Errorf("add: %d %s", code, text)
	}
	if code, text := request(t, "GET", s.AdminURL()+"/api/notes/first", nil); code != http.StatusOK || !strings.Contains(text, "fish") {
		t.Errorf("the record: %d %s", code, text)
	}

	alone, err := proc.New(openEngine(t), proc.Options{}, add)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := add.Call(t.Context(), alone, note{}); err == nil || !strings.Contains(err.Error(), "record.Key") {
		t.Errorf("without records: %v", err)
	}
}

// TestMigrationInDebugMode: a program that is being developed finds its new fields in the store. In production only
// `migrate` changes what is stored.
func TestMigrationInDebugMode(t *testing.T) {
	t.Parallel()
	for _, debug := range []bool{true, false} {
		eng := openEngine(t)
		fields := []schema.Field{{Name: "text", Type: schema.Text}}
		for round := range 2 {
			o := application(func(s *skerry.Services) {
				if err := s.Records.Define(schema.Collection{Name: "notes", Fields: fields}); err != nil {
					t.Error(err)
				}
			})
			o.Web.Debug = debug
			s, stop, ended := start(t, eng, o)
			path := s.AdminURL() + "/api/notes"
			if round == 0 {
				if code, text := request(t, "POST", path, strings.NewReader(`{"id":"a","data":{"text":"fish"}}`)); code != http.StatusCreated {
					t.Errorf("create: %d %s", code, text)
				}
			} else if debug {
				eventually.True(t, "the new field is stored", func() bool {
					code, _ := request(t, "PATCH", path+"/a", strings.NewReader(`{"data":{"likes":3}}`))
					return code == http.StatusOK
				})
			} else if code, text := request(t, "PATCH", path+"/a", strings.NewReader(`{"data":{"likes":3}}`)); code != http.StatusUnprocessableEntity {
				t.Errorf("a field that was not migrated: %d %s", code, text)
			}
			stop()
			<-ended
			fields = append(fields, schema.Field{Name: "likes", Type: schema.Int})
		}
	}
}

// tailed is an engine that knows the context of the server's feed, the only one that calls SkimChanges.
type tailed struct {
	engine.Engine
	once sync.Once
	ctx  chan context.Context
}

func (e *tailed) SkimChanges(ctx context.Context, after engine.Position, _ func() bool) iter.Seq2[engine.Change, error] {
	e.once.Do(func() { e.ctx <- ctx })
	return e.Engine.Changes(ctx, after)
}

// TestRecordsEndBeforeFeed: a server that stops ends the feed when nothing reads it any more. Otherwise records may see that
// it is closed before they see that they are to end.
func TestRecordsEndBeforeFeed(t *testing.T) {
	t.Parallel()
	eng := &tailed{Engine: openEngine(t), ctx: make(chan context.Context, 1)}
	called, looked := make(chan struct{}), make(chan error, 1)
	o := application(func(s *skerry.Services) {
		if err := s.Records.Define(schema.Collection{Name: "notes"}); err != nil {
			t.Error(err)
		}
		if err := s.Records.After("look", "notes", func(ctx context.Context, _ *record.Committed) error {
			feed := <-eng.ctx
			close(called)
			<-ctx.Done() // of the work of records
			looked <- feed.Err()
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	s, stop, ended := start(t, eng, o)
	if code, text := request(t, "POST", s.AdminURL()+"/api/notes", strings.NewReader(`{"data":{}}`)); code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, text)
	}
	<-called
	stop()
	if err := <-looked; err != nil {
		t.Errorf("when records end the feed has ended: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
