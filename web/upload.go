package web

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of uploads where UploadOptions does not say otherwise.
const (
	// DefaultMaxFileBytes is UploadOptions.MaxFileBytes if that is 0.
	DefaultMaxFileBytes = 32 << 20
	// DefaultMaxUploadBytes is UploadOptions.MaxBytes if that is 0.
	DefaultMaxUploadBytes = 64 << 20
	// DefaultMaxFiles is UploadOptions.MaxFiles if that is 0.
	DefaultMaxFiles = 20
	// MaxFileName is the longest name of an uploaded file, in bytes. A longer one
	// is truncated, but keeps its extension.
	MaxFileName = 120

	// UploadStall is how long an upload may take for each UploadPace bytes. The
	// server's time limit for a whole request does not hold for uploads.
	UploadStall = 30 * time.Second
	// UploadPace is a number of bytes; see UploadStall.
	UploadPace = 64 << 10

	sniffed = 512 // bytes that a media type is seen by
)

// UploadOptions bounds what Context.Uploads accepts. The zero value has the defaults.
type UploadOptions struct {
	MaxFileBytes int64 // of one file; 0 is DefaultMaxFileBytes
	MaxBytes     int64 // of the whole body, in place of every other limit; 0 is DefaultMaxUploadBytes
	MaxFiles     int   // 0 is DefaultMaxFiles

	// Types are the accepted media types, such as "image/png" or "image/*"; empty accepts all. They are
	// compared with the type detected from the first bytes of a file (see http.DetectContentType), not with
	// what the client claims.
	Types []string

	// Fields is a pointer to a struct for the form's other fields, as for Bind. They may take Options.MaxBody
	// bytes. It is filled in after the last file. Nil: there must be no other fields.
	Fields any

	// TempDir is where File.Temp creates its files; "" is os.TempDir.
	TempDir string
}

// File is one file of an upload, as it arrives. It can be read until the function that received it returns.
// Data that is not read is skipped.
type File struct {
	Field string // its name in the form

	// Name is a safe name for storing the file: the client's, made safe by SafeFileName, with the extension for
	// Type instead of the client's, or .bin if Type has no safe one.
	Name string
	// ClientName is the client's name with its extension, made safe by SafeFileName, for display and for
	// Context.Attachment.
	ClientName string
	// Type is the media type detected from the first bytes. It does not prove that the rest is of that type.
	Type string

	c    *Context
	o    *UploadOptions
	in   io.Reader
	left int64
}

// Uploads reads a multipart/form-data body and calls each for every file, in order of arrival. An error of
// each ends the upload. Uploads keeps nothing in memory or on disk beyond what each stores itself.
//
// A body over a limit is problem.CodeBodyTooLarge (bytes) or engine.CodeLimit (files, fields). A file whose
// type is not accepted is problem.CodeMediaType, which names the field. A body that is malformed or ends early
// is problem.CodeBodyIncomplete. Earlier files have then been passed to each already; the handler must undo
// what each has stored.
func (c *Context) Uploads(o UploadOptions, each func(*File) error) error {
	o.MaxFileBytes = cmp.Or(o.MaxFileBytes, DefaultMaxFileBytes)
	o.MaxFiles = cmp.Or(o.MaxFiles, DefaultMaxFiles)
	c.x.body.limit = cmp.Or(o.MaxBytes, DefaultMaxUploadBytes)
	u := upload{c: c, o: &o, each: each, form: url.Values{}, room: c.x.app.o.MaxBody}
	end := c.paceBody()
	defer end()
	if err := c.parts(MaxFormFields+o.MaxFiles, u.part); err != nil {
		return err
	}
	if o.Fields != nil {
		return c.x.app.bindForm(u.form, o.Fields)
	}
	return nil
}

// upload is one call of Uploads.
type upload struct {
	c     *Context
	o     *UploadOptions
	each  func(*File) error
	form  url.Values
	room  int64 // bytes that fields may still take
	files int
	texts int
}

