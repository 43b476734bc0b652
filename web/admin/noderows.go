package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// When something that nodes report becomes a trouble.
const (
	certificateSoon  = 30 * 24 * time.Hour // before a certificate expires
	certificateShown = 90 * 24 * time.Hour // before that, its page says how many days are left
	leastFreeShare   = 0.1                 // of a file system
	staleAfter       = 5 * time.Second     // then a row says how old its numbers are
	silentAfter      = 10 * time.Second    // then a node that is connected, but does not answer, is a trouble
)

// nodeRow is a node in the tables of the overview and of the cluster, in words.
type nodeRow struct {
	ID   uint64 `json:"id"`
	Self bool   `json:"self"`
	Lead bool   `json:"lead"`
	Well bool   `json:"well"` // its numbers are of now
	Addr string `json:"-"`
	HTTP string `json:"-"`
	Site string `json:"-"`

	Role        string `json:"role"`
	State       string `json:"state"`
	Behind      string `json:"behind"`
	Memory      string `json:"memory"`
	Disk        string `json:"disk"`
	Version     string `json:"version"`
	Formats     string `json:"formats"`
	Up          string `json:"up"`
	Certificate string `json:"certificate"`
}

// nodesNow is what streams send about all nodes.
type nodesNow struct {
	Nodes    []nodeRow `json:"nodes"`
	Troubles []trouble `json:"troubles"`
}

// nodeRows returns all nodes of the cluster with what this one knows about them, and what is wrong with them.
func (a *Admin) nodeRows() (rows []nodeRow, wrong []trouble) {
	if a.o.Cluster == nil {
		return nil, nil
	}
	known, commits, _ := a.poll.all()
	s, now := a.o.Cluster.State(), a.o.Now()
	lead := known[s.Leader]
	for _, n := range a.nodes() {
		k := known[n.ID]
		row := nodeRow{ID: n.ID, Self: n.Self, Lead: n.Lead, Addr: n.Addr, HTTP: n.HTTP, Site: n.Site, Role: n.Role}
		row.Well = !k.at.IsZero() && k.failing.IsZero() && now.Sub(k.at) < staleAfter
		row.State = a.stateText(k, now)
		a.fill(&row, k, now)
		switch p, ok := lead.facts.peer(n.ID); {
		case n.Lead:
			row.Behind = "0"
		case ok && lead.failing.IsZero():
			row.Behind = a.behindText(p.Behind, behindFor(commits, lead.facts.Commit-min(p.Behind, lead.facts.Commit), lead.at))
		}
		if row.Version == "" { // an older program has told the leader, or this node
			own := known[s.Self]
			for _, f := range []nodeFacts{lead.facts, own.facts} {
				if p, ok := f.peer(n.ID); ok && row.Version == "" {
					row.Version = p.Build
				}
			}
		}
		rows = append(rows, row)
		a.nodeTroubles(n, k, known[s.Self].facts, now, func(what, remedy string) { wrong = append(wrong, trouble{what, remedy}) })
	}
	a.versionTrouble(rows, func(what, remedy string) { wrong = append(wrong, trouble{what, remedy}) })
	return dashes(rows), wrong
}

// fill sets what a node has reported.
func (a *Admin) fill(row *nodeRow, k knowledge, now time.Time) {
	if k.at.IsZero() {
		return
	}
	f := k.facts
	row.Version, row.Up, row.Certificate = f.Build, a.spanText(time.Duration(f.Up*float64(time.Second))), a.certificateText(f.Expires, now)
	if f.Memory > 0 {
		row.Memory = byteText(f.Memory)
	}
	if f.Size > 0 {
		row.Disk = a.text("%s, %s free (%d %%)", glued(f.Data), glued(f.Free), int(100*float64(f.Free)/float64(f.Size)))
	} else if f.Data > 0 {
		row.Disk = byteText(f.Data)
	}
	var formats []string
	for _, one := range f.Formats {
		formats = append(formats, fmt.Sprintf("%s %d", one.Name, one.Version))
	}
	row.Formats = strings.Join(formats, ", ")
}

// glued is byteText that is not broken between number and unit.
func glued(v any) string { return strings.ReplaceAll(byteText(v), " ", "\u00a0") }

// dashes puts a dash where nothing is known.
func dashes(rows []nodeRow) []nodeRow {
	for i := range rows {
		r := &rows[i]
		for _, text := range []*string{&r.Behind, &r.Memory, &r.Disk, &r.Version, &r.Formats, &r.Up, &r.Certificate} {
			if *text == "" {
				*text = "–"
			}
		}
	}
	return rows
}

// stateText says whether a node answers, and how old what is known about it is.
func (a *Admin) stateText(k knowledge, now time.Time) string {
	var parts []string
	switch {
	case k.older:
		return a.text("answers, but its version does not report this")
	case k.asked.IsZero():
		return a.text("not asked yet")
	case !k.failing.IsZero():
		parts = append(parts, a.text("has not answered for %s: %s", a.spanText(now.Sub(k.failing)), k.why))
	case now.Sub(k.at) < staleAfter:
		return a.text("answers")
	}
	if !k.at.IsZero() {
		parts = append(parts, a.text("as of %s", a.ago(k.at)))
	}
	return strings.Join(parts, "; ")
}

