// Package npm installs packages of npm for tests.
//
// It knows npm and the repository's cache. It must not know what the packages are for.
package npm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install installs the packages of from/package-lock.json, once, and returns the folder with their node_modules. It is
// a folder of the repository's cache, named name and after the lock file. Files of from that more names are copied
// into it each time. Several processes may call Install at once.
func Install(name, from string, more ...string) (dir string, err error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		return "", err
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(root, ".cache")
	dir = filepath.Join(cache, fmt.Sprintf("node-%s-%.6x", name, sha256.Sum256(lock)))
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := install(npm, from, cache, dir); err != nil {
			return "", err
		}
	}
	return dir, copyFiles(dir, from, more...)
}

// install installs into a folder that becomes dir when it is complete.
func install(npm, from, cache, dir string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(cache, "node-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // gone if it was renamed
	if err := copyFiles(temp, from, "package.json", "package-lock.json"); err != nil {
		return err
	}
	cmd := exec.Command(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci of %s: %w: %s", from, err, out)
	}
	err = os.Rename(temp, dir)
	if _, other := os.Stat(dir); other == nil {
		return nil // this process or another one has made it
	}
	return err
}

func copyFiles(to, from string, names ...string) error {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repository returns the folder of the repository's go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no folder above this one has a go.mod")
		}
		dir = up
	}
	return "", err
}
