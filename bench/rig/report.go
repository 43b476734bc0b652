package rig

import (
	"io"
	"os"
	"path/filepath"
	"time"
)

// Report returns where the report of the benchmark name goes: to the standard output,
// and to the file out, or if that is "" to one in results/ with today's date, but for
// a short run, which has none. done closes it.
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
