package skerry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
)

// held is an engine whose updates wait once hold is set.
type held struct {
	engine.Engine
	hold           chan bool // has a token for each update that waits
	entered, leave chan bool
}

func (h *held) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	select {
	case <-h.hold:
		h.entered <- true
		<-h.leave
	default:
	}
	return h.Engine.Update(ctx, fn)
}

// TestFullListenerFast: a write that no handler serves keeps its connection while others come.
func TestFullListenerFast(t *testing.T) {
	t.Parallel()
	h := &held{Engine: openEngine(t), hold: make(chan bool, 3), entered: make(chan bool), leave: make(chan bool)}
	s, _, _ := start(t, h, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Connections: skerry.Connections{HTTP: 3}})
	h.hold <- true
	writing := say(t, s, "PUT /db/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
	<-h.entered
	for range 6 {
		say(t, s, "")
	}
	if got := answer(say(t, s, "GET /db/none HTTP/1.1\r\nHost: localhost\r\n\r\n")); !strings.HasPrefix(got, "404 ") {
		t.Errorf("behind silent connections: %s", got)
	}
	close(h.leave)
	if got := answer(writing); got != "201 " {
		t.Errorf("the write: %q", got)
	}
}
