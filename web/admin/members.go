package admin

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

const maxAddress = 300 // bytes of the address of a new node

// removal is what the removal of a node means.
type removal struct {
	Node      node
	Voter     bool
	Voters    int  // with it
	Left      int  // voters without it
	LossesNow int  // that the cluster can bear and still take writes
	Losses    int  // the same without it
	Last      bool // it is the last voter, which cannot be removed
	Silent    bool // it does not answer now
}

// removalOf returns what the removal of a node means.
func (a *Admin) removalOf(id uint64) (r removal, err error) {
	s := a.o.Cluster.State()
	for i, n := range a.nodes() {
		if s.Nodes[i].Voter {
			r.Voters++
		}
		if n.ID == id {
			r.Node, r.Voter = n, s.Nodes[i].Voter
		}
	}
	if r.Node.ID == 0 {
		return r, engine.Errorf(engine.CodeNotFound, "there is no node %d in this cluster", id)
	}
	r.Left = r.Voters
	if r.Voter {
		r.Left--
	}
	r.Losses, r.LossesNow, r.Last = max(0, (r.Left-1)/2), max(0, (r.Voters-1)/2), r.Left == 0
	known, _, _ := a.poll.all()
	r.Silent = !known[id].failing.IsZero()
	return r, nil
}

// nodeOf parses the number of a node.
func nodeOf(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, engine.Errorf(engine.CodeInvalid, "%q is not the number of a node", shorten(text, 40))
	}
	return id, nil
}

// removePage says what the removal of a node means, and asks.
func (a *Admin) removePage(c *web.Context) error {
	id, err := nodeOf(c.Query("node").String())
	if err != nil {
		return err
	}
	a.poll.forPage(c)
	return a.showRemoval(c, http.StatusOK, id, "")
}

func (a *Admin) showRemoval(c *web.Context, status int, id uint64, problem string) error {
	r, err := a.removalOf(id)
	if err != nil {
		return err
	}
	return a.show(c, status, "clusterremove", web.Locals{"title": a.text("Remove node %d", id), "it": r, "problem": problem})
}

// removeNode removes a node. It runs on the leader, whose page need not be the one that the administrator sees.
func (a *Admin) removeNode(c *web.Context) error {
	id, err := nodeOf(c.Form("node").String())
	if err != nil {
		return err
	}
	if c.Form("sure").String() != "yes" {
		return a.showRemoval(c, http.StatusUnprocessableEntity, id, a.text("Tick the box to say that you know what it means."))
	}
	r, err := a.removalOf(id)
	if err != nil {
		return err
	}
	err = a.act(c, "cluster.remove", a.text("node %s", strconv.FormatUint(id, 10)), r.Node.Addr, func() error { return a.changesMembers().RemoveNode(c, id) })
	if status, refused := refusedInput(err); refused {
		return a.showRemoval(c, status, id, c.Detail(err))
	}
	if err != nil {
		return err
	}
	if r.Node.Self { // it serves no further page
		return a.show(c, http.StatusOK, "clusterremoved", web.Locals{"title": a.text("Node %d is removed", id), "node": id})
	}
	return a.done(c, "/cluster", "removed")
}

// inviteNode makes an invitation and shows it, once.
func (a *Admin) inviteNode(c *web.Context) error {
	host, replica := c.Form("host").String(), c.Form("replica").String() == "yes"
	if !isAddress(host) {
		return a.showCluster(c, http.StatusUnprocessableEntity, web.Locals{"new_host": shorten(host, maxAddress), "replica": replica,
			"problem": a.text("The address of the new node must be HOST:PORT, such as db4.example.com:7100: it is how the other nodes reach it.")})
	}
	kind := a.text("voter")
	if replica {
		kind = a.text("replica")
	}
	var id uint64
	var text []byte
	err := a.act(c, "cluster.invite", host, kind, func() (err error) {
		id, text, err = a.changesMembers().Invite(replica)
		return err
	})
	if status, refused := refusedInput(err); refused {
		return a.showCluster(c, status, web.Locals{"problem": c.Detail(err)})
	}
	if err != nil {
		return err
	}
	return a.showCluster(c, http.StatusOK, web.Locals{"invitation": string(text), "invited": id, "new_host": shellWord(host), "replica": replica})
}

// isAddress reports whether text is HOST:PORT.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsAny(text, " \t\r\n/\x00") || len(text) > maxAddress {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
