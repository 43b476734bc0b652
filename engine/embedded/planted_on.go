//go:build planted

package embedded

import "os"

var fault = os.Getenv("SKERRY_TEST_FAULT")

// planted reports whether this fault is to be made on purpose, so that a test
// can see whether it is found.
func planted(name string) bool { return name == fault }
