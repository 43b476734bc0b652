package web

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// StreamStall is how long a client may take for what one write of a file or a stream
// sends it. The server's time limit for a whole answer does not hold for these.
const StreamStall = 30 * time.Second

// CodeRangeNotSatisfiable is the code of a range of a file that has no such bytes.
const CodeRangeNotSatisfiable engine.Code = "range_not_satisfiable"

// noSuchFile says why a file cannot be opened. What a file system refuses by itself, as
// an os.Root refuses a symbolic link that leads out of it, is not there for clients; what
// the operating system fails with is a fault, unless it means the same.
func noSuchFile(err error) error {
	var of *fs.PathError
	var failed syscall.Errno
	none := errors.As(err, &of) && !errors.As(of.Err, &failed)
	for _, e := range []error{fs.ErrNotExist, fs.ErrInvalid, syscall.EINVAL, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP} {
		none = none || errors.Is(err, e)
	}
	if none {
		return engine.Errorf(engine.CodeNotFound, "there is no such file")
	}
	return engine.Errorf(engine.CodeInternal, "web: open a file to serve: %w", err)
}

// content answers with what content reads; guard, if not nil, sets the headers of an
// answer with content.
func (c *Context) content(name string, modified time.Time, content io.ReadSeeker, guard func(http.Header)) error {
	d := c.x.deadlines()
	defer d.endWrite()
	w := &rangeWriter{pacedWriter: pacedWriter{c.Writer, d}, guard: guard}
	http.ServeContent(w, c.Request, name, modified, content)
	switch w.refused {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		return Errorf(w.refused, CodeRangeNotSatisfiable, "the file has no such range of bytes")
	}
	return engine.Errorf(engine.CodeInternal, "web: %s cannot be served", name)
}

// rangeWriter suppresses the error answers of ServeContent, which have a form of their own.
type rangeWriter struct {
	pacedWriter
	guard   func(http.Header) // nil: none
	refused int               // the status of an error that ServeContent began to answer, 0: none
}

// WriteHeader implements http.ResponseWriter.
func (w *rangeWriter) WriteHeader(status int) {
	if status >= 400 && status != http.StatusPreconditionFailed {
		w.refused = status
		return
	}
	if w.guard != nil {
		w.guard(w.Header())
	}
	w.pacedWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused != 0 {
		return len(p), nil
	}
	return w.pacedWriter.Write(p)
}

// Attachment makes what is answered next a file that browsers save, under that name,
// which may come from a user: it is made safe as SafeFileName does. The name is
// written as RFC 6266 has it, and once more in ASCII for old clients.
func (c *Context) Attachment(name string) {
	c.Header()["Content-Disposition"] = []string{disposition("attachment", SafeFileName(name))}
}

// disposition writes a Content-Disposition; name is safe, but not ASCII.
func disposition(kind, name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	out := kind + `; filename="` + ascii + `"`
	if ascii != name {
		// RFC 8187: what PathEscape leaves as it is, attr-char has but for these.
		escaped := strings.NewReplacer(":", "%3A", "@", "%40", "=", "%3D", "'", "%27", "(", "%28", ")", "%29", "*", "%2A", ",", "%2C", ";", "%3B", "/", "%2F").Replace(url.PathEscape(name))
		out += "; filename*=UTF-8''" + escaped
	}
	return out
}

// Stream answers with all that from reads, as it comes, in a type of its own. If
// from fails before its first byte, that is the answer; later, the connection is
// cut off, so that the client cannot take a part for the whole.
func (c *Context) Stream(status int, mediaType string, from io.Reader) error {
	buf := make([]byte, 32<<10)
	n, err := from.Read(buf)
	for ; n == 0 && err == nil; n, err = from.Read(buf) {
		if c.Err() != nil {
			return c.Err()
		}
	}
	if err != nil && err != io.EOF {
		return err
	}
	d := c.x.deadlines()
	defer d.endWrite()
	c.Header()["Content-Type"] = []string{mediaType}
	c.Writer.WriteHeader(status)
	w := &pacedWriter{c.Writer, d}
	for {
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return nil // there is nobody to tell
			}
			if err == nil {
				_ = w.FlushError()
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		n, err = from.Read(buf)
	}
}
