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
	"io/fs"
	"path/filepath"
	"strconv"
	"time"
)

// Files of an identity. On disk: do not change.
const (
	caCertFile = "ca.crt"
	caKeyFile  = "ca.key" // only on the node that created the cluster
	certFile   = "node.crt"
	keyFile    = "node.key"
	nodeFile   = "node.json" // written last: a folder with it is a node
	issuedDir  = "issued"    // an empty file for each issued node id; only beside ca.key
)

// Versions of node.json and of invitations. Only those of replicas have the newer one,
// so a program that does not know replicas refuses them.
const (
	plainFormat    = 1
	identityFormat = 2 // has replica
)

func formatOf(replica bool) int {
	if replica {
		return identityFormat
	}
	return plainFormat
}

// Identity identifies a data folder as a node of a cluster. It does not change and
// is safe for concurrent use.
type Identity struct {
	Cluster string // 32 hexadecimal digits
	Node    uint64 // from 1 on
	Folder  string // random, stays with the data folder
	Replica bool   // it was invited as a replica; it may have become a voter since

	dir   string
	files Files
	ca    *x509.Certificate
	pair  tls.Certificate
	shown tls.Certificate // shown to clients before they are authenticated
}

// Files stores an identity. Write replaces a file atomically and durably. Claim
// durably creates an empty file, and fails with fs.ErrExist if the file exists.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, data []byte) error
	Claim(path string) error
	List(dir string) ([]string, error)
	MkdirAll(dir string) error
}

// about is node.json.
type about struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	Folder  string `json:"folder"`
	Replica bool   `json:"replica,omitempty"`
}

