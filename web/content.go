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

// ContentCSP is the Content-Security-Policy of what File, FileFS and Content serve: browsers may show it, but
// it runs nothing.
const ContentCSP = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

// contentTypes are the recognised media types, with the extension for files of each type, and whether browsers
// may show it. Only types that cannot contain scripts are shown; everything else is downloaded.
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

// unknownExt is the extension of files of all other types, including HTML, XML and SVG.
const unknownExt = ".bin"

// sniff returns the media type of a file by its first bytes, at most sniffed of them
// (https://mimesniff.spec.whatwg.org), and also recognises AVIF.
func sniff(head []byte) string {
	if len(head) >= 12 && string(head[4:8]) == "ftyp" && (string(head[8:12]) == "avif" || string(head[8:12]) == "avis") {
		return "image/avif"
	}
	return http.DetectContentType(head)
}

// extensionOf returns the extension for files of a media type.
func extensionOf(media string) string {
	if t, ok := contentTypes[media]; ok {
		return t.ext
	}
	return unknownExt
}

// File responds with a file of this machine, as Content does. The path must be the program's own: for names
// from clients, use FileFS with os.OpenRoot(dir).FS(). If the path does not exist or is a folder, File fails
// with engine.CodeNotFound.
func (c *Context) File(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return noSuchFile(err)
	}
	defer f.Close()
	return c.serveFile(filepath.Base(path), f, c.Content)
}

// FileFS is File for a file of fsys, whose files must implement io.Seeker, as those of embed, os.DirFS and
// os.Root do.
func (c *Context) FileFS(fsys fs.FS, name string) error { return c.serveFS(fsys, name, c.Content) }

// Content responds with what content reads. It supports ranges and conditional requests, by modified (unless
// it is zero) and by an ETag that the handler has set. It is safe for content that anyone has uploaded: the
// media type is determined by the first bytes, not by the name or by a header that the handler has set,
// browsers must not guess another one, and the response has ContentCSP. Browsers show PNG, JPEG, GIF, WebP,
// AVIF, MP3, WAV, Ogg, MP4 and WebM. They download everything else, such as HTML, SVG and PDF, under the given
// name, which Attachment can change.
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

// TrustedFile is File for a file that comes with the program; see TrustedContent.
func (c *Context) TrustedFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return noSuchFile(err)
	}
	defer f.Close()
	return c.serveFile(filepath.Base(path), f, c.TrustedContent)
}

// TrustedFileFS is FileFS for files that come with the program; see TrustedContent.
func (c *Context) TrustedFileFS(fsys fs.FS, name string) error {
	return c.serveFS(fsys, name, c.TrustedContent)
}

// TrustedContent is Content for what the program itself has made. The media type is that of name's extension,
// unless the handler has set one. Browsers show and run it as a page of the application. Never use it for
// content that comes from users.
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
