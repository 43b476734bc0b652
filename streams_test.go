package skerry_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web"
)

// TestStopDoesNotWaitForStreams: event streams end when the server begins to stop, long before its grace ends,
// and their clients see a proper end.
func TestStopDoesNotWaitForStreams(t *testing.T) {
	t.Parallel()
	o := skerry.Options{RESP: skerry.Off, Admin: skerry.Off, Grace: time.Hour}
	o.Web.Application = silentEvents
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

// silentEvents is an application with a stream that never ends by itself.
func silentEvents(s *skerry.Services) (http.Handler, error) {
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

// door is a cluster whose nodes reach an application through an open listener, so that a test can act as a
// node.
type door struct {
	engine.Cluster
	web net.Listener
}

// Listen implements engine.Cluster.
func (d door) Listen(protocol string) net.Listener {
	if protocol == web.NodeProtocol {
		return d.web
	}
	return d.Cluster.Listen(protocol)
}

// withDoor is an engine in that cluster.
type withDoor struct {
	*embedded.DB
	door door
}

// Cluster implements engine.Clustered.
func (w withDoor) Cluster() engine.Cluster { return w.door }

// TestStopOfANodeForOthers: the same holds for streams that other nodes forward to a node that serves no
// browsers itself.
func TestStopOfANodeForOthers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	db := openNode(t)
	o := skerry.Options{HTTP: skerry.Off, RESP: skerry.Off, Admin: skerry.Off, Grace: time.Hour}
	o.Web.Application = silentEvents
	_, stop, ended := start(t, withDoor{db, door{db.Cluster(), l}}, o)
	resp, err := http.Get("http://" + l.Addr().String() + "/events")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	stop()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
}
