package trio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Client writes and reads single keys. When a node is lost, it uses another one for the next call. It does not
// repeat a call.
type Client interface {
	Put(ctx context.Context, key, val string) error
	Get(ctx context.Context, key string) (string, error) // "": there is none
	Close()
}

// respClient is one connection to one of several nodes.
type respClient struct {
	addrs []string
	at    int
	conn  net.Conn
	r     *bufio.Reader
	out   []byte
}

func (c *respClient) Put(ctx context.Context, key, val string) error {
	reply, err := c.call(ctx, "SET", key, val)
	if err == nil && reply != "OK" {
		err = fmt.Errorf("SET: %q", reply)
	}
	return err
}

func (c *respClient) Get(ctx context.Context, key string) (string, error) {
	return c.call(ctx, "GET", key)
}

func (c *respClient) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// call closes the connection after any error, and uses the next node for the next call.
func (c *respClient) call(ctx context.Context, args ...string) (string, error) {
	reply, err := c.try(ctx, args)
	if err != nil {
		c.Close()
		c.at = (c.at + 1) % len(c.addrs)
	}
	return reply, err
}

func (c *respClient) try(ctx context.Context, args []string) (string, error) {
	if c.conn == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", c.addrs[c.at])
		if err != nil {
			return "", err
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
	}
	end, _ := ctx.Deadline()
	if err := c.conn.SetDeadline(end); err != nil {
		return "", err
	}
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch {
	case line == "$-1":
		return "", nil
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case strings.HasPrefix(line, "$"):
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(c.r, b)
		return string(b[:n]), err
	}
	return "", errors.New(line)
}

// etcdClient is etcd's own client, which chooses the node.
type etcdClient struct{ *clientv3.Client }

func (c *etcdClient) Put(ctx context.Context, key, val string) error {
	_, err := c.Client.Put(ctx, key, val)
	return err
}

func (c *etcdClient) Get(ctx context.Context, key string) (string, error) {
	r, err := c.Client.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

func (c *etcdClient) Close() { c.Client.Close() }
