// Package hostname checks the host names of requests.
//
// It knows which of them cannot belong to a foreign web page; it must not know requests, or what is served.
package hostname

import (
	"net"
	"net/netip"
	"strings"
)

// Trusted reports whether host, with or without a port, cannot be the name of a foreign web page that resolves
// to this machine (DNS rebinding). That is an IP address, a name without a dot, one of localhost, or one of
// names, in which "*" matches every name.
func Trusted(host string, names []string) bool {
	if strings.Contains(host, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	// A public domain has a dot; names without one belong to the local network.
	if !strings.ContainsAny(host, ".:") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if len(host) > len(".localhost") && strings.EqualFold(host[len(host)-len(".localhost"):], ".localhost") {
		return true
	}
	for _, h := range names {
		if h == "*" || strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

// Loopback reports whether host, with or without a port, is a loopback address or localhost. Only this machine can reach those.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}
