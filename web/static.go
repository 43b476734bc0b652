package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// asset is one file as it was read. It never changes.
type asset struct {
	name  string
	url   string // with tag in it
	tag   string // part of the hash, in the address
	size  int64
	mod   time.Time
	data  []byte   // nil: not kept in memory
	etag  []string // the header
	media []string // the header
}

// tagChars is how many characters of a file's hash are in its address. They only need to distinguish versions
// of one file, not any two files.
const tagChars = 8

// read reads a file, and keeps its data if that is at most keep bytes long.
func (a *Assets) read(name string, keep int64) (*asset, error) {
	info, err := a.stat(name)
	if err != nil {
		return nil, err
	}
	from, err := a.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	f := &asset{name: name, size: info.Size(), mod: info.ModTime(), media: []string{mediaType(name)}}
	sum := sha256.New()
	switch {
	case f.size <= keep:
		if f.data, err = io.ReadAll(io.LimitReader(from, keep+1)); err == nil && int64(len(f.data)) > keep {
			err = fmt.Errorf("%s grew while it was read", name)
		}
		f.size = int64(len(f.data))
		sum.Write(f.data)
	case a.o.Reload: // every request reads the file
		fmt.Fprint(sum, f.size, f.mod.UnixNano())
	default:
		_, err = io.Copy(sum, from)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	f.tag, f.etag = hash[:tagChars], []string{`"` + hash[:32] + `"`}
	f.url = a.escaped(tagged(name, f.tag))
	return f, nil
}

// stat checks whether a file may be served.
func (a *Assets) stat(name string) (fs.FileInfo, error) {
	for i := 0; a.o.Dir == "" && i >= 0; { // an os.Root checks where links lead
		next := strings.IndexByte(name[i:], '/')
		at := name
		if next >= 0 {
			at = name[:i+next]
			i += next + 1
		} else {
			i = -1
		}
		if info, err := fs.Lstat(a.fsys, at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link, which is served only if AssetOptions.Dir names the folder", at)
		}
	}
	info, err := fs.Stat(a.fsys, name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, or a link to one, which is not followed: %w", name, fs.ErrNotExist)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return info, nil
}

// servable reports whether a file with that name may be served: it must not be hidden, lead elsewhere, or mean
// something else on another system.
func servable(name string) bool {
	if len(name) > MaxAssetName || !fs.ValidPath(name) || strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x20 || r == 0x7f || strings.ContainsRune(`\:*?"<>|`, r)
	}) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part[0] == '.' || strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") || isDevice(part) {
			return false
		}
	}
	return true
}

// isDevice reports whether Windows treats a name as a device, ignoring everything after a dot.
func isDevice(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	switch stem = strings.ToUpper(strings.TrimRight(stem, " ")); stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	number, found := strings.CutPrefix(stem, "COM")
	if !found {
		number, found = strings.CutPrefix(stem, "LPT")
	}
	return found && strings.Contains("0123456789¹²³", number) && len([]rune(number)) == 1
}

// tagged inserts a part of the hash before the extension of a name.
func tagged(name, tag string) string {
	ext := path.Ext(name)
	return strings.TrimSuffix(name, ext) + "." + tag + ext
}

// untagged splits the tag, which may be "", from a name.
func untagged(name string) (plain, tag string) {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if at := strings.LastIndexByte(stem, '.'); at > 0 && isTag(stem[at+1:]) {
		return stem[:at] + ext, stem[at+1:]
	}
	if ext != "" && isTag(ext[1:]) {
		return stem, ext[1:]
	}
	return name, ""
}

func isTag(s string) bool {
	return len(s) == tagChars && strings.Trim(s, "0123456789abcdef") == ""
}

// escaped returns the address of a file under the prefix.
func (a *Assets) escaped(name string) string {
	return (&url.URL{Path: a.o.Prefix + name}).EscapedPath()
}

// How long browsers may cache a file: forever under the address with its hash, otherwise they must revalidate
// it.
var (
	keepForever = []string{"public, max-age=31536000, immutable"}
	askAgain    = []string{"no-cache"}
)

