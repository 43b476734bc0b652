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

// StreamStall is how long a client may take to receive one write of a file or a stream. The server's time
// limit for a whole response does not apply to these.
const StreamStall = 30 * time.Second

// CodeRangeNotSatisfiable is the code for a range that lies outside of a file.
const CodeRangeNotSatisfiable engine.Code = "range_not_satisfiable"

// noSuchFile turns the error of opening a file into a problem. A refusal of the file system itself, for
// example by an os.Root of a symbolic link that leads out of it, means that the file does not exist. An error
// of the operating system is a fault, unless it means the same.
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

// content responds with what content reads. guard, if not nil, sets the headers of a response with content.
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

// rangeWriter suppresses the error responses of ServeContent; content makes its own.
type rangeWriter struct {
	pacedWriter
	guard   func(http.Header) // nil: none
	refused int               // the status of an error with which ServeContent began to respond, 0: none
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

// Attachment makes browsers download the next response as a file with that name. The name may come from a
// user; it is made safe as by SafeFileName. It is encoded as in RFC 6266, and again in ASCII for old clients.
func (c *Context) Attachment(name string) {
	c.Header()["Content-Disposition"] = []string{disposition("attachment", SafeFileName(name))}
}

// disposition returns a Content-Disposition; name must be safe, but may not be ASCII.
func disposition(kind, name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	out := kind + `; filename="` + ascii + `"`
	if ascii != name {
		// RFC 8187: of the characters that PathEscape leaves alone, attr-char lacks these.
		escaped := strings.NewReplacer(":", "%3A", "@", "%40", "=", "%3D", "'", "%27", "(", "%28", ")", "%29", "*", "%2A", ",", "%2C", ";", "%3B", "/", "%2F").Replace(url.PathEscape(name))
		out += "; filename*=UTF-8''" + escaped
	}
	return out
}

// Stream responds with all that it reads from from, as it arrives, as mediaType. If from fails before its
// first byte, Stream returns the error. If from fails later, Stream closes the connection, so that the client
// cannot mistake a part for the whole.
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
				return nil // the client is gone
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
