// Package other is of another module: a driver.
package other

import (
	"context"
	"net"
	"strings"
)

// Rows is behind an interface, as drivers like it.
type Rows interface {
	Next(ctx context.Context) bool
}

// Send does I/O.
func Send(ctx context.Context, text string) error {
	_, err := net.Dial("tcp", text)
	return err
}

// Format computes.
func Format(s string) string { return strings.ToUpper(s) }
