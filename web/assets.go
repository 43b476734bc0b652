package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// DefaultAssetPrefix is AssetOptions.Prefix if that is empty.
const DefaultAssetPrefix = "/assets/"

// Limits of static files.
const (
	// MaxAssets is the maximum number of files in Assets; more are
	// engine.CodeLimit.
	MaxAssets = 10_000
	// MaxKeptAsset is the largest file, in bytes, that is kept in memory. A larger
	// one is read from its source for every request.
	MaxKeptAsset = 1 << 20
	// MaxKeptAssets bounds the total bytes of files that are kept in memory. The
	// others are read from their source for every request.
	MaxKeptAssets = 64 << 20
	// MaxAssetName is the longest name of a file, with its folders, in bytes.
	MaxAssetName = 512
)

// AssetOptions configures NewAssets. One of Dir and FS is required. The files must be the program's own: their
// extensions decide their types, and scripts among them run. They must not include files that users have
// uploaded; serve those with Context.FileFS.
type AssetOptions struct {
	// Dir is a folder on disk. A symbolic link in it may lead to another file in it; links out of it are not
	// served.
	Dir string

	// FS has the files instead, for example an embed.FS. Symbolic links are not served, because their targets
	// are unknown.
	FS fs.FS

	// Prefix of the addresses. It begins and ends with a slash and is not just a slash. "" is
	// DefaultAssetPrefix.
	Prefix string

	// List names the style sheets (.css), scripts (.js) and modules (.mjs) that every page loads, in order:
	// "css/app.css".
	List []string

	// Pages names what single views load in addition, by the name of the view.
	Pages map[string][]string

	// Root names files that are also served at the top level, for example favicon.ico and robots.txt, which
	// browsers and robots request there.
	Root []string

	// Reload is for development: files are read anew for every request, and a missing file of List or Pages is
	// only a warning.
	Reload bool

	// Logger receives the warnings; nil discards them.
	Logger *slog.Logger
}

// Assets are the static files of an application, and the list of those that its pages load. The zero value has
// none. It is safe for concurrent use.
type Assets struct {
	o     AssetOptions
	fsys  fs.FS
	files map[string]*asset // by name, as NewAssets found them; never changed
	tags  template.HTML     // of List; unused with Reload, as pages
	pages map[string]template.HTML
}

// NewAssets reads all files once and computes their addresses, which change with the contents of the files. It
// ignores names that begin with a dot. It fails with engine.CodeInvalid if a file of List, Pages or Root is
// missing or the options make no sense; the error names all faults. It fails with engine.CodeLimit if there
// are too many files.
func NewAssets(o AssetOptions) (*Assets, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultAssetPrefix)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	a := &Assets{o: o, fsys: o.FS, files: map[string]*asset{}, pages: map[string]template.HTML{}}
	if err := a.open(); err != nil {
		return nil, err
	}
	if err := a.readAll(); err != nil {
		return nil, err
	}
	return a, a.list()
}

// open checks the options and opens the folder.
func (a *Assets) open() error {
	o := &a.o
	if p := o.Prefix; p == "/" || path.Clean(p)+"/" != p || p[0] != '/' || strings.ContainsAny(p, "{}?#%") {
		return engine.Errorf(engine.CodeInvalid, "assets: the prefix %q must be a path that begins and ends with a slash, like %s", p, DefaultAssetPrefix)
	}
	if (o.FS == nil) == (o.Dir == "") {
		return engine.Errorf(engine.CodeInvalid, "assets: one of Dir and FS must be set")
	}
	if o.Dir == "" {
		return nil
	}
	root, err := os.OpenRoot(o.Dir) // open as long as the Assets are used
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "assets: the folder cannot be opened: %w", err)
	}
	a.fsys = root.FS()
	return nil
}

// readAll reads files.
func (a *Assets) readAll() error {
	var kept int64
	var wrong []string
	err := fs.WalkDir(a.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.Name()[0] == '.' && d.IsDir():
			return fs.SkipDir
		case d.Name()[0] == '.' || d.IsDir():
			return nil
		case !servable(name):
			wrong = append(wrong, fmt.Sprintf("%.100q is not a valid file name on every system and in every browser; rename it", name))
			return nil
		case len(a.files) == MaxAssets:
			return engine.Errorf(engine.CodeLimit, "assets: there are more than %d files", MaxAssets)
		}
		f, err := a.read(name, min(MaxKeptAsset, MaxKeptAssets-kept))
		if err != nil {
			wrong = append(wrong, err.Error())
			return nil
		}
		kept += int64(len(f.data))
		a.files[name] = f
		return nil
	})
	if err != nil {
		return fmt.Errorf("read assets: %w", err)
	}
	return a.complain(wrong)
}

