package admin_test

import (
	"bufio"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web/admin"
)

// annaOn sets the first administrator up on a node.
func annaOn(nodes []*member, i int) *client {
	nodes[i].t.Helper()
	link := <-nodes[0].links
	c := nodes[i].client()
	c.setUp(nodes[i].URL+link[len(nodes[0].URL):], email)
	return c
}

// rowText returns the row of a node in a page.
func rowText(page string, id int) string {
	return cutOut(page, `data-row="`+strconv.Itoa(id)+`"`, "</tr>")
}

// TestNodesOfAll: each node shows all nodes: what they report now, what they reported before they fell silent, and that they differ.
func TestNodesOfAll(t *testing.T) {
	t.Parallel()
	nodes := growCluster(t, nil, 2, skerry.Options{Build: "1.4.0"})
	nodes = growCluster(t, nodes, 3, skerry.Options{Build: "1.5.0"})
	c := annaOn(nodes, 1)
	all := func(path string, ok func(page string) bool) (page string) {
		t.Helper()
		eventually.True(t, path, func() bool { page = c.get(path).expect(200).Body; return ok(page) })
		return page
	}
	for _, path := range []string{"/admin/overview", "/admin/cluster"} {
		page := all(path, func(page string) bool { return strings.Count(page, `class="about">answers<`) == 3 })
		for id, version := range []string{"1.4.0", "1.4.0", "1.5.0"} {
			if row := rowText(page, id+1); !strings.Contains(row, version) || !strings.Contains(row, "iB</td>") || !strings.Contains(row, " free (") || !strings.Contains(row, ">20") {
				t.Errorf("%s: node %d: %s", path, id+1, row)
			}
		}
		if !strings.Contains(page, "different versions: 1.4.0 on 1, 2; 1.5.0 on 3") {
			t.Errorf("%s does not say that the versions differ", path)
		}
	}
	c.get("/admin/cluster").expect(200, "log 2, snapshot 4")
	nodes[2].stop()
	page := all("/admin/overview", func(page string) bool { return strings.Contains(page, "Node 3 has not answered since") })
	if row := rowText(page, 3); !strings.Contains(row, `class="old"`) || !strings.Contains(row, "has not answered for") || !strings.Contains(row, "as of ") || !strings.Contains(row, "iB</td>") || !strings.Contains(row, "1.5.0") {
		t.Errorf("a node that is gone: %s", row)
	}
	var told struct {
		Self  uint64
		Nodes []struct {
			ID      uint64
			Silent  *time.Time `json:"silent_since"`
			Memory  float64    `json:"resident_bytes"`
			Version string
			Expires *time.Time `json:"certificate_expires"`
		}
	}
	if err := json.Unmarshal([]byte(c.get("/nodes").expect(200).Body), &told); err != nil || told.Self != 2 || len(told.Nodes) != 3 {
		t.Fatalf("%+v, %v", told, err)
	}
	for i, n := range told.Nodes {
		if n.ID != uint64(i+1) || (n.Silent != nil) != (i == 2) || n.Memory == 0 || n.Version == "" || n.Expires == nil {
			t.Errorf("/nodes: %+v", n)
		}
	}
	nodes[2].run(listen(t, nodes[2].peer), nodes[0].peer)
	all("/admin/cluster", func(page string) bool { return strings.Contains(rowText(page, 3), ">answers<") })
}

// TestFactsAreNotForClients: no client gets what nodes tell one another, by any path; another member does.
func TestFactsAreNotForClients(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2)
	c := annaOn(nodes, 1)
	for _, path := range []string{"/node/facts", "/admin/node/facts", "/admin/../node/facts", "/admin//node/facts", "/admin/%2e%2e/node/facts"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, nodes[1].URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque = "//" + r.URL.Host + path
			r.Host = "2"
			if a := c.send(r); a.Status == http.StatusOK && strings.Contains(a.Body, `"memory"`) {
				t.Errorf("%s %s: %s", method, path, a.Body)
			}
		}
	}
	ask := func(host string) *http.Response {
		t.Helper()
		conn, err := nodes[1].db.Cluster().Dial(t.Context(), 1, admin.NodeProtocol)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: host, Path: "/node/facts"}, Host: host}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if got := ask("1").StatusCode; got != http.StatusOK {
		t.Errorf("a member gets status %d", got)
	}
	if got := ask("2").StatusCode; got != http.StatusMisdirectedRequest {
		t.Errorf("who asks for another node gets status %d", got)
	}
}

// gone waits for a node that stops because it was removed.
func (m *member) gone() {
	m.t.Helper()
	if err := <-m.ended; err == nil || !strings.Contains(err.Error(), "removed") {
		m.t.Errorf("a node that was removed ends with %v", err)
	}
	m.srv.Close()
	_ = m.db.Close() // it has stopped by itself
	m.srv = nil
}

