package top

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// facts are what of a node in the response of /nodes is used.
type facts struct {
	ID       uint64     `json:"id"`
	Answered *time.Time `json:"answered"`
	Silent   *time.Time `json:"silent_since"`
	Error    string     `json:"error"`
	Resident float64    `json:"resident_bytes"`
	Data     float64    `json:"data_folder_bytes"`
	Free     float64    `json:"disk_free_bytes"`
	Size     float64    `json:"disk_bytes"`
	Expires  *time.Time `json:"certificate_expires"`
}

// facts asks a server of a cluster about all nodes. It returns nil if the server does not know: an older version, or one without the
// admin page.
func (s Source) facts(ctx context.Context) []facts {
	text, err := s.Fetch(ctx, "/nodes")
	var all struct {
		Nodes []facts `json:"nodes"`
	}
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all.Nodes
}

// report takes in what another node has reported about one that is not watched.
func (n *Node) report(f facts) {
	if f.Silent != nil {
		n.Down, n.Error = f.Silent, Clean(f.Error)
		n.Wrong = append(n.Wrong, n.wrong(totals{}, 0)...)
	}
	if f.Answered == nil {
		return
	}
	n.Now = &Sample{At: *f.Answered, Resident: f.Resident, Disk: f.Data}
	const share, soon = 0.1, 30 * 24 * time.Hour // as the admin page warns
	if f.Size > 0 && f.Free < share*f.Size {
		n.Wrong = append(n.Wrong, fmt.Sprintf("%s of %s of its disk are free", verb.FormatSize(int64(f.Free)), verb.FormatSize(int64(f.Size))))
	}
	if f.Expires != nil && f.Expires.Sub(*f.Answered) < soon {
		n.Wrong = append(n.Wrong, fmt.Sprintf("its certificate expires on %s", f.Expires.UTC().Format(time.DateOnly)))
	}
}
