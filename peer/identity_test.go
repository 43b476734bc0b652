package peer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if _, err := Load(onDisk, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	id, err := Init(onDisk, dir)
	if err != nil || id.Node != 1 || !isClusterID(id.Cluster) || !id.CanInvite() {
		t.Fatalf("%+v, %v", id, err)
	}
	if _, err := Init(onDisk, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Init: %v", err)
	}
	again, err := Load(onDisk, dir)
	if err != nil || again.Folder != id.Folder || again.Cluster != id.Cluster || again.Node != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	text, err := id.Invite()
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "cluster")
	two, err := Accept(onDisk, second, text)
	if err != nil || two.Node != 2 || two.Cluster != id.Cluster || two.CanInvite() {
		t.Fatalf("%+v, %v", two, err)
	}
	if same, err := Accept(onDisk, second, text); err != nil || same.Folder != two.Folder {
		t.Errorf("the same invitation again: %+v, %v", same, err)
	}
	if _, err := Accept(onDisk, dir, text); !errors.Is(err, fs.ErrExist) {
		t.Errorf("in another node's folder: %v", err)
	}
	if _, err := two.Invite(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "node 2 cannot invite") {
		t.Errorf("without the CA: %v", err)
	}
	for _, name := range []string{caKeyFile, keyFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for _, name := range []string{caCertFile, certFile, keyFile} {
		if err := os.Rename(filepath.Join(second, name), filepath.Join(second, "away")); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(onDisk, second); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
		if err := os.Rename(filepath.Join(second, "away"), filepath.Join(second, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "{}", "x", strings.Replace(string(text), `"node": 2`, `"node": 3`, 1),
		strings.Replace(string(text), `"skerry_invitation": 1`, `"skerry_invitation": 3`, 1), strings.Repeat(" ", MaxInviteBytes) + string(text)} {
		if _, err := Accept(onDisk, t.TempDir(), []byte(bad)); err == nil {
			t.Errorf("%.60q was accepted", bad)
		}
	}
}

// TestInviteReplica: the invitation says that the node is a replica, in a format that
// programs without replicas refuse, and the folder remembers it.
func TestInviteReplica(t *testing.T) {
	id := identities(t, 1)[0]
	text, err := id.InviteReplica()
	if err != nil || !strings.Contains(string(text), `"skerry_invitation": 2`) {
		t.Fatalf("%s, %v", text, err)
	}
	dir := t.TempDir()
	if _, err := Accept(onDisk, dir, text); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(onDisk, dir); err != nil || !again.Replica || again.Node != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	if id.Replica {
		t.Error("the first node is a replica")
	}
}

// TestInvite: no id is issued twice, even concurrently, and there is a last one.
func TestInvite(t *testing.T) {
	id := identities(t, 1)[0]
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[uint64]bool{}
	for range 8 {
		all.Go(func() {
			text, err := id.Invite()
			if err != nil {
				t.Error(err)
				return
			}
			inv, err := parseInvitation(text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[inv.Node] {
				t.Errorf("%+v, %v", inv, err)
				return
			}
			seen[inv.Node] = true
		})
	}
	all.Wait()
	text, err := id.Invite(40)
	if err != nil {
		t.Fatal(err)
	}
	if inv, err := parseInvitation(text); err != nil || inv.Node != 41 {
		t.Errorf("after a known 40: %+v, %v", inv, err)
	}
	last := filepath.Join(id.dir, issuedDir, strconv.Itoa(MaxInvitations))
	if err := os.WriteFile(last, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := id.Invite(); err == nil || !strings.Contains(err.Error(), "at most 65535") {
		t.Errorf("after the last: %v", err)
	}
}
