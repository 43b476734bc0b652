package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/skerrydb/skerry/journal"
)

// Ports of the first node; the next ones have the next.
const (
	devHTTP  = 7001
	devRESP  = 6380
	devNode1 = 7101
	devAdmin = 7201
)

// loopback reads an address that only this machine reaches.
func loopback(p *string) func(string) error {
	return func(v string) error {
		var addr string
		if err := address(&addr)(v); err != nil || addr == off {
			return fmt.Errorf("%q is not HOST:PORT", v)
		}
		if public(addr) {
			return fmt.Errorf("%s can be reached from other machines, which debug mode is not for: 127.0.0.1:%s is for this one", v, portIn(addr))
		}
		*p = addr
		return nil
	}
}

func portIn(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic("BUG: address " + addr)
	}
	return port
}

// devNodes returns the nodes of the folder: those of the last time, or new ones
// on ports that are free now.
func devNodes(p process, o *devOptions) (nodes []devNode, err error) {
	name := filepath.Join(o.data, devFile)
	text, err := os.ReadFile(name)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &nodes); err != nil || len(nodes) == 0 {
			return nil, fmt.Errorf("%s is damaged; remove %s to begin anew, without its data", name, o.data)
		}
		for i, n := range nodes {
			if n.Admin == "" { // an older version has written it
				nodes[i].Admin = devAddress(devAdmin + i)
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		if nodes, err = chooseAddresses(p, o); err != nil {
			return nil, err
		}
	}
	if err := moveHTTP(nodes, o.http); err != nil {
		return nil, err
	}
	if err := freeAll(nodes); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(nodes); err != nil {
		return nil, err
	}
	if err := (journal.Files{FS: journal.OS()}).Write(name, text); err != nil {
		return nil, err
	}
	for i := range nodes {
		nodes[i].Dir = filepath.Join(o.data, "n"+strconv.Itoa(nodes[i].ID))
		if i > 0 {
			nodes[i].Join = nodes[0].Addr
		}
	}
	return nodes, nil
}

// moveHTTP gives the nodes the address that was asked for, and the ports after it.
func moveHTTP(nodes []devNode, http string) error {
	if http == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(http)
	if err != nil {
		return err
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for i := range nodes {
		if first != 0 {
			nodes[i].HTTP = net.JoinHostPort(host, strconv.Itoa(first+i))
			continue
		}
		l, err := net.Listen("tcp", http)
		if err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		defer l.Close() // not before all have another one
		nodes[i].HTTP = l.Addr().String()
	}
	return nil
}

// freeAll fails if an address of a node is in use.
func freeAll(nodes []devNode) error {
	for _, n := range nodes {
		if !free(n.HTTP) {
			return fmt.Errorf("node %d needs %s, which is in use; --http ADDR chooses another address", n.ID, n.HTTP)
		}
		for _, addr := range []string{n.RESP, n.Admin, n.Addr} {
			if !free(addr) {
				return fmt.Errorf("node %d needs %s, which is in use; --data DIR chooses another folder, with addresses of its own", n.ID, addr)
			}
		}
	}
	return nil
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func devAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// chooseAddresses takes ports that are easily remembered, and for each that is in
// use another one, which it tells.
func chooseAddresses(p process, o *devOptions) (nodes []devNode, err error) {
	var taken []net.Listener // until all are chosen, so that no two are the same
	defer func() {
		for _, l := range taken {
			l.Close()
		}
	}()
	for i := range o.nodes {
		n := devNode{ID: i + 1}
		for _, face := range []struct {
			name string
			addr *string
			port int
			used bool
		}{{"HTTP", &n.HTTP, devHTTP, o.http == ""}, {"Redis", &n.RESP, devRESP, true}, {"admin", &n.Admin, devAdmin, true}, {"nodes", &n.Addr, devNode1, o.nodes > 1}} {
			l, err := net.Listen("tcp", devAddress(face.port+i))
			if err != nil {
				if l, err = net.Listen("tcp", devAddress(0)); err != nil {
					return nil, err
				}
				if face.used {
					fmt.Fprintf(p.Stderr, "%s: %d is in use: %s instead\n", face.name, face.port+i, portIn(l.Addr().String()))
				}
			}
			taken = append(taken, l)
			*face.addr = l.Addr().String()
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
