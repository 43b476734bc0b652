package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Files of an identity. On disk: do not change.
const (
	caCertFile = "ca.crt"
	caKeyFile  = "ca.key" // only where the cluster was begun
	certFile   = "node.crt"
	keyFile    = "node.key"
	nodeFile   = "node.json" // written last: a folder with it is a node
	issuedDir  = "issued"    // an empty file for each node id that was given out; only beside ca.key
)

// identityFormat is the version of node.json and of invitations.
const identityFormat = 1

// Identity is who a data folder is in which cluster. It does not change and may
// be used by several goroutines.
type Identity struct {
	Cluster string // 32 hexadecimal digits
	Node    uint64 // from 1 on
	Folder  string // random, stays with the data folder

	dir  string
	ca   *x509.Certificate
	pair tls.Certificate
}

// about is node.json.
type about struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	Folder  string `json:"folder"`
}

// invitation is what Invite gives and Accept takes. Whoever has it can become
// that node.
type invitation struct {
	Format  int    `json:"skerry_invitation"`
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	CA      string `json:"ca"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
}

// Init makes a new cluster of one in dir, which it creates: the CA and node 1.
// If dir already is a node of a cluster the error wraps fs.ErrExist.
func Init(dir string) (*Identity, error) { return initAt(dir, time.Now()) }

func initAt(dir string, now time.Time) (*Identity, error) {
	if err := vacant(dir); err != nil {
		return nil, err
	}
	cluster := randomHex()
	caPEM, caKeyPEM, err := issue(cluster, 0, now, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("peer: make the CA: %w", err)
	}
	ca, err := parseCert(caPEM)
	if err != nil {
		return nil, fmt.Errorf("peer: make the CA: %w", err)
	}
	caKey, err := parseKey(caKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("peer: make the CA: %w", err)
	}
	cert, key, err := issue(cluster, 1, now, ca, caKey)
	if err != nil {
		return nil, fmt.Errorf("peer: make the node's certificate: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, issuedDir), 0o700); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if err := writeFile(filepath.Join(dir, caKeyFile), caKeyPEM); err != nil {
		return nil, err
	}
	if _, err := claim(dir, []uint64{0}); err != nil {
		return nil, err
	}
	return settle(dir, about{identityFormat, cluster, 1, randomHex()}, caPEM, cert, key)
}

// Load returns the identity in dir. If dir is no node of a cluster the error
// wraps fs.ErrNotExist. An expired certificate is no error here: Expires tells.
func Load(dir string) (*Identity, error) {
	text, err := readFile(dir, nodeFile)
	if err != nil {
		return nil, err
	}
	var a about
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("peer: %s: %w", filepath.Join(dir, nodeFile), err)
	}
	if a.Format > identityFormat {
		return nil, fmt.Errorf("peer: %s has format %d, this program reads up to %d: %w", filepath.Join(dir, nodeFile), a.Format, identityFormat, ErrNewer)
	}
	var parts [3][]byte
	for i, name := range []string{caCertFile, certFile, keyFile} {
		if parts[i], err = readFile(dir, name); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("peer: %s is there, but %s is missing", filepath.Join(dir, nodeFile), name)
		} else if err != nil {
			return nil, err
		}
	}
	id, err := assemble(a, parts[0], parts[1], parts[2])
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", dir, err)
	}
	id.dir = dir
	return id, nil
}

// Accept makes dir, which it creates, the node that an invitation is for. The
// same invitation again in the same dir changes nothing; a dir that is another
// node, or of another cluster, is an error that wraps fs.ErrExist.
func Accept(dir string, text []byte) (*Identity, error) {
	inv, err := parseInvitation(text)
	if err != nil {
		return nil, err
	}
	if id, err := Load(dir); err == nil {
		cert, _ := parseCert([]byte(inv.Cert))
		if bytes.Equal(id.pair.Leaf.Raw, cert.Raw) {
			return id, nil
		}
		return nil, fmt.Errorf("peer: %s is node %d of cluster %s already, the invitation is for node %d of cluster %s: %w",
			dir, id.Node, id.Cluster, inv.Node, inv.Cluster, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return settle(dir, about{identityFormat, inv.Cluster, inv.Node, randomHex()}, []byte(inv.CA), []byte(inv.Cert), []byte(inv.Key))
}

// parseInvitation reads an invitation and checks that its parts fit each other.
func parseInvitation(text []byte) (*invitation, error) {
	if len(text) > MaxInviteBytes {
		return nil, &LimitError{"the invitation", int64(len(text)), MaxInviteBytes}
	}
	var inv invitation
	if err := json.Unmarshal(text, &inv); err != nil || inv.Format == 0 {
		return nil, errors.New("peer: this is not an invitation")
	}
	if inv.Format > identityFormat {
		return nil, fmt.Errorf("peer: the invitation has format %d, this program reads up to %d: %w", inv.Format, identityFormat, ErrNewer)
	}
	a := about{identityFormat, inv.Cluster, inv.Node, ""}
	if _, err := assemble(a, []byte(inv.CA), []byte(inv.Cert), []byte(inv.Key)); err != nil {
		return nil, fmt.Errorf("peer: the invitation is damaged: %w", err)
	}
	return &inv, nil
}

// Invite gives out the next node id: text for Accept, with a certificate and a
// key for it; keep it secret. An id is never given out twice from this folder,
// also if several processes ask. Used are ids known from elsewhere: after ca.key
// was restored from a backup, those of the table of nodes. Only the folder where
// the cluster was begun can do this; elsewhere the error wraps fs.ErrNotExist.
func (id *Identity) Invite(used ...uint64) ([]byte, error) {
	return id.inviteAt(time.Now(), used)
}

func (id *Identity) inviteAt(now time.Time, used []uint64) ([]byte, error) {
	text, err := readFile(id.dir, caKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("peer: node %d cannot invite, the cluster's CA is where the cluster was begun: %w", id.Node, err)
	} else if err != nil {
		return nil, err
	}
	caKey, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", filepath.Join(id.dir, caKeyFile), err)
	}
	if !caKey.PublicKey.Equal(id.ca.PublicKey) {
		return nil, fmt.Errorf("peer: %s is not the key of %s", filepath.Join(id.dir, caKeyFile), caCertFile)
	}
	node, err := claim(id.dir, append(used, id.Node))
	if err != nil {
		return nil, err
	}
	cert, key, err := issue(id.Cluster, node, now, id.ca, caKey)
	if err != nil {
		return nil, fmt.Errorf("peer: make the node's certificate: %w", err)
	}
	return json.MarshalIndent(invitation{identityFormat, id.Cluster, node, string(marshalCert(id.ca)), string(cert), string(key)}, "", "  ")
}

// CanInvite reports whether the cluster's CA is in this folder.
func (id *Identity) CanInvite() bool {
	_, err := os.Stat(filepath.Join(id.dir, caKeyFile))
	return err == nil
}

// Expires returns when this node's certificate, or the CA's, ends: from then on
// no other node lets it in.
func (id *Identity) Expires() time.Time {
	if id.ca.NotAfter.Before(id.pair.Leaf.NotAfter) {
		return id.ca.NotAfter
	}
	return id.pair.Leaf.NotAfter
}

// claim takes the lowest id above all that were given out and all used ones. The
// file that stands for it is made only if it is not there, so that two processes
// never get the same, and is durable before claim returns.
func claim(dir string, used []uint64) (uint64, error) {
	issued := filepath.Join(dir, issuedDir)
	if err := os.MkdirAll(issued, 0o700); err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	files, err := os.ReadDir(issued)
	if err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	var last uint64
	for _, n := range used {
		last = max(last, n)
	}
	for _, f := range files {
		if n, err := strconv.ParseUint(f.Name(), 10, 64); err == nil {
			last = max(last, n)
		}
	}
	for n := last + 1; n > last && n <= MaxInvitations; n++ {
		f, err := os.OpenFile(filepath.Join(issued, strconv.FormatUint(n, 10)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("peer: %w", err)
		}
		if err := errors.Join(f.Sync(), f.Close(), syncDir(issued), syncDir(dir)); err != nil {
			return 0, fmt.Errorf("peer: %w", err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("peer: a cluster gives out at most %d node ids", MaxInvitations)
}

// assemble makes an identity of its parts and checks that they fit each other.
func assemble(a about, caPEM, certPEM, keyPEM []byte) (*Identity, error) {
	if !isClusterID(a.Cluster) || a.Node == 0 {
		return nil, errors.New("no cluster id or no node id")
	}
	ca, err := parseCert(caPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caCertFile, err)
	}
	cert, err := parseCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	if cluster, node, ok := certified(ca); !ok || !ca.IsCA || cluster != a.Cluster || node != 0 {
		return nil, fmt.Errorf("%s is not the certificate of the CA of cluster %s", caCertFile, a.Cluster)
	}
	if cluster, node, ok := certified(cert); !ok || cluster != a.Cluster || node != a.Node {
		return nil, fmt.Errorf("%s is not the certificate of node %d of cluster %s", certFile, a.Node, a.Cluster)
	}
	if err := cert.CheckSignatureFrom(ca); err != nil {
		return nil, fmt.Errorf("%s is not signed by %s: %w", certFile, caCertFile, err)
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(&key.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", keyFile, certFile)
	}
	return &Identity{
		Cluster: a.Cluster, Node: a.Node, Folder: a.Folder, ca: ca,
		pair: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert},
	}, nil
}

// settle writes an identity into dir, node.json last, and loads it.
func settle(dir string, a about, ca, cert, key []byte) (*Identity, error) {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{caCertFile, ca}, {certFile, cert}, {keyFile, key}, {nodeFile, append(text, '\n')}} {
		if err := writeFile(filepath.Join(dir, f.name), f.text); err != nil {
			return nil, err
		}
	}
	return Load(dir)
}

// vacant returns an error that wraps fs.ErrExist if dir is a node already, or
// has the key of a CA that would be lost.
func vacant(dir string) error {
	for name, what := range map[string]string{
		nodeFile:  "the folder is a node of a cluster already",
		caKeyFile: "the folder has a cluster's CA, or making one was interrupted; remove the folder if it is of no use",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("peer: %s is there: %s: %w", filepath.Join(dir, name), what, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("peer: %w", err)
		}
	}
	return nil
}

// randomHex returns 128 random bits.
func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// readFile reads a small file of an identity.
func readFile(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxInviteBytes))
	if err != nil {
		return nil, fmt.Errorf("peer: read %s: %w", f.Name(), err)
	}
	return text, nil
}

// writeFile puts a whole durable file in the place of the one of that name. Only
// its owner can read it.
func writeFile(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new*")
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("peer: write %s: %w", name, err)
	}
	return nil
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