// invitation is created by Invite and read by Accept. Anyone who has it can become
// that node.
type invitation struct {
	Format  int    `json:"skerry_invitation"`
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	CA      string `json:"ca"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
	Replica bool   `json:"replica,omitempty"`
}

// Init creates a new cluster in dir: the CA and node 1. It creates dir. If dir is
// already a node of a cluster, the error wraps fs.ErrExist. An interrupted Init can
// be repeated.
func Init(files Files, dir string) (*Identity, error) { return initAt(files, dir, time.Now()) }

func initAt(files Files, dir string, now time.Time) (*Identity, error) {
	if err := vacant(files, dir); err != nil {
		return nil, err
	}
	cluster := randomHex()
	caPEM, caKeyPEM, err := issue(cluster, 0, now, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("peer: create the CA: %w", err)
	}
	ca, err := parseCert(caPEM)
	if err != nil {
		return nil, fmt.Errorf("peer: create the CA: %w", err)
	}
	caKey, err := parseKey(caKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("peer: create the CA: %w", err)
	}
	cert, key, err := issue(cluster, 1, now, ca, caKey)
	if err != nil {
		return nil, fmt.Errorf("peer: create the node's certificate: %w", err)
	}
	issued := filepath.Join(dir, issuedDir)
	if err := files.MkdirAll(issued); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	// Before the key: it shows vacant that only node 1 was ever issued.
	if err := files.Claim(filepath.Join(issued, "1")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if err := files.Write(filepath.Join(dir, caKeyFile), caKeyPEM); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return settle(files, dir, about{plainFormat, cluster, 1, randomHex(), false}, caPEM, cert, key)
}

// Load returns the identity in dir. If dir is not a node of a cluster, the error
// wraps fs.ErrNotExist. Load accepts an expired certificate; use Expires.
func Load(files Files, dir string) (*Identity, error) {
	text, err := readFile(files, dir, nodeFile)
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
		if parts[i], err = readFile(files, dir, name); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("peer: %s is there, but %s is missing", filepath.Join(dir, nodeFile), name)
		} else if err != nil {
			return nil, err
		}
	}
	id, err := assemble(a, parts[0], parts[1], parts[2])
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", dir, err)
	}
	id.dir, id.files = dir, files
	return id, nil
}

// Accept makes dir the node that an invitation is for. It creates dir. Accepting the
// same invitation again in the same dir changes nothing. If dir is another node, or
// of another cluster, the error wraps fs.ErrExist.
func Accept(files Files, dir string, text []byte) (*Identity, error) {
	inv, err := parseInvitation(text)
	if err != nil {
		return nil, err
	}
	if id, err := Load(files, dir); err == nil {
		cert, _ := parseCert([]byte(inv.Cert))
		if bytes.Equal(id.pair.Leaf.Raw, cert.Raw) {
			return id, nil
		}
		return nil, fmt.Errorf("peer: %s is already node %d of cluster %s, the invitation is for node %d of cluster %s: %w",
			dir, id.Node, id.Cluster, inv.Node, inv.Cluster, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := files.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return settle(files, dir, about{formatOf(inv.Replica), inv.Cluster, inv.Node, randomHex(), inv.Replica}, []byte(inv.CA), []byte(inv.Cert), []byte(inv.Key))
}

// parseInvitation parses an invitation and checks that its parts match.
func parseInvitation(text []byte) (*invitation, error) {
	if len(text) > MaxInviteBytes {
		return nil, &LimitError{"the invitation", int64(len(text)), MaxInviteBytes}
	}
	var inv invitation
	if err := json.Unmarshal(text, &inv); err != nil || inv.Format == 0 {
		return nil, errors.New("peer: the file is not an invitation")
	}
	if inv.Format > identityFormat {
		return nil, fmt.Errorf("peer: the invitation has format %d, this program reads up to %d: %w", inv.Format, identityFormat, ErrNewer)
	}
	a := about{formatOf(inv.Replica), inv.Cluster, inv.Node, "", inv.Replica}
	if _, err := assemble(a, []byte(inv.CA), []byte(inv.Cert), []byte(inv.Key)); err != nil {
		return nil, fmt.Errorf("peer: the invitation is damaged: %w", err)
	}
	return &inv, nil
}

// Invited returns the id of the node that an invitation is for.
func Invited(text []byte) (node uint64, err error) {
	inv, err := parseInvitation(text)
	if err != nil {
		return 0, err
	}
	return inv.Node, nil
}

// Invite issues the next node id. It returns an invitation for Accept with a
// certificate and its private key; keep it secret. A folder never issues an id
// twice, even if several processes do it at once. used are ids known from elsewhere,
// such as the table of nodes after ca.key was restored from a backup. Only the
// folder where the cluster was created can invite; elsewhere the error wraps
// fs.ErrNotExist.
func (id *Identity) Invite(used ...uint64) ([]byte, error) {
	return id.inviteAt(time.Now(), false, used)
}

// InviteReplica is Invite for a node that never gets a vote by itself.
func (id *Identity) InviteReplica(used ...uint64) ([]byte, error) {
	return id.inviteAt(time.Now(), true, used)
}

func (id *Identity) inviteAt(now time.Time, replica bool, used []uint64) ([]byte, error) {
	caKey, err := id.caKey()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("peer: node %d cannot invite, the cluster's CA key is on the node that created the cluster: %w", id.Node, err)
	} else if err != nil {
		return nil, err
	}
	node, err := claim(id.files, id.dir, append(used, id.Node))
	if err != nil {
		return nil, err
	}
	cert, key, err := issue(id.Cluster, node, now, id.ca, caKey)
	if err != nil {
		return nil, fmt.Errorf("peer: create the node's certificate: %w", err)
	}
	return json.MarshalIndent(invitation{formatOf(replica), id.Cluster, node, string(marshalCert(id.ca)), string(cert), string(key), replica}, "", "  ")
}

// caKey reads the CA's key. If it is not in this folder, the error wraps
// fs.ErrNotExist.
func (id *Identity) caKey() (*ecdsa.PrivateKey, error) {
	text, err := readFile(id.files, id.dir, caKeyFile)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", filepath.Join(id.dir, caKeyFile), err)
	}
	if !key.PublicKey.Equal(id.ca.PublicKey) {
		return nil, fmt.Errorf("peer: %s is not the key of %s", filepath.Join(id.dir, caKeyFile), caCertFile)
	}
	return key, nil
}

// CheckCA checks the CA's key in this folder. It returns nil if there is none.
func (id *Identity) CheckCA() error {
	if _, err := id.caKey(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CanInvite reports whether the cluster's CA is in this folder.
func (id *Identity) CanInvite() bool {
	_, err := id.files.Read(filepath.Join(id.dir, caKeyFile))
	return err == nil
}

// Expires returns when this node's certificate or the CA's expires, whichever is
// first. From then on other nodes refuse this one.
func (id *Identity) Expires() time.Time {
	if id.ca.NotAfter.Before(id.pair.Leaf.NotAfter) {
		return id.ca.NotAfter
	}
	return id.pair.Leaf.NotAfter
}

// claim reserves the lowest id above all issued and used ones. It creates the id's
// file exclusively, so that two processes never get the same id. The file is durable
// before claim returns.
func claim(files Files, dir string, used []uint64) (uint64, error) {
	issued := filepath.Join(dir, issuedDir)
	if err := files.MkdirAll(issued); err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	last, err := lastIssued(files, dir)
	if err != nil {
		return 0, err
	}
	for _, n := range used {
		last = max(last, n)
	}
	for n := last + 1; n > last && n <= MaxInvitations; n++ {
		err := files.Claim(filepath.Join(issued, strconv.FormatUint(n, 10)))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("peer: %w", err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("peer: a cluster has at most %d node ids", MaxInvitations)
}

// lastIssued returns the highest issued id, or 0.
func lastIssued(files Files, dir string) (last uint64, err error) {
	names, err := files.List(filepath.Join(dir, issuedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("peer: %w", err)
	}
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// assemble makes an identity from its parts and checks that they match.
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
	pair := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
	shown, err := newShown(ca, pair)
	if err != nil {
		return nil, fmt.Errorf("create the certificate for unauthenticated connections: %w", err)
	}
	return &Identity{Cluster: a.Cluster, Node: a.Node, Folder: a.Folder, Replica: a.Replica, ca: ca, pair: pair, shown: shown}, nil
}

// settle writes an identity into dir, node.json last, and loads it.
func settle(files Files, dir string, a about, ca, cert, key []byte) (*Identity, error) {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{caCertFile, ca}, {certFile, cert}, {keyFile, key}, {nodeFile, append(text, '\n')}} {
		if err := files.Write(filepath.Join(dir, f.name), f.text); err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
	}
	return Load(files, dir)
}

// vacant returns an error that wraps fs.ErrExist if dir is already a node, or has
// the key of a CA that would be lost. A CA that has issued only node 1, in an
// interrupted Init, is no loss.
func vacant(files Files, dir string) error {
	there := func(name string) (bool, error) {
		_, err := files.Read(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("peer: %w", err)
		}
		return true, nil
	}
	if node, err := there(nodeFile); err != nil {
		return err
	} else if node {
		return fmt.Errorf("peer: %s exists: the folder is already a node of a cluster: %w", filepath.Join(dir, nodeFile), fs.ErrExist)
	}
	key, err := there(caKeyFile)
	if err != nil {
		return err
	}
	last, err := lastIssued(files, dir)
	if err != nil {
		return err
	}
	if key && last != 1 {
		return fmt.Errorf("peer: %s exists: the folder has a cluster's CA; remove the folder if you do not need it: %w", filepath.Join(dir, caKeyFile), fs.ErrExist)
	}
	return nil
}

// randomHex returns 128 random bits in hexadecimal.
func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// readFile reads a file of an identity.
func readFile(files Files, dir, name string) ([]byte, error) {
	text, err := files.Read(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return text, nil
}