func (u *upload) part(p *multipart.Part, name, file string, isFile bool) error {
	pointer := "/" + escapePointer(name)
	if !isFile {
		if u.o.Fields == nil {
			return Wrong(pointer, "is not known")
		}
		if u.texts++; u.texts > MaxFormFields {
			return tooManyFields()
		}
		text, err := io.ReadAll(io.LimitReader(p, u.room+1))
		if err != nil {
			return broken(err)
		}
		if u.room -= int64(len(text)); u.room < 0 {
			return engine.Errorf(problem.CodeBodyTooLarge, "the fields of the form take more than %d bytes", u.c.x.app.o.MaxBody)
		}
		if err := u.c.x.hold(int64(len(text))); err != nil {
			return err
		}
		u.form[name] = append(u.form[name], string(text))
		return nil
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(p, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return broken(err)
	}
	if n == 0 {
		// io.EOF also if no file was chosen: browsers then send an empty name.
		if _, err := p.Read(head[:1]); err != io.EOF {
			return broken(cmp.Or(err, io.ErrUnexpectedEOF))
		}
		if file == "" {
			return nil
		}
	}
	if u.files++; u.files > u.o.MaxFiles {
		return engine.Errorf(engine.CodeLimit, "the form has more than %d files, the limit", u.o.MaxFiles)
	}
	f := &File{Field: name, ClientName: SafeFileName(file), c: u.c, o: u.o, left: u.o.MaxFileBytes,
		in: io.MultiReader(bytes.NewReader(head[:n]), p)}
	f.Type, _, _ = strings.Cut(sniff(head[:n]), ";")
	f.Name = withExtension(f.ClientName, extensionOf(f.Type))
	if !takes(u.o.Types, f.Type) {
		return problem.Faults{{Pointer: pointer, Code: problem.CodeMediaType,
			Detail: "must be " + alternatives(u.o.Types) + ", but looks like " + f.Type}}
	}
	if err := u.each(f); err != nil {
		return err
	}
	// Data that each did not read counts too.
	_, err = io.Copy(io.Discard, f)
	return err
}

// withExtension replaces the extension of a name that SafeFileName has made.
func withExtension(name, ext string) string {
	return SafeFileName(strings.TrimSuffix(name, path.Ext(name)) + ext)
}

// takes reports whether a media type is accepted.
func takes(types []string, media string) bool {
	return len(types) == 0 || slices.ContainsFunc(types, func(t string) bool {
		family, all := strings.CutSuffix(t, "*")
		return t == media || all && strings.HasPrefix(media, family)
	})
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if int64(len(p)) > f.left+1 {
		p = p[:f.left+1]
	}
	n, err := f.in.Read(p)
	if f.left -= int64(n); f.left < 0 {
		f.left = 0
		f.in = failing{problem.Faults{{Pointer: "/" + escapePointer(f.Field), Code: problem.CodeBodyTooLarge,
			Detail: "the file has more than " + bytesText(f.o.MaxFileBytes) + ", the limit"}}}
		return n - 1, f.in.(failing).err
	}
	if err != nil && err != io.EOF && f.in != (failing{err}) {
		err = broken(err)
	}
	return n, err
}

// failing is a reader that always fails.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Temp writes the file to a new temporary file, which is open at its beginning and removed after the response.
// Until then it can be renamed or linked to its final place.
func (f *File) Temp() (*os.File, error) {
	t, err := os.CreateTemp(f.o.TempDir, "upload-*")
	if err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "web: keep an upload: %w", err)
	}
	f.c.x.temps = append(f.c.x.temps, t)
	if _, err := io.Copy(t, f); err != nil {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			err = engine.Errorf(engine.CodeInternal, "web: keep an upload: %w", err)
		}
		return nil, err
	}
	if _, err := t.Seek(0, io.SeekStart); err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "web: keep an upload: %w", err)
	}
	return t, nil
}

// dropTemps removes the request's temporary files.
func (x *exchange) dropTemps() {
	for _, t := range x.temps {
		_ = t.Close() // may be closed already
		_ = os.Remove(t.Name())
	}
	x.temps = nil
}

// parts calls fn for each part of a multipart form, which may have at most most parts.
func (c *Context) parts(most int, fn func(p *multipart.Part, name, file string, isFile bool) error) error {
	if _, err := c.bodyType("multipart/form-data"); err != nil {
		return err
	}
	if err := c.fits(); err != nil {
		return err
	}
	_, params, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type")) // bodyType has checked it
	if params["boundary"] == "" {
		return engine.Errorf(problem.CodeMediaType, "Content-Type multipart/form-data must have a boundary")
	}
	if c.Request.Body == nil {
		return broken(io.EOF)
	}
	r := multipart.NewReader(c.Request.Body, params["boundary"])
	for n := 0; ; n++ {
		p, err := r.NextPart()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return broken(err)
		case n == most:
			return engine.Errorf(engine.CodeLimit, "the form has more than %d fields and files, the limit", most)
		}
		disposition, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if err != nil || disposition != "form-data" || params["name"] == "" || !utf8.ValidString(params["name"]) {
			return engine.Errorf(problem.CodeBodyIncomplete, "part %d of the form has no name: its Content-Disposition must be form-data; name=…", n+1)
		}
		file, isFile := params["filename"]
		if err := fn(p, params["name"], file, isFile); err != nil {
			return err
		}
	}
}

// noFile reports whether a part is what a browser sends if no file was chosen.
func noFile(p io.Reader, name string) (bool, error) {
	if name != "" {
		return false, nil
	}
	n, err := io.ReadFull(p, make([]byte, 1))
	if err != nil && err != io.EOF {
		return true, broken(err)
	}
	return n == 0, nil
}

// SafeFileName turns a client's name of a file into one that is safe on any system: the last element of its
// path, without control characters and characters with a special meaning, without dots or spaces at its ends,
// and at most MaxFileName bytes long. It is never empty. It is not unique: two clients can send the same name.
func SafeFileName(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, problem.Clean(string(r)) != string(r):
			return -1
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, " .")
	if len(name) > MaxFileName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.TrimRight(strings.ToValidUTF8(name[:MaxFileName-len(ext)], ""), " .") + ext
	}
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch strings.TrimRight(stem, "0123456789 ") {
	case "":
		if name == "" {
			name = "file"
		}
	case "CON", "PRN", "AUX", "NUL", "COM", "LPT": // devices, on Windows
		name = "_" + name
	}
	return name
}