// complain returns an error that names all faults; in development it logs warnings instead.
func (a *Assets) complain(wrong []string) error {
	if a.o.Reload {
		for _, w := range wrong {
			a.o.Logger.Warn("assets: " + w)
		}
		return nil
	}
	if wrong != nil {
		return engine.Errorf(engine.CodeInvalid, "assets: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// list makes tags and pages.
func (a *Assets) list() error {
	var wrong []string
	missing := func(what, name string) {
		if a.find(name) == nil {
			wrong = append(wrong, fmt.Sprintf("%s names %q, which does not exist", what, name))
		}
	}
	listed := map[string][]string{"List": a.o.List}
	for view, names := range a.o.Pages {
		listed[fmt.Sprintf("Pages[%q]", view)] = names
	}
	for _, what := range slices.Sorted(maps.Keys(listed)) {
		for _, name := range listed[what] {
			if strings.Contains(name, "//") || strings.HasPrefix(name, "/") {
				return engine.Errorf(engine.CodeInvalid, "assets: %s names %q; name a file in the folder, like css/app.css: pages must not depend on other hosts", what, name)
			}
			if kindOf(name) == kindOther {
				return engine.Errorf(engine.CodeInvalid, "assets: %s names %q, which does not end in .css, .js or .mjs", what, name)
			}
			missing(what, name)
		}
	}
	for _, name := range a.o.Root {
		if strings.ContainsAny(name, "{}") {
			return engine.Errorf(engine.CodeInvalid, "assets: Root names %q, which has a brace", name)
		}
		missing("Root", name)
	}
	if err := a.complain(wrong); err != nil || a.o.Reload {
		return err
	}
	a.tags = a.tagsOf(a.o.List)
	for view, names := range a.o.Pages {
		a.pages[view] = a.tagsOf(slices.Concat(a.o.List, names))
	}
	return nil
}

// check returns faults for the views of Pages that do not exist.
func (a *Assets) check(has func(view string) bool) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(a.o.Pages)) {
		if !has(name) {
			wrong = append(wrong, fmt.Sprintf("Assets: Pages names the view %q, which does not exist", name))
		}
	}
	return wrong
}

// kind is how a page loads a file.
type kind uint8

const (
	kindOther kind = iota
	kindStyle
	kindScript
	kindModule
)

func kindOf(name string) kind {
	switch path.Ext(name) {
	case ".css":
		return kindStyle
	case ".js":
		return kindScript
	case ".mjs":
		return kindModule
	}
	return kindOther
}

// tagsOf returns the HTML that loads files. They are of this origin, which a Content-Security-Policy allows
// with 'self', so they need no nonce.
func (a *Assets) tagsOf(names []string) template.HTML {
	var b strings.Builder
	for _, name := range names {
		url := template.HTMLEscapeString(a.address(name))
		switch kindOf(name) {
		case kindStyle:
			b.WriteString(`<link rel="stylesheet" href="` + url + "\">\n")
		case kindScript:
			b.WriteString(`<script src="` + url + "\"></script>\n")
		case kindModule:
			b.WriteString(`<script type="module" src="` + url + "\"></script>\n")
		}
	}
	return template.HTML(b.String())
}

// of returns the tags of a view.
func (a *Assets) of(view string) template.HTML {
	if a.o.Reload {
		return a.tagsOf(slices.Concat(a.o.List, a.o.Pages[view]))
	}
	if t, ok := a.pages[view]; ok {
		return t
	}
	return a.tags
}

// address returns the address of a file, or that of its plain name if it does not exist.
func (a *Assets) address(name string) string {
	f := a.find(name)
	if f == nil {
		a.o.Logger.Warn("assets: there is no file " + name)
		return a.escaped(name)
	}
	return f.url
}

// URL returns the address of a file. The address changes with the contents of the file, so browsers may cache
// it forever. If there is no such file, URL fails with engine.CodeInternal: a mistake in a page.
func (a *Assets) URL(name string) (string, error) {
	f := a.find(name)
	if f == nil {
		return "", engine.Errorf(engine.CodeInternal, "assets: there is no file %.100q", name)
	}
	return f.url, nil
}

// Funcs returns the functions of a for html/template views, for view.Options.Funcs: {{asset "img/logo.png"}}
// calls URL.
func (a *Assets) Funcs() template.FuncMap { return template.FuncMap{"asset": a.URL} }

// Asset is Assets.URL for a local of a page. If the file does not exist, Asset logs a warning, and the address
// it returns leads nowhere. It panics without Options.Assets.
func (c *Context) Asset(name string) string {
	if c.x.app.o.Assets == nil {
		panic("web: Context.Asset, but Options.Assets is not set")
	}
	return c.x.app.o.Assets.address(name)
}

// find returns a file by its name, nil if there is none that may be served.
func (a *Assets) find(name string) *asset {
	if !a.o.Reload {
		return a.files[name]
	}
	if !servable(name) {
		return nil
	}
	f, err := a.read(name, MaxKeptAsset)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.o.Logger.Warn("assets: " + err.Error())
		}
		return nil
	}
	return f
}
