package skerry_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/web"
)

// The program that docs/background.md shows.

func shop(s *skerry.Services) (http.Handler, error) {
	s.OnStart(warmCaches)                       // before the first request; an error ends the program
	s.OnStop(closeConnections)                  // after the last request, while the engine is still open
	s.Background("refresh prices", refresh)     // on every node
	s.OnLeader("send reminders", sendReminders) // on the leader only
	return web.New(s.Web)
}

func sendReminders(ctx context.Context) error {
	for {
		reminder, err := claimReminder(ctx) // one transaction: only the node that leads can commit it
		if err != nil {
			return err // not_leader, too: the next leader goes on
		}
		if err := send(ctx, reminder); err != nil {
			return err
		}
	}
}

func warmCaches(context.Context) error       { return nil }
func closeConnections(context.Context) error { return nil }
func refresh(context.Context) error          { return nil }
func send(context.Context, string) error     { return nil }

func claimReminder(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// TestBackgroundGuide: the code in docs/background.md is in this file, and runs.
func TestBackgroundGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("docs/background.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("background_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) != 2 {
		t.Errorf("found %d snippets", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(code), b[1]) {
			t.Errorf("docs/background.md has code that is not in background_test.go:\n%s", b[1])
		}
	}
	o := application(func(*skerry.Services) {})
	o.Web.Application = shop
	_, cancel, ended := start(t, openEngine(t), o)
	cancel()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}
