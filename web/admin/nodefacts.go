package admin

import (
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// factsPath is where a node reports about itself to the others. It is outside Prefix, so that no client's request can be for it. On
// the wire: do not change.
const factsPath = "/node/facts"

// Limits of what a node reports.
const (
	maxFactsBytes = 16 << 10 // of the response
	maxFactText   = 200      // bytes of one text
	maxFormats    = 16
	maxPeers      = 64

	folderEvery    = 10 * time.Second // how old the size of the data folder may be
	maxFolderFiles = 20_000           // that are counted for it
)

// nodeFacts is what a node reports about itself. On the wire: add fields, do not rename any. What is unknown is zero.
type nodeFacts struct {
	Node    uint64    `json:"node"`
	Build   string    `json:"build"`   // of the program
	Up      float64   `json:"up"`      // seconds since the server started
	Memory  float64   `json:"memory"`  // resident bytes
	Data    int64     `json:"data"`    // bytes of the files in the data folder
	Free    uint64    `json:"free"`    // bytes of the data folder's file system that the server may use
	Size    uint64    `json:"size"`    // bytes of that file system
	Expires time.Time `json:"expires"` // of the node's certificate
	Invites bool      `json:"invites"` // it can issue invitations
	Commit  uint64    `json:"commit"`  // committed log entries

	Formats []formatFact `json:"formats,omitempty"`
	Peers   []peerFact   `json:"peers,omitempty"`
}

type formatFact struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// peerFact is what a node knows about another one.
type peerFact struct {
	Node      uint64 `json:"node"`
	Build     string `json:"build,omitempty"`
	Connected bool   `json:"connected"`
	Behind    uint64 `json:"behind"` // log entries; only a leader knows
	Error     string `json:"error,omitempty"`
}

// facts returns what this node knows about itself.
func (a *Admin) facts() nodeFacts {
	f := nodeFacts{Build: a.o.Build, Up: a.o.Now().Sub(a.started).Seconds()}
	_, f.Memory = process("/proc/self/stat")
	if a.o.Dir != "" {
		f.Data = a.folder.bytes(a.o.Dir, a.o.Now())
		f.Free, f.Size = diskSpace(a.o.Dir)
	}
	if a.o.Cluster != nil {
		f.Node = a.o.Cluster.State().Self
	}
	if r, ok := a.o.Engine.(engine.NodeReporter); ok {
		rep := r.Report()
		f.Expires, f.Invites, f.Commit = rep.Expires, rep.Invites, rep.Commit
		for _, one := range rep.Formats {
			f.Formats = append(f.Formats, formatFact(one))
		}
		for _, p := range rep.Peers {
			f.Peers = append(f.Peers, peerFact{p.ID, p.Version, p.Connected, p.Behind, p.Error})
		}
	}
	return f.bounded()
}

// bounded returns f without what is over the limits: it may come from another node.
func (f nodeFacts) bounded() nodeFacts {
	f.Build = shorten(f.Build, maxFactText)
	f.Formats, f.Peers = f.Formats[:min(len(f.Formats), maxFormats)], f.Peers[:min(len(f.Peers), maxPeers)]
	for i := range f.Formats {
		f.Formats[i].Name = shorten(f.Formats[i].Name, maxFactText)
	}
	for i := range f.Peers {
		f.Peers[i].Build, f.Peers[i].Error = shorten(f.Peers[i].Build, maxFactText), shorten(f.Peers[i].Error, maxFactText)
	}
	return f
}

// peer returns what a node knows about another one.
func (f nodeFacts) peer(id uint64) (peerFact, bool) {
	for _, p := range f.Peers {
		if p.Node == id {
			return p, true
		}
	}
	return peerFact{}, false
}

// callerKey is where NodeContext keeps the node that has opened a connection.
type callerKey struct{}

// NodeContext is the http.Server.ConnContext of a server of NodeHandler: it keeps which node the connection is from.
func NodeContext(ctx context.Context, c net.Conn) context.Context {
	if n, ok := c.(engine.NodeConn); ok {
		return context.WithValue(ctx, callerKey{}, n.Node())
	}
	return ctx
}

// NodeHandler serves what other nodes ask this one, and requests that they forward; see web.App.NodeHandler. Its server needs
// NodeContext.
func (a *Admin) NodeHandler() http.Handler {
	pages := a.app.NodeHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == factsPath {
			a.serveFacts(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// serveFacts answers a member of the cluster. It refuses everyone else, also a client whose request a member forwards.
func (a *Admin) serveFacts(w http.ResponseWriter, r *http.Request) {
	from, known := r.Context().Value(callerKey{}).(uint64)
	s := a.o.Cluster.State()
	_, member := s.Node(from)
	switch {
	case !known || !member || r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "only members of the cluster may ask this", http.StatusForbidden)
		return
	case r.Host != strconv.FormatUint(s.Self, 10):
		http.Error(w, "this is another node", http.StatusMisdirectedRequest)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	text, err := json.Marshal(a.facts())
	if err != nil {
		http.Error(w, "the facts of this node cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // a node that is gone needs no answer
}

// folder knows the size of the data folder.
type folder struct {
	mu   sync.Mutex // guards the fields below; locked while files are counted
	at   time.Time
	size int64
}

// bytes returns the size of the files in dir, at most folderEvery old.
func (f *folder) bytes(dir string, now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && now.Sub(f.at) < folderEvery {
		return f.size
	}
	total, files := int64(0), 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go while the server runs
		}
		if files++; files > maxFolderFiles {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	f.at, f.size = now, total
	return total
}
