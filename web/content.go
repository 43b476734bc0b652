package web

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// ContentCSP is the Content-Security-Policy of what File, FileFS and Content serve: it
// may be shown, and runs nothing.
const ContentCSP = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

// contentTypes are the media types that are recognised, with the extension that a file
// of each gets, and whether browsers may show it: only types that cannot hold a script
// are shown, everything else is saved.
var contentTypes = map[string]struct {
	ext   string
	shown bool
}{
	"image/png":       {".png", true},
	"image/jpeg":      {".jpg", true},
	"image/gif":       {".gif", true},
	"image/webp":      {".webp", true},
	"image/avif":      {".avif", true},
	"image/bmp":       {".bmp", false},
	"image/x-icon":    {".ico", false},
	"audio/mpeg":      {".mp3", true},
	"audio/wave":      {".wav", true},
	"application/ogg": {".ogg", true},
	"video/mp4":       {".mp4", true},
	"video/webm":      {".webm", true},
	"video/avi":       {".avi", false},
	"application/pdf": {".pdf", false},
	"application/zip": {".zip", false},

	"application/x-gzip": {".gz", false},
	"text/plain":         {".txt", false},
}

// unknownExt is the extension of files of all other types: HTML, XML and SVG too.
const unknownExt = ".bin"

// sniff returns the media type of a file by its first bytes, at most sniffed of them
// (https://mimesniff.spec.whatwg.org), and AVIF's.
func sniff(head []byte) string {
	if len(head) >= 12 && string(head[4:8]) == "ftyp" && (string(head[8:12]) == "avif" || string(head[8:12]) == "avis") {
		return "image/avif"
	}
	return http.DetectContentType(head)
}

// extensionOf is the extension of files of a media type.
func extensionOf(media string) string {
	if t, ok := contentTypes[media]; ok {
		return t.ext
	}
	return unknownExt
}

// File answers with a file of this machine, as Content does. The path must be the
// program's own: for names from clients, make os.OpenRoot(dir).FS() and use FileFS. A
// folder, or what does not exist, is engine.CodeNotFound.
func (c *Context) File(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return noSuchFile(err)
	}
	defer f.Close()
	return c.serveFile(filepath.Base(path), f, c.Content)
}

// FileFS is File for a file of fsys, whose files must be io.Seekers, as those of
// embed, os.DirFS and os.Root are.
func (c *Context) FileFS(fsys fs.FS, name string) error { return c.serveFS(fsys, name, c.Content) }

// Content answers with what content reads, with ranges and conditions by modified
// (unless it is zero) and by an ETag that the handler has set. It is safe for content
// that anyone has uploaded: the media type is that of the first bytes, not that of the
// name or of a header that the handler has set, browsers may not guess another one, and
// the answer has ContentCSP. Browsers show PNG, JPEG, GIF, WebP, AVIF, MP3, WAV, Ogg,
// MP4 and WebM; everything else, as HTML, SVG and PDF, they save under the name, which
// Attachment changes.
func (c *Context) Content(name string, modified time.Time, content io.ReadSeeker) error {
	head := make([]byte, sniffed)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return engine.Errorf(engine.CodeInternal, "web: read %s to serve it: %w", name, err)
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return engine.Errorf(engine.CodeInternal, "web: read %s to serve it: %w", name, err)
	}
	media := sniff(head[:n])
	c.Header()["Content-Type"] = []string{media}
	return c.content(name, modified, content, func(h http.Header) { // Content-Type may be multipart/byteranges by now
		h["X-Content-Type-Options"] = []string{"nosniff"}
		h["Content-Security-Policy"] = []string{ContentCSP}
		delete(h, "Content-Security-Policy-Report-Only")
		if h["Content-Disposition"] == nil && !contentTypes[media].shown {
			h["Content-Disposition"] = []string{disposition("attachment", SafeFileName(name))}
		}
	})
}

// TrustedFile is File for a file that comes with the program: see TrustedContent.
func (c *Context) TrustedFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return noSuchFile(err)
	}
	defer f.Close()
	return c.serveFile(filepath.Base(path), f, c.TrustedContent)
}

// TrustedFileFS is FileFS for files that come with the program: see TrustedContent.
func (c *Context) TrustedFileFS(fsys fs.FS, name string) error {
	return c.serveFS(fsys, name, c.TrustedContent)
}

// TrustedContent is Content for what the program itself has made: its type is that of
// name's extension, if the handler has set none, and browsers show it, and run it, as a
// page of the application. Content that comes from users must never be served with it.
func (c *Context) TrustedContent(name string, modified time.Time, content io.ReadSeeker) error {
	return c.content(name, modified, content, nil)
}

// serveContent is Content or TrustedContent.
type serveContent func(name string, modified time.Time, content io.ReadSeeker) error

func (c *Context) serveFS(fsys fs.FS, name string, serve serveContent) error {
	if !fs.ValidPath(name) {
		return noSuchFile(fs.ErrNotExist)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return noSuchFile(err)
	}
	defer f.Close()
	return c.serveFile(name, f, serve)
}

func (c *Context) serveFile(name string, f fs.File, serve serveContent) error {
	info, err := f.Stat()
	if err != nil {
		return noSuchFile(err)
	}
	if !info.Mode().IsRegular() {
		return noSuchFile(fs.ErrNotExist)
	}
	content, ok := f.(io.ReadSeeker)
	if !ok {
		return engine.Errorf(engine.CodeInternal, "web: %s cannot be read in parts: %T has no Seek", name, f)
	}
	return serve(name, info.ModTime(), content)
}
