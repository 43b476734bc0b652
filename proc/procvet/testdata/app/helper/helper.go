// Package helper knows nothing of procedures.
package helper

import (
	"time"

	"example.com/app/helper/deep"
)

// Hits counts.
var Hits int

// Client does I/O in a method.
type Client struct{ n int }

// Get does.
func (c *Client) Get() string { return deep.Load() }

// Count writes through its receiver.
func (c *Client) Count() { c.n++ }

// Fetch does I/O two packages away.
func Fetch() string { return fetch() }

func fetch() string { return deep.Load() }

// Calm has leave.
func Calm() int {
	return time.Now().Day() //skerry:allow it is for a test
}

// Pure computes.
func Pure(n int) int { return n * 2 }

// Generic does I/O whatever its type is.
func Generic[T any](v T) T {
	deep.Load()
	return v
}