// TestRemoveNode: the page says what a removal means, and removes only what the administrator has confirmed and the cluster can do
// without; at last the node whose page it is.
func TestRemoveNode(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	c := annaOn(nodes, 1)
	link := nodes[0].invite("vera@example.org", "viewer")
	v := nodes[1].client()
	v.setUp(nodes[1].URL+link[len(nodes[0].URL):], "vera@example.org")
	v.get("/admin/cluster").expect(200).lacks("/admin/cluster/remove?node=3")
	v.get("/admin/cluster/remove?node=3").expect(403)
	v.post("/admin/cluster/remove", "node", "3", "sure", "yes").expect(403)

	c.get("/admin/cluster/remove?node=nine").expect(400, "not the number of a node")
	c.get("/admin/cluster/remove?node=9").expect(404)
	c.post("/admin/cluster/remove", "node", "9", "sure", "yes").expect(404)
	c.get("/admin/cluster/remove?node=3").expect(200, "Voters: 3 now, 2 afterwards", "can lose 0 of them", "now it is 1").lacks("page ends")
	c.get("/admin/cluster/remove?node=2").expect(200, "It is the node whose page you see")
	c.get("/admin/cluster/remove?node=1").expect(200, "It leads")
	c.post("/admin/cluster/remove", "node", "3").expect(422, "Tick the box")

	nodes[2].stop()
	eventually.True(t, "node 3 is known to be gone", func() bool {
		return c.post("/admin/cluster/remove", "node", "2", "sure", "yes").expect(422).Status == 422 && strings.Contains(c.get("/admin/log").Body, "bring another node back first")
	})
	c.post("/admin/cluster/remove", "node", "3", "sure", "yes").expect(200, "The node is removed.")
	eventually.True(t, "node 3 is no member", func() bool { return len(nodes[1].db.Cluster().State().Nodes) == 2 })
	c.get("/admin/log").expect(200, "cluster.remove", "node 3")
	c.get("/admin/cluster").expect(200).lacks("/admin/cluster/remove?node=3")

	own := nodes[0].client() // the leader's own page
	link = nodes[0].invite("ben@example.org", "superadmin")
	own.setUp(link, "ben@example.org")
	own.get("/admin/cluster/remove?node=1").expect(200, "this page ends")
	own.post("/admin/cluster/remove", "node", "1", "sure", "yes").expect(200, "The cluster goes on without it")
	nodes[0].gone()
	eventually.True(t, "node 2 leads alone", func() bool {
		s := nodes[1].db.Cluster().State()
		return s.Leader == 2 && len(s.Nodes) == 1
	})
	c.get("/admin/cluster/remove?node=2").expect(200, "last node with a vote").lacks(`name="sure"`)
	c.post("/admin/cluster/remove", "node", "2", "sure", "yes").expect(422, "last node with a vote")
}

// TestInviteOnPage: the page of a leader that has the CA's key makes an invitation that a new folder accepts; the log of actions
// has no key.
func TestInviteOnPage(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2)
	c := annaOn(nodes, 1)
	eventually.True(t, "the page knows that the leader can invite", func() bool {
		return strings.Contains(c.get("/admin/cluster").expect(200).Body, "Make an invitation")
	})
	for _, bad := range []string{"", "db4", "db4:", ":7100", "db4:0", "db4:99999", "db4:http", "d b4:7100", "db4\n:7100", strings.Repeat("x", 400) + ":1"} {
		c.post("/admin/cluster/invite", "host", bad).expect(422, "must be HOST:PORT").lacks("PRIVATE KEY")
	}
	for i, replica := range []string{"", "yes"} {
		a := c.post("/admin/cluster/invite", "host", "db4.example.com:7100", "replica", replica).expect(200, "PRIVATE KEY", "--node db4.example.com:7100 --join "+nodes[0].peer, "shown once")
		if got := a.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("the page with a key has Cache-Control: %s", got)
		}
		text := strings.TrimPrefix(cutOut(html.UnescapeString(a.Body), "<<'END'\n", "\nEND\n"), "<<'END'\n")
		if id, err := embedded.Accept(t.TempDir(), []byte(text), embedded.Options{LogReserveBytes: 64 << 10}); err != nil || id != uint64(3+i) {
			t.Errorf("node %d, %v", id, err)
		}
	}
	c.get("/admin/log").expect(200, "cluster.invite", "db4.example.com:7100").lacks("PRIVATE KEY")
	c.get("/admin/cluster").lacks("PRIVATE KEY")
	link := nodes[0].invite("vera@example.org", "viewer")
	v := nodes[1].client()
	v.setUp(nodes[1].URL+link[len(nodes[0].URL):], "vera@example.org")
	v.get("/admin/cluster").expect(200).lacks("Make an invitation")
	v.post("/admin/cluster/invite", "host", "db5:7100").expect(403)

	c.post("/admin/cluster/handover").expect(200)
	eventually.True(t, "the page knows that the leader cannot invite", func() bool {
		return strings.Contains(c.get("/admin/cluster").expect(200).Body, "It is that of node 1.")
	})
	c.post("/admin/cluster/invite", "host", "db5:7100").expect(422, "cannot invite").lacks("PRIVATE KEY")
}

// TestLooksNodes looks at the overview and the cluster with three servers, of which one falls silent while the pages are open.
func TestLooksNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	nodes[0].link = <-nodes[0].links
	c := nodes[0].open()
	c.visit("/admin/overview")
	c.Until(`document.querySelectorAll("tr[data-row] [data-cell=state]").length === 3 && [...document.querySelectorAll("[data-cell=state]")].every((e) => e.textContent === "answers")`)
	c.looks("overview-cluster")
	c.visit("/admin/cluster/remove?node=2")
	c.looks("cluster-remove")
	c.visit("/admin/cluster")
	c.Until(`document.querySelector("[name=host]")`)
	c.Do(chromedp.SendKeys(chromedp.CSS(`[name=host]`), "db4.example.com:7100\r"), chromedp.WaitVisible(chromedp.CSS(`#invitation`)))
	c.looks("cluster-invitation")
	nodes[2].stop()
	c.visit("/admin/cluster")
	c.Until(`document.querySelector("[data-row='3']").classList.contains("old") && document.querySelector("[data-row='3'] [data-cell=state]").textContent.includes("as of") && document.getElementById("wrong").textContent.includes("Node 3 has not answered since")`)
	c.looks("cluster-silent")
	c.visit("/admin/overview")
	c.Until(`document.getElementById("wrong").textContent.includes("Node 3 has not answered since") && document.querySelectorAll(".uplot").length === 3`)
	c.looks("overview-silent")
}