// spanText formats a duration for people.
func (a *Admin) spanText(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return a.text("%d s", int(d/time.Second))
	case d < time.Hour:
		return a.text("%d min", int(d/time.Minute))
	case d < 48*time.Hour:
		return a.text("%d h", int(d/time.Hour))
	}
	return a.text("%d days", int(d/(24*time.Hour)))
}

func (a *Admin) behindText(entries uint64, since time.Duration) string {
	switch {
	case entries == 0:
		return "0"
	case since < time.Second:
		return a.text("%s entries", numberText(entries))
	}
	return a.text("%s entries, %s", numberText(entries), a.spanText(since))
}

func (a *Admin) certificateText(expires, now time.Time) string {
	day := expires.UTC().Format(time.DateOnly)
	switch left := expires.Sub(now); {
	case expires.IsZero():
		return ""
	case left <= 0:
		return a.text("expired on %s", day)
	case left < certificateShown:
		return a.text("%s, %s left", day, a.spanText(left))
	}
	return day
}

// nodeTroubles says what is wrong with a node. own is what this node knows about its connections.
func (a *Admin) nodeTroubles(n node, k knowledge, own nodeFacts, now time.Time, add func(what, remedy string)) {
	a.silenceTrouble(n, k, own, now, add)
	if k.at.IsZero() {
		return
	}
	replace := a.text("Certificates are not renewed: invite a new node, wait until it votes, and then remove this one. One node after the other.")
	switch left := k.facts.Expires.Sub(now); {
	case k.facts.Expires.IsZero():
	case left <= 0:
		add(a.text("The certificate of node %d has expired, so the other nodes refuse it.", n.ID), replace)
	case left < certificateSoon:
		add(a.text("The certificate of node %d expires in %s. Then the other nodes refuse it.", n.ID, a.spanText(left)), replace)
	}
	if f := k.facts; f.nearlyFull() {
		add(a.text("The disk of node %d is nearly full: %s of %s are free.", n.ID, byteText(f.Free), byteText(f.Size)),
			a.text("A node with a full disk takes no writes, and if those of a majority are full, nobody can write. Make room or enlarge it; nothing needs a restart."))
	}
}

// nearlyFull reports whether little is free on the disk of the data folder.
func (f nodeFacts) nearlyFull() bool {
	return f.Size > 0 && float64(f.Free) < leastFreeShare*float64(f.Size)
}

// diskTrouble says that the disk of a server that is in no cluster is nearly full.
func (a *Admin) diskTrouble(add func(what, remedy string)) {
	if free, size := diskSpace(a.o.Dir); a.o.Dir != "" && (nodeFacts{Free: free, Size: size}).nearlyFull() {
		add(a.text("The disk of the data folder is nearly full: %s of %s are free.", byteText(free), byteText(size)),
			a.text("When it is full, writes are refused and reads still work. Make room or enlarge it; nothing needs a restart."))
	}
}

// silenceTrouble says that a node does not answer. Whether it is down or only its page is silent shows in the connection to it.
func (a *Admin) silenceTrouble(n node, k knowledge, own nodeFacts, now time.Time, add func(what, remedy string)) {
	if k.failing.IsZero() {
		return
	}
	since := when(k.failing) // not how long: screen readers would read it again every two seconds
	p, known := own.peer(n.ID)
	switch {
	case known && !p.Connected:
		add(a.text("Node %d has not answered since %s.", n.ID, since), a.text("If its machine or program is down, start it: it catches up by itself. If it is lost, remove it and invite a new one. Otherwise mend the network."))
	case now.Sub(k.failing) >= silentAfter:
		add(a.text("Node %d is connected, but has not answered this page since %s.", n.ID, since), a.text("It is overloaded, or runs with --admin-page off. The log and its votes are not affected."))
	}
}

// versionTrouble says that nodes run different versions.
func (a *Admin) versionTrouble(rows []nodeRow, add func(what, remedy string)) {
	var order []string
	by := map[string][]string{}
	for _, r := range rows {
		if r.Version == "" {
			continue
		}
		if by[r.Version] == nil {
			order = append(order, r.Version)
		}
		by[r.Version] = append(by[r.Version], fmt.Sprint(r.ID))
	}
	if len(order) < 2 {
		return
	}
	slices.Sort(order)
	var all []string
	for _, v := range order {
		all = append(all, a.text("%s on %s", v, strings.Join(by[v], ", ")))
	}
	add(a.text("The nodes run different versions: %s.", strings.Join(all, "; ")),
		a.text("During an upgrade that is fine, for as long as it takes: adjacent minor versions work together. Upgrade the remaining nodes, the leader last, and invite no nodes until all run one version."))
}

// inviters reports whether the node that leads can issue invitations, and returns the nodes that can.
func (a *Admin) inviters() (leader bool, all []uint64) {
	known, _, _ := a.poll.all()
	s := a.o.Cluster.State()
	for _, n := range s.Nodes {
		if known[n.ID].facts.Invites {
			all = append(all, n.ID)
			leader = leader || n.ID == s.Leader
		}
	}
	return leader, all
}

// changesMembers returns what changes the members of the cluster, or nil if this engine cannot.
func (a *Admin) changesMembers() engine.MemberChanger {
	m, _ := a.o.Engine.(engine.MemberChanger)
	return m
}
