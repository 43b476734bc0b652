package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// nodeOptions are the settings of a server that is a node of a cluster.
type nodeOptions struct {
	addr          string // of the port between nodes
	nodeAdvertise string
	advertise     string
	join          []string
	invite        string
	lease         bool
}

func (o *nodeOptions) settings() []setting {
	return []setting{
		{"node", "HOST:PORT", "", "address for the other nodes of the cluster (default what this node had last)", true, nodeAddress(&o.addr)},
		{"node-advertise", "HOST:PORT", "", "the same as other machines reach it (default --node)", true, nodeAddress(&o.nodeAdvertise)},
		{"advertise", "HOST", "", "host by which other machines reach HTTP and Redis, where clients are sent (default that of their addresses, or of the node)", true, host(&o.advertise)},
		{"join", "HOST:PORT,…", "", "nodes of the cluster to ask for admission (default those that were known last)", true, addresses(&o.join)},
		{"invite", "FILE", "", "invitation that makes a new folder a node; once it is one the file is not needed", true, text(&o.invite)},
		{"lease", "", "", "let the leader answer linearizable reads without asking the others each time; needs clocks that run alike, and the same on every node", true, toggle(&o.lease)},
	}
}

// check finds what does not fit together.
func (o *nodeOptions) check() error {
	if o.addr == "" || o.nodeAdvertise != "" {
		return nil
	}
	if host, _, err := net.SplitHostPort(o.addr); err == nil && everyAddress(host) {
		return fmt.Errorf("node: %s is no address that other machines can connect to: say with --node-advertise which one is", o.addr)
	}
	return nil
}

func everyAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// facesHost is the host by which other machines reach the faces, "" if that is
// not said.
func (o *nodeOptions) facesHost() string {
	if o.advertise != "" {
		return o.advertise
	}
	host, _, err := net.SplitHostPort(o.nodeAdvertise)
	if err != nil {
		return ""
	}
	return host
}

func (o *nodeOptions) given() bool {
	return o.addr != "" || o.nodeAdvertise != "" || o.join != nil || o.invite != ""
}

// openNode opens the data folder, and first makes it the node that it is invited
// to be.
func (o *serveOptions) openNode(p process, log *slog.Logger) (*embedded.DB, error) {
	limits, err := skerry.DefaultConnections(true) // of a cluster; a node that is alone does not use them
	if err != nil {
		return nil, err
	}
	if o.node.invite != "" {
		if err := accept(o.data, o.node.invite); err != nil {
			return nil, err
		}
	}
	if o.node.given() {
		if _, err := embedded.OpenAdmin(o.data, ""); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(o.data, devFile)); err == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is the folder of `skerry dev`: its nodes have their data in %s and so on; choose one of these with --data, while dev does not run", o.data, filepath.Join(o.data, "n1"))
	}
	dir, err := filepath.Abs(o.data)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	db, err := embedded.Open(dir, embedded.Options{
		MemoryBytes: o.memory, Logger: log,
		Cluster: embedded.ClusterOptions{
			Addr: o.node.addr, Advertise: o.node.nodeAdvertise, Join: o.node.join, Lease: o.node.lease, Version: p.app.build().Version,
			Conns: limits.Nodes, Guests: limits.NodeGuests,
		},
	})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w; --node chooses another address", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w; --node is an address of this machine; if others reach it by another, say that with --node-advertise", err)
	case errors.Is(err, embedded.ErrNoNodeAddr):
		return nil, fmt.Errorf("%w: say it with --node HOST:PORT", err)
	}
	return db, err
}

// accept makes a data folder the node that an invitation is for. An invitation
// that is gone was for a folder that is a node by now, as it should be.
func accept(dir, file string) error {
	text, err := readInvitation(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, no := embedded.OpenAdmin(dir, ""); no == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("invite: %w", err)
	}
	if _, err := embedded.Accept(dir, text, embedded.Options{MemoryBytes: noLimit, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return fmt.Errorf("invite: %w", err)
	}
	return nil
}

// maxInvitation bounds the bytes of an invitation that are read.
const maxInvitation = 1 << 20

func readInvitation(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInvitation))
}

// nodeAddress reads the address of a port between nodes.
func nodeAddress(p *string) func(string) error {
	return func(v string) error {
		host, port, err := net.SplitHostPort(v)
		if err != nil {
			return fmt.Errorf("%q is not HOST:PORT", v)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%q: the port is a number from 0 to %d", v, n)
		}
		if strings.ContainsAny(host, " \t/") {
			return fmt.Errorf("%q is not HOST:PORT", v)
		}
		*p = v
		return nil
	}
}

func addresses(p *[]string) func(string) error {
	return func(v string) error {
		if err := list(p)(v); err != nil {
			return err
		}
		for i := range *p {
			if err := nodeAddress(&(*p)[i])((*p)[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// host reads a host without a port.
func host(p *string) func(string) error {
	return func(v string) error {
		if v == "" || strings.ContainsAny(v, " \t/[]") || strings.Contains(v, ":") && net.ParseIP(v) == nil || everyAddress(v) {
			return fmt.Errorf("%q is not the name or IP address of a host", v)
		}
		*p = v
		return nil
	}
}
