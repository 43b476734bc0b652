package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedProto = "X-Forwarded-Proto"
)

// client returns the address of the client, without a port: that of the connection, or the one that a trusted
// proxy reports. See Context.ClientIP.
func (x *exchange) client(r *http.Request) string {
	addr := hostOf(r.RemoteAddr)
	hops := r.Header[forwardedFor]
	if !x.fromNode && (len(hops) == 0 || !x.app.trusts(addr)) {
		return addr
	}
	// From the nearest hop outwards, as long as hops are trusted.
	for i := len(hops) - 1; i >= 0; i-- {
		line := hops[i]
		for line != "" {
			at := strings.LastIndexByte(line, ',')
			hop := strings.TrimSpace(line[at+1:])
			ip, err := netip.ParseAddr(hostOf(hop))
			if err != nil {
				return addr // hops before it cannot be believed
			}
			if addr = ip.Unmap().String(); !x.app.trusts(addr) {
				return addr
			}
			line = line[:max(at, 0)]
		}
	}
	return addr
}

// secure reports whether the browser's connection is encrypted.
func (x *exchange) secure(r *http.Request) bool {
	if r.TLS != nil && !x.fromNode { // another node's connection is not the browser's
		return true
	}
	proto := r.Header[forwardedProto]
	return len(proto) == 1 && proto[0] == "https" && (x.fromNode || x.app.trusts(hostOf(r.RemoteAddr)))
}

func (a *App) trusts(addr string) bool {
	if len(a.o.TrustedProxies) == 0 {
		return false
	}
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return false
	}
	for _, p := range a.o.TrustedProxies {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

// hostOf returns addr without its port, if it has one.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return strings.Trim(addr, "[]")
}

// ClientIP returns the address of the client, without a port. Behind the proxies of Options.TrustedProxies it
// is the address that they report. What clients claim about themselves is never believed.
func (c *Context) ClientIP() string { return c.x.client(c.Request) }

// FromNode reports whether another node of the cluster forwarded the request.
func (c *Context) FromNode() bool { return c.x.fromNode }

// Secure reports whether the browser's connection is encrypted, here or at a
// trusted proxy.
func (c *Context) Secure() bool { return c.x.secure(c.Request) }
