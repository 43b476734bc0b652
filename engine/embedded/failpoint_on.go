//go:build failpoints

package embedded

import "os"

var fault = os.Getenv("SKERRY_TEST_FAULT")

// failpoint reports whether the named fault is injected, so that a test can
// check that the simulation finds it.
func failpoint(name string) bool { return name == fault }
