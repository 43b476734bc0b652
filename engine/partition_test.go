package engine_test

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// TestPartition has the examples of the Redis Cluster specification.
func TestPartition(t *testing.T) {
	for key, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"{user1000}.following":      "user1000",
		"k\x00{user1000}.followers": "user1000",
		"foo{}{bar}":                "foo{}{bar}",
		"foo{{bar}}zap":             "{bar",
		"foo{bar}{zap}":             "bar",
		"}a{b":                      "}a{b",
		"a{b":                       "a{b",
	} {
		if got := engine.Partition([]byte(key)); string(got) != want {
			t.Errorf("Partition(%q) = %q, want %q", key, got, want)
		}
	}
}
