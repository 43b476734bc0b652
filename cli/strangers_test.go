package cli

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/verb"
)

// outdated makes the certificate of an invitation one that has expired, as the
// cluster's CA would have signed it long ago.
func outdated(t *testing.T, dir, file string) {
	t.Helper()
	parse := func(text []byte) *x509.Certificate {
		block, _ := pem.Decode(text)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	inv := map[string]any{}
	if err := json.Unmarshal(read(file), &inv); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(read(filepath.Join(dir, "cluster/ca.key")))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	cert, ca := parse([]byte(inv["cert"].(string))), parse([]byte(inv["ca"].(string)))
	cert.NotBefore, cert.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, cert, ca, cert.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	inv["cert"] = string(pem.EncodeToMemory(&pem.Block{Type: pemType(inv["cert"].(string)), Bytes: raw}))
	text, err := json.Marshal(inv)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pemType is the type of the first PEM block of a text.
func pemType(text string) string {
	block, _ := pem.Decode([]byte(text))
	return block.Type
}

// refused runs a node that must not become one, and returns its last words.
func (c *nodes) refused(args string) string {
	c.s.t.Helper()
	out := c.s.run("timeout 60 skerry serve --http 127.0.0.1:0 --resp 127.0.0.1:0 " + args + " 2>&1 | grep -v level= | tail -n 1")
	return strings.TrimSpace(strings.TrimSuffix(out, fmt.Sprintf("[%d]\n", verb.ExitFailed)))
}

// TestStrangersAreRefused: nodes that must not take part get a clear reason.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	at, join := func() string { return " --node " + ports.Addr(t) }, " --join "+c.addr[1]
	for id := 2; id <= 4; id++ {
		if out := c.s.run(fmt.Sprintf("skerry cluster invite --data n1 > n%d.invite", id)); out != "" {
			t.Fatal(out)
		}
	}
	outdated(t, filepath.Join(c.s.dir, "n1"), filepath.Join(c.s.dir, "n3.invite"))
	other := newNodes(t, 1)
	p := c.s.serve("--data", "own")
	p.ask("SET a b")
	p.stop(syscall.SIGTERM)
	for _, tc := range []struct{ name, args, want string }{
		{"no address", "--data a --invite n2.invite" + join, "set it with --node HOST:PORT"},
		{"other cluster", "--data a --join " + other.addr[1] + at(), "the node there is not of cluster "},
		{"expired", "--data b --invite n3.invite" + join + at(), "the certificate of node 3 expired at 20"},
		{"no node", "--data plain" + join + at(), "plain is not a node of a cluster; `skerry cluster init` makes it the first node"},
		{"data of its own", "--data own --invite n4.invite" + join + at(), "own already has data, which would be lost"},
		{"no invitation", "--data d --invite n1/LOCK" + join + at(), "not an invitation"},
		{"missing invitation", "--data d --invite none" + join + at(), "no such file"},
		{"address in use", "--data a --node " + c.addr[1] + join, "address already in use"},
		{"first node under another name", "--data n1 --invite n4.invite", "is already node 1 of cluster "},
	} {
		if got := c.refused(tc.args); !strings.Contains(got, tc.want) {
			t.Errorf("%s: want %q, got %s", tc.name, tc.want, got)
		}
	}
	for _, tc := range []struct{ name, line, want string }{
		{"init twice", "skerry cluster init --data n1 --node " + c.addr[1], "is in use by process"},
		{"invite elsewhere", "skerry cluster invite --data a", "node 2 cannot invite: the key of the cluster's CA"},
		{"leave of the last one", "skerry cluster leave --data n1", "node 1 is the last node with a vote and cannot be removed"},
		{"remove of a stranger", "skerry cluster remove --data n1 9", "node 9 is not a member of the cluster"},
		{"admitted", "skerry cluster join --data a --node " + ports.Addr(t) + join + "; false", "a is node 2 of cluster "},
		{"transfer to nobody", "skerry cluster transfer --data n1", "no other node can lead now"},
		{"join of another cluster", "skerry cluster join --data a --node " + ports.Addr(t) + " --join " + other.addr[1], "the node there is not of cluster "},
		{"status of no node", "skerry cluster status --data own", "own is not a node of a cluster"},
		{"recover with a majority", "skerry cluster recover --data a --node " + ports.Addr(t), "the cluster has not lost its majority: node 1 leads"},
	} {
		out := c.s.run(tc.line)
		if !strings.Contains(out, tc.want) || !strings.Contains(out, "[") {
			t.Errorf("%s: want %q, got %s", tc.name, tc.want, out)
		}
	}
}

// TestTwins: of two folders, or two copies of one, only one can be a node.
func TestTwins(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 2)
	if got := c.refused("--data again --invite n2.invite --node " + ports.Addr(t) + " --join " + c.addr[1]); !strings.Contains(got, "node 2 of the cluster has another data folder") {
		t.Errorf("a second folder: %s", got)
	}
	c.s.run("cp -r n2 copy")
	twin := c.s.serve("--data", "copy", "--node", ports.Addr(t))
	c.await("one of two copies to stop", func() bool { return twin.ended() || c.proc[2].ended() })
	if log := twin.log() + c.proc[2].log(); !strings.Contains(log, "two programs run as node 2, with copies of one data folder") {
		t.Errorf("neither says why: %s", log)
	}
}

// TestFolderPutBack: a folder that has lost what its node has acknowledged is
// refused, and is replaced by a new node.
func TestFolderPutBack(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	if led := c.leader(); led == 3 {
		c.s.run("skerry cluster transfer --data n1 1")
		c.leader()
	}
	c.proc[3].kill()
	c.s.run("cp -r n3 before")
	c.restart(3)
	c.leader()
	for i := range 20 {
		c.set(3, fmt.Sprint("k", i), "v")
	}
	c.await("node 3 to have all", func() bool {
		var rep cluster.Report
		if json.Unmarshal([]byte(c.s.run("skerry cluster status --json --data n1")), &rep) != nil {
			return false
		}
		for _, n := range rep.Nodes {
			if n.Status == nil || n.Status.Commit != rep.Nodes[0].Status.Commit {
				return false
			}
			for _, seen := range n.Status.Nodes {
				if n.ID == rep.Leader && seen.Behind > 0 {
					return false
				}
			}
		}
		return true
	})
	c.proc[3].kill()
	c.s.run("rm -r n3 && mv before n3")
	if got := c.refused("--data n3"); !strings.Contains(got, "it was restored to an older state and has lost writes; remove the node and join again with a new invitation") {
		t.Fatalf("it says %s", got)
	}
	if out := c.s.run("skerry cluster remove --data n1 3"); !strings.HasPrefix(out, "node 3 is no longer a member of cluster ") {
		t.Fatalf("remove: %s", out)
	}
	c.proc[3] = nil
	c.add()
	c.awaitVoters(3)
	c.expectGet("k19", "v")
}
