//go:build linux

package examples_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
)

// TestTodoLeaderDies: a user who has logged in at one node adds items at all of them, and
// sees each item on the next. The leader is killed meanwhile, and no acknowledged item is
// lost or duplicated.
func TestTodoLeaderDies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three processes and an election")
	}
	data := t.TempDir() + "/data"
	var three struct {
		Nodes []struct{ HTTP, RESP string }
	}
	launch(t, &three, program(t, "todo/server"), "dev", "--json", "--nodes", "3", "--data", data, "--memory", "1GiB")
	var web, redis []string
	for _, n := range three.Nodes {
		web, redis = append(web, n.HTTP), append(redis, n.RESP)
	}
	v := newVisitor(t)
	follower := (leaderNow(t, redis) + 1) % 3
	if status, text := v.do(web[follower], "/register", url.Values{"email": {"anna@example.org"}, "password": {"correct horse"}}); status != http.StatusSeeOther {
		t.Fatalf("register: %d\n%s", status, text)
	}
	added := map[string]bool{} // by text: whether it was acknowledged; otherwise it may exist or not
	n := 0
	add := func(at int) bool {
		n++
		text := fmt.Sprintf("item-%d-", n)
		status, answer := v.do(web[at], "/add", url.Values{"text": {text}})
		if status != 0 && status != http.StatusSeeOther && status < 500 {
			t.Fatalf("add: %d\n%s", status, answer)
		}
		added[text] = status == http.StatusSeeOther
		return added[text]
	}
	for at := range 3 {
		if !add(at) {
			t.Fatalf("node %d does not accept items", at+1)
		}
		if status, text := v.do(web[(at+1)%3], "/", nil); status != http.StatusOK || !strings.Contains(text, fmt.Sprintf("item-%d-", n)) {
			t.Fatalf("the next node, %d:\n%s", status, text)
		}
	}
	leader := leaderNow(t, redis)
	if err := syscall.Kill(nodePID(t, filepath.Join(data, "n"+strconv.Itoa(leader+1))), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := 0
	eventually.True(t, "ten items are added after the leader was killed", func() bool {
		if add((leader + 1 + n%2) % 3) {
			after++
		}
		return after == 10
	})
	status, text := v.do(web[(leader+1)%3], "/", nil)
	if status != http.StatusOK {
		t.Fatalf("%d\n%s", status, text)
	}
	for item, acknowledged := range added {
		switch times := len(regexp.MustCompile("<span>"+item+"</span>").FindAllString(text, -1)); {
		case acknowledged && times != 1, times > 1:
			t.Errorf("%s, acknowledged %v, is on the page %d times", item, acknowledged, times)
		}
	}
}