// serve responds with the file at an address.
func (a *Assets) serve(w http.ResponseWriter, r *http.Request, name string) error {
	f, cache := a.find(name), askAgain
	if f == nil {
		plain, tag := untagged(name)
		if tag != "" {
			f = a.find(plain)
		}
		switch {
		case f == nil:
			return engine.Errorf(problem.CodeNoRoute, "there is no such file")
		case f.tag == tag:
			cache = keepForever
		}
		// Another tag belongs to another version of the program, which may run on another node. This version is
		// better than nothing, but must not be cached forever.
	}
	content, f, err := a.content(f)
	if err != nil {
		return err
	}
	defer content.Close()
	if f.tag == "" { // changed since it was listed
		cache = askAgain
	}
	h := w.Header()
	h["Content-Type"] = f.media
	h["Etag"] = f.etag
	h["Cache-Control"] = cache
	h["X-Content-Type-Options"] = []string{"nosniff"}
	http.ServeContent(w, r, "", f.mod, content)
	return nil
}

// readSeekCloser is the data of a file.
type readSeekCloser interface {
	io.ReadSeeker
	io.Closer
}

// inMemory is a file that was kept in memory.
type inMemory struct{ bytes.Reader }

// Close implements io.Closer.
func (*inMemory) Close() error { return nil }

// content opens a file. One that is not kept may have changed since it was listed; the returned asset then has
// no tag.
func (a *Assets) content(f *asset) (readSeekCloser, *asset, error) {
	if f.data != nil || f.size == 0 {
		m := new(inMemory)
		m.Reset(f.data)
		return m, f, nil
	}
	from, err := a.fsys.Open(f.name)
	if err != nil {
		return nil, nil, engine.Errorf(problem.CodeNoRoute, "there is no such file any more")
	}
	content, ok := from.(readSeekCloser)
	info, err := from.Stat()
	if err != nil || !ok {
		from.Close()
		return nil, nil, engine.Errorf(engine.CodeInternal, "assets: %s is over %d bytes, and its file system cannot seek (%v)", f.name, MaxKeptAsset, err)
	}
	if info.Size() != f.size || !info.ModTime().Equal(f.mod) {
		f = &asset{name: f.name, mod: info.ModTime(), media: f.media, etag: []string{fmt.Sprintf(`"%x-%x"`, info.Size(), info.ModTime().UnixNano())}}
	}
	return content, f, nil
}

// addAssets adds the routes of the static files.
func (a *App) addAssets() {
	files := a.o.Assets
	add := func(pattern string, name func(*http.Request) string) {
		a.handleApart("GET "+pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := files.serve(w, r, name(r)); err != nil {
				of(w).fail(w, r, err)
			}
		}))
	}
	add(files.o.Prefix+"{path...}", func(r *http.Request) string { return r.PathValue("path") })
	for _, name := range files.o.Root {
		add((&url.URL{Path: "/" + name}).EscapedPath(), func(*http.Request) string { return name })
	}
}

// handleApart adds a route that is independent of the data: it needs no session and waits for no position.
func (a *App) handleApart(pattern string, h http.Handler) {
	a.Handle(pattern, h)
	rt := a.routes[len(a.routes)-1]
	rt.local, rt.session = true, false
}

// mediaType returns the media type of a file by its extension. It ignores the host's own table, so that it is
// the same everywhere.
func mediaType(name string) string {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".css", ".csv", ".html":
		return "text/" + ext[1:] + "; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".txt", ".md":
		return "text/plain; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".xml", ".pdf", ".wasm", ".zip":
		return "application/" + ext[1:]
	case ".svg":
		return "image/svg+xml"
	case ".jpg":
		return "image/jpeg"
	case ".ico":
		return "image/x-icon"
	case ".avif", ".gif", ".jpeg", ".png", ".webp":
		return "image/" + ext[1:]
	case ".otf", ".ttf", ".woff", ".woff2":
		return "font/" + ext[1:]
	case ".mp3":
		return "audio/mpeg"
	case ".ogg", ".wav", ".flac":
		return "audio/" + ext[1:]
	case ".mp4", ".webm":
		return "video/" + ext[1:]
	}
	return "application/octet-stream"
}
