package client_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// detour redirects connections to one name elsewhere, or fails them while closed.
type detour struct {
	from, to string
	closed   atomic.Bool
}

func (d *detour) dial(ctx context.Context, addr string) (net.Conn, error) {
	if addr == d.from {
		if d.closed.Load() {
			return nil, errors.New("there is no such name")
		}
		addr = d.to
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}
