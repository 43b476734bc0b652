package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

func (a *Admin) addOverview(g *web.Group) {
	g.Get("/overview", a.overview)
	g.Get("/overview/live", a.live)
}

// node is a node as the overview shows it.
type node struct {
	Lead                   bool
	ID                     uint64
	Role, Addr, HTTP, Site string
	Self                   bool
}

// trouble is something that is wrong now, with the remedy.
type trouble struct{ What, Remedy string }

func (a *Admin) overview(c *web.Context) error {
	if a.o.Cluster != nil {
		a.poll.forPage(c)
	}
	samples, _ := a.samples.all()
	var now sample
	if len(samples) > 0 {
		now = samples[len(samples)-1]
	}
	rows, _ := a.nodeRows()
	return a.show(c, http.StatusOK, "overview", web.Locals{
		"title": a.text("Overview"), "now": now, "samples": samples, "started": a.started, "rows": rows, "troubles": a.troubles(now), "dir": a.o.Dir, "removes": false, "places": true,
	})
}

// nodes returns the nodes of the cluster as this one knows them; nil: it runs alone.
func (a *Admin) nodes() []node {
	if a.o.Cluster == nil {
		return nil
	}
	state := a.o.Cluster.State()
	var all []node
	for _, n := range state.Nodes {
		role := a.text("follower")
		switch {
		case n.ID == state.Leader:
			role = a.text("leader")
		case n.Replica:
			role = a.text("replica")
		case !n.Voter:
			role = a.text("learner, catching up")
		}
		all = append(all, node{n.ID == state.Leader, n.ID, role, n.Addr, n.HTTP, n.Site, n.ID == state.Self})
	}
	return all
}

// troubles says what is wrong now, and what to do.
func (a *Admin) troubles(now sample) []trouble {
	var all []trouble
	add := func(what, remedy string) { all = append(all, trouble{what, remedy}) }
	if a.o.Ready != nil {
		if err := a.o.Ready(); err != nil {
			add(a.text("This server does not take requests: %s", err), a.text("Load balancers should send requests elsewhere until this line is gone."))
		}
	}
	if a.o.Cluster != nil {
		a.clusterTroubles(a.o.Cluster.State(), add)
		_, wrong := a.nodeRows()
		all = append(all, wrong...)
	} else {
		a.diskTrouble(add)
	}
	if !a.o.Engine.Promises().Durable {
		add(a.text("This engine does not promise that writes survive a crash."), a.text("See “Engines” in the documentation for the setting that makes it durable."))
	}
	if a.o.Metrics != nil {
		for m := range a.o.Metrics() {
			a.metricTroubles(m, add)
		}
	}
	if now.Errors > 0 {
		add(a.text("%s requests a second fail with a server error.", numberText(now.Errors)), a.text("“Faults and logs” has the newest with their reference codes."))
	}
	return all
}

func (a *Admin) metricTroubles(m engine.Metric, add func(what, remedy string)) {
	if m.Value == 0 {
		return
	}
	switch m.Name {
	case "engine_held_refusing":
		add(a.text("Writes are refused, because old snapshots hold too much memory."), a.text("A long export, backup or subscription keeps them. End it, or give the server more --memory."))
	case "backup_failing":
		add(a.text("Scheduled backups fail."), a.text("“Backups” and the log of the server say why; most often the disk of the backups is full. The server tries again by itself."))
	case "archive_failing":
		add(a.text("Archiving fails."), a.text("The server goes on and tries again at least every 30 s; its log has the cause, most often a full disk."))
	case "engine_snapshot_failing":
		add(a.text("The server cannot write snapshots, so its log grows."), a.text("The log of the server says why; most often the disk is full."))
	}
}

// live streams samples, and in a cluster what is known about the nodes, while the overview is open.
func (a *Admin) live(c *web.Context) error {
	a.samples.watchers.Add(1)
	defer a.samples.watchers.Add(-1)
	if a.o.Cluster != nil {
		defer a.poll.watch()()
	}
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		after, _ := strconv.ParseInt(s.LastID(), 10, 64) // malformed: everything
		var said string
		for {
			_, _, more := a.poll.all()
			if err := a.sendNodes(s, &said); err != nil {
				return err
			}
			all, next := a.samples.all()
			for _, one := range all {
				if one.At <= after {
					continue
				}
				after = one.At
				if err := s.SendJSON(web.Event{ID: strconv.FormatInt(one.At, 10), Name: "sample"}, one); err != nil {
					return err
				}
			}
			select {
			case <-next:
			case <-more:
			case <-s.Context().Done():
				return nil
			}
			if !a.mayWatch(c) {
				return nil
			}
		}
	})
}

// sendNodes sends what is known about the nodes, unless it is what was said before.
func (a *Admin) sendNodes(s *web.Events, said *string) error {
	if a.o.Cluster == nil {
		return nil
	}
	samples, _ := a.samples.all()
	var now sample
	if len(samples) > 0 {
		now = samples[len(samples)-1]
	}
	rows, _ := a.nodeRows()
	text, err := json.Marshal(nodesNow{rows, a.troubles(now)})
	if err != nil || string(text) == *said {
		return err
	}
	*said = string(text)
	return s.SendJSON(web.Event{Name: "nodes"}, json.RawMessage(text))
}
