package skerry_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/web"
)

// TestStopDoesNotWaitForStreams: streams of events end when the server begins to stop,
// long before its grace does, and their clients see a proper end.
func TestStopDoesNotWaitForStreams(t *testing.T) {
	t.Parallel()
	o := skerry.Options{RESP: skerry.Off, Admin: skerry.Off, Grace: time.Hour}
	o.Web.Application = func(s *skerry.Services) (http.Handler, error) {
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		app.Get("/events", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(s *web.Events) error {
				<-s.Context().Done()
				return nil
			})
		})
		return app, nil
	}
	s, stop, ended := start(t, openEngine(t), o)
	resp, err := http.Get(s.HTTPURL() + "/events")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	stop()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the client's stream broke: %v", err)
	}
}
