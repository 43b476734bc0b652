// Package deep does I/O.
package deep

import "os"

// Load reads a file.
func Load() string {
	b, err := os.ReadFile("x")
	if err != nil {
		return ""
	}
	return string(b)
}
