package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestFactsOfOthers: of nodes that are not watched, what a watched one knows is shown; what nobody knows is a dash.
func TestFactsOfOthers(t *testing.T) {
	t.Parallel()
	f := &fake{metrics: numbers(1, 0, 1, 5, "skerry_cluster_nodes 3\nskerry_cluster_connected_nodes 2\n"), cluster: strings.Replace(three, "%d", "1", 1)}
	nodes := `{"nodes":[{"id":1,"resident_bytes":1},` +
		`{"id":2,"answered":"2026-11-30T12:00:00Z","resident_bytes":3145728,"data_folder_bytes":5242880,"disk_bytes":1000,"disk_free_bytes":99,"certificate_expires":"2026-12-20T00:00:00Z"},` +
		`{"id":3,"answered":"2026-11-30T11:59:00Z","silent_since":"2026-11-30T11:59:02Z","error":"no answer\u001b[2J"},{"id":9,"resident_bytes":7}]}`
	for _, c := range []struct {
		answer string
		err    error
		want   []string
	}{
		{nodes, nil, []string{"3MiB", "5MiB", "99B of 1000B of its disk are free", "its certificate expires on 2026-12-20", "does not answer since 11:59:02: no answer"}},
		{`{"nodes":7}`, nil, []string{"n2:7002"}},
		{"", errors.New("404"), []string{"n2:7002"}},
	} {
		o := Options{Every: 2 * time.Second, Now: func() time.Time { return start }, Sources: []Source{{Name: "http://host1:7201", Fetch: func(ctx context.Context, path string) ([]byte, error) {
			if path == "/nodes" {
				return []byte(c.answer), c.err
			}
			return f.fetch(ctx, path)
		}}}}
		r := &rig{newMonitor(o), start}
		if err := r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		screen := r.screen(200, 40)
		for _, want := range c.want {
			if !strings.Contains(screen, want) {
				t.Errorf("the screen lacks %q:\n%s", want, screen)
			}
		}
		if strings.Contains(screen, "\x1b") {
			t.Errorf("what a node reports reaches the terminal: %q", screen)
		}
	}
}
