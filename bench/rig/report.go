package rig

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/page"
)

// Report returns the writer for the report of the benchmark name: the standard output, and the file out, or if
// that is "" a file in results/ with today's date; a short run has no file then. done closes it,
// and writes an HTML page of it beside it.
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
	done = func() {
		if err := f.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: close %s: %v\n", name, out, err)
		}
		r, err := page.Write(out)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: the page of %s: %v\n", name, out, err)
			return
		}
		fmt.Fprintf(os.Stderr, "%s: the same as a page: %s\n", name, filepath.Join(filepath.Dir(out), r.Page()))
	}
	return io.MultiWriter(os.Stdout, f), done, nil
}
