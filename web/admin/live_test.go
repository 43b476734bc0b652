package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/series"
)

// hostileLive is text that must stay text wherever it is shown.
const hostileLive = "<script>alert(1)</script>\"'&\u202e\n"

// startLive runs a server whose application has a collection of notes, and returns its services too.
func startLive(t *testing.T, o skerry.Options) (*world, *skerry.Services) {
	t.Helper()
	var services *skerry.Services
	o.Web.Application = func(s *skerry.Services) (http.Handler, error) {
		services = s
		return http.NotFoundHandler(), s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}}})
	}
	w := start(t, o)
	return w, services
}

func setLiveKey(t *testing.T, s *skerry.Services, space uint8, key, val string) {
	t.Helper()
	if _, _, err := s.KV.Set(t.Context(), space, []byte(key), []byte(val), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
}

func addLiveNote(t *testing.T, s *skerry.Services, who, id string) {
	t.Helper()
	if _, err := s.Records.Update(t.Context(), record.Actor{ID: who, System: true}, func(tx *record.Tx) error {
		_, err := tx.Create("notes", id, []byte(`{"text":"fish"}`))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// addLiveSamples adds an hour of samples of n series, and one whose label is hostile.
func addLiveSamples(t *testing.T, s *skerry.Services, collection string, n int) {
	t.Helper()
	st, err := s.Series.Collection(collection)
	if err != nil {
		t.Fatal(err)
	}
	var labels []series.Labels
	for i := range n {
		l, err := series.NewLabels("temperature", series.Label{Name: "room", Value: string(rune('a' + i))})
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, l)
	}
	l, err := series.NewLabels("odd", series.Label{Name: "room", Value: hostileLive})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := st.Define(t.Context(), append(labels, l))
	if err != nil {
		t.Fatal(err)
	}
	var b series.Batch
	for i, id := range ids {
		for m := range 180 {
			b.Add(id, time.Now().Add(-time.Duration(m)*20*time.Second).UnixNano(), float64(20+i)+float64(m%7)/3)
		}
	}
	if _, err := st.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

// addLiveGraph adds anna, who knows n others, of whom the first has a hostile name, and each the next.
func addLiveGraph(t *testing.T, s *skerry.Services, n int) {
	t.Helper()
	if _, err := s.Graphs.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
		anna, err := tx.AddVertex([]string{"person"}, "anna")
		if err != nil {
			return err
		}
		if _, err := anna.Set(graph.Single, "name", "Anna"); err != nil {
			return err
		}
		var before *graph.Vertex
		for i := range n {
			v, err := tx.AddVertex([]string{"person"}, nil)
			if err != nil {
				return err
			}
			name := hostileLive
			if i > 0 {
				name = "Person " + string(rune('A'+i%26))
			}
			if _, err := v.Set(graph.Single, "name", name); err != nil {
				return err
			}
			if _, err := tx.AddEdge("knows", anna, v, nil); err != nil {
				return err
			}
			if before != nil {
				if _, err := tx.AddEdge("met", before, v, nil); err != nil {
					return err
				}
			}
			before = v
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// liveViewer returns the browser of an administrator who may only look.
func (w *world) liveViewer() *client {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.URL+"/administrators", strings.NewReader(`{"email":"viewer@example.org","role":"viewer"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var made struct{ Path string }
	if err := json.Unmarshal(b, &made); err != nil || made.Path == "" {
		w.t.Fatalf("%s: %v", b, err)
	}
	c := w.client()
	c.setUp(made.Path, "viewer@example.org")
	return c
}
