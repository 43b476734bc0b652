//go:build !unix

package journal

import (
	"errors"
	"fmt"
)

// Lock has no implementation here, and running without the lock would let two
// processes destroy one log.
func (osFS) Lock(path string) (unlock func() error, err error) {
	return nil, fmt.Errorf("lock %s: %w on this system", path, errors.ErrUnsupported)
}
