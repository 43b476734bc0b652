package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
)

// Node has the settings of a server that is a node of a cluster.
type Node struct {
	Addr          string // of the port between nodes
	nodeAdvertise string
	advertise     string
	join          []string
	Invite        string
	lease         bool
	site          string
	catchUp       int64
}

func (o *Node) Settings() []verb.Setting {
	return []verb.Setting{
		{Name: "node", Arg: "HOST:PORT", Help: "address of the node port (default the last one)", Server: true, Set: nodeAddress(&o.Addr)},
		{Name: "node-advertise", Arg: "HOST:PORT", Help: "address at which other machines reach the node port (default --node)", Server: true, Set: nodeAddress(&o.nodeAdvertise)},
		{Name: "advertise", Arg: "HOST", Help: "host at which other machines reach HTTP and Redis, to which clients are directed (default the host of those addresses, or of the node port)", Server: true, Set: host(&o.advertise)},
		{Name: "join", Arg: "HOST:PORT,…", Help: "nodes of the cluster to join (default the last known ones)", Server: true, Set: addresses(&o.join)},
		{Name: "invite", Arg: "FILE", Help: "invitation that makes a new folder a node; not needed afterwards", Server: true, Set: verb.Text(&o.Invite)},
		{Name: "lease", Help: "let the leader serve linearizable reads from a lease; needs clocks that run at the same rate, and the same setting on every node", Server: true, Set: verb.Toggle(&o.lease)},
		{Name: "site", Arg: "NAME", Help: "where the node is, such as a data centre; - for nowhere (default as before)", Server: true, Set: site(&o.site)},
		{Name: "catch-up-rate", Arg: "SIZE", Help: "bytes per second with which the other nodes bring this one up to date while it is behind; 0 for no limit (default as before, at first no limit)", Server: true, Set: catchUpRate(&o.catchUp)},
	}
}

// Check returns an error if settings contradict each other.
func (o *Node) Check() error {
	if o.Addr == "" || o.nodeAdvertise != "" {
		return nil
	}
	if host, _, err := net.SplitHostPort(o.Addr); err == nil && everyAddress(host) {
		return fmt.Errorf("node: other machines cannot connect to %s: set the address at which they can with --node-advertise", o.Addr)
	}
	return nil
}

func everyAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// FacesHost returns the host by which other machines reach the faces, "" if it is not set.
func (o *Node) FacesHost() string {
	if o.advertise != "" {
		return o.advertise
	}
	host, _, err := net.SplitHostPort(o.nodeAdvertise)
	if err != nil {
		return ""
	}
	return host
}

func (o *Node) given() bool {
	return o.Addr != "" || o.nodeAdvertise != "" || o.join != nil || o.Invite != ""
}

// Options returns the cluster options of the node in the folder dir. If there is an invitation, it first turns
// the folder into the invited node.
func (o *Node) Options(dir, version string) (c embedded.ClusterOptions, err error) {
	limits, err := skerry.DefaultConnections(true) // of a cluster; a node that runs alone does not use them
	if err != nil {
		return c, err
	}
	if o.Invite != "" {
		if err := accept(dir, o.Invite); err != nil {
			return c, err
		}
	}
	if o.given() {
		if _, err := embedded.OpenAdmin(dir, ""); err != nil {
			return c, err
		}
	}
	return embedded.ClusterOptions{
		Addr: o.Addr, Advertise: o.nodeAdvertise, Join: o.join, Lease: o.lease, Version: version,
		Site: o.site, CatchUpRate: o.catchUp,
		Conns: limits.Nodes, Guests: limits.NodeGuests,
	}, nil
}

// Explain adds the setting to change to an error from opening a node.
func Explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; --node chooses another address", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; --node is an address of this machine; if other machines reach it at a different address, set that with --node-advertise", err)
	case errors.Is(err, embedded.ErrNoNodeAddr):
		return fmt.Errorf("%w: set it with --node HOST:PORT", err)
	}
	return err
}

// accept turns a data folder into the node that an invitation is for. If the invitation is gone and the folder
// is a node already, it does nothing.
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
	if _, err := embedded.Accept(dir, text, embedded.Options{MemoryBytes: verb.NoLimit, Logger: slog.New(slog.DiscardHandler)}); err != nil {
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

// nodeAddress parses the address of a port between nodes.
func nodeAddress(p *string) func(string) error {
	return func(v string) error {
		host, port, err := net.SplitHostPort(v)
		if err != nil {
			return fmt.Errorf("%q is not HOST:PORT", v)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%q: the port must be a number from 0 to %d", v, math.MaxUint16)
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
		if err := verb.List(p)(v); err != nil {
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

// site parses the name of a site.
func site(p *string) func(string) error {
	return func(v string) error {
		if v == "" {
			return errors.New("needs a name, or - for nowhere")
		}
		if v != embedded.NoSite {
			if err := embedded.CheckSite(v); err != nil {
				return err
			}
		}
		*p = v
		return nil
	}
}

// catchUpRate parses ClusterOptions.CatchUpRate; 0 means without a limit.
func catchUpRate(p *int64) func(string) error {
	return func(v string) error {
		n := int64(0)
		if err := verb.Size(&n, 0)(v); err != nil {
			return err
		}
		if n == 0 {
			n = -1
		} else if n < embedded.MinCatchUpRate {
			return fmt.Errorf("%q is less than %d KiB per second; a snapshot could not arrive in time", v, embedded.MinCatchUpRate>>10)
		}
		*p = n
		return nil
	}
}

// host parses a host without a port.
func host(p *string) func(string) error {
	return func(v string) error {
		if v == "" || strings.ContainsAny(v, " \t/[]") || strings.Contains(v, ":") && net.ParseIP(v) == nil || everyAddress(v) {
			return fmt.Errorf("%q is not the name or IP address of a host", v)
		}
		*p = v
		return nil
	}
}
