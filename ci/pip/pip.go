// Package pip installs packages of Python for tests.
//
// It knows pip and the user's cache. It must not know what the packages are for.
package pip

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install installs what a file of requirements names, once, and returns the folder
// with it, for PYTHONPATH. It is a folder of the user's cache, named after the file's
// contents. Several processes may call Install at once.
func Install(requirements string) (dir string, err error) {
	text, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "skerry")
	dir = filepath.Join(cache, fmt.Sprintf("python-%.6x", sha256.Sum256(text)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(cache, "python-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }() // gone if it was renamed
	cmd := exec.Command("python3", "-m", "pip", "install", "--quiet", "--target", temp, "-r", requirements)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip install of %s: %w: %s", requirements, err, out)
	}
	err = os.Rename(temp, dir)
	if _, other := os.Stat(dir); other == nil {
		return dir, nil // this process or another one has made it
	}
	return "", err
}
