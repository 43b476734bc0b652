package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/skerrydb/skerry/graph/files"
)

// graphInputs are the files that an import reads, several times. What can be read only once is copied to temporary
// files.
type graphInputs struct {
	stdin  io.Reader
	copies []*os.File
}

// file returns the file with a name; - is standard input. Ids of edges come from the name if that is always the same.
func (in *graphInputs) file(ctx context.Context, name string) (files.File, error) {
	if name == "-" {
		return in.copied(ctx, "standard input", in.stdin)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return files.File{}, err
	case info.IsDir():
		return files.File{}, fmt.Errorf("%s is a folder: name its files", name)
	case info.Mode().IsRegular():
		return files.File{Name: name, Size: info.Size(), EdgeIDs: filepath.Base(name) + "#", Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return files.File{}, err
	}
	defer f.Close()
	return in.copied(ctx, name, f)
}

// copied returns a copy of what from has.
func (in *graphInputs) copied(ctx context.Context, name string, from io.Reader) (files.File, error) {
	f, err := os.CreateTemp("", "skerry-graph-*.tmp")
	if err != nil {
		return files.File{}, err
	}
	in.copies = append(in.copies, f)
	os.Remove(f.Name()) // where the system allows that, nothing is left of a process that is killed
	n, err := io.Copy(f, &untilDone{ctx, from})
	if err != nil {
		return files.File{}, fmt.Errorf("copy %s to a temporary file: %w", name, err)
	}
	return files.File{Name: name, Size: n, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, n)), nil
	}}, nil
}

// close removes the copies.
func (in *graphInputs) close() (err error) {
	for _, f := range in.copies {
		err = errors.Join(err, f.Close())
		os.Remove(f.Name()) // it may be gone already
	}
	return err
}

// untilDone reads until a context is done.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader. After the context is done, a read may go on in the background with its own buffer.
func (r *untilDone) Read(b []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	own := make([]byte, len(b))
	go func() {
		n, err := r.from.Read(own)
		done <- result{own[:n], err}
	}()
	select {
	case got := <-done:
		return copy(b, got.b), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
