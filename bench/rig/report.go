package rig

import (
	"io"
	"os"
	"path/filepath"
	"time"
)

// Report returns the writer for the report of the benchmark name: the standard output, and the file out, or if
// that is "" a file in results/ with today's date; a short run has no file then. done closes it.
func Report(out, name string, short bool) (w io.Writer, done func(), err error) {
	if out == "" && !short {
		out = filepath.Join("results", name+"-"+time.Now().Format("2006-01-02")+".txt")
	}
	if out == "" {
		return os.Stdout, func() {}, nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return nil, nil, err
	}
	f, err := os.Create(out)
	if err != nil {
		return nil, nil, err
	}
	return io.MultiWriter(os.Stdout, f), func() { f.Close() }, nil
}
