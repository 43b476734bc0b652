package view

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"text/template/parse"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Limits of files.
const (
	// MaxFileBytes is the longest file of a view in bytes; a longer one is
	// CodeViewBroken.
	MaxFileBytes = 1 << 20

	// MaxViews is how many views a folder has; more are engine.CodeLimit.
	MaxViews = 4096
)

// The marks around actions in the compiled form of a Z file: two code points that Unicode reserves for
// internal use and HTML does not allow, so that everything else, even "{{", is text.
const (
	markLeft  = "\uFDD0"
	markRight = "\uFDD1"
)

// file is one file as it was read, and its parsed form. It never changes.
type file struct {
	path string // in the file system, with the extension
	name string // of the view
	raw  string // the bytes that were read
	text string // without a byte order mark
	isZ  bool
	err  *mistake // why it cannot be used

	trees map[string]*parse.Tree // of html/template files: the file's own, and those that it defines
	tags  []tag                  // of Z files
	bare  []element              // scripts and styles without a nonce
}

// partial reports whether the file is only for use by other views.
func (f *file) partial() bool { return strings.HasPrefix(path.Base(f.name), "_") }

// viewName returns the name of the view in a file, "" if it is not a view.
func viewName(p string) (name string, isZ bool) {
	if name, ok := strings.CutSuffix(p, ".z.html"); ok && path.Base(p) != ".z.html" {
		return name, true
	}
	name, ok := strings.CutSuffix(p, ".html")
	if !ok {
		return "", false
	}
	return name, false
}

// read reads all files. If nothing has changed since old, it returns old; otherwise it reuses the unchanged
// files.
func (v *Views) read(old *set) (*set, error) {
	files := map[string]*file{}
	var doubles []mistake
	same := old != nil
	err := fs.WalkDir(v.fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return passed(err, p)
		}
		if strings.HasPrefix(d.Name(), ".") && p != "." { // left behind by editors and systems
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name, isZ := viewName(p)
		if d.IsDir() || name == "" {
			return nil
		}
		raw, err := fs.ReadFile(v.fsys, p)
		if err != nil {
			return passed(err, p)
		}
		if other := files[name]; other != nil {
			doubles = append(doubles, mistake{file: p, what: fmt.Sprintf("%s is a view of the same name; remove one of them", other.path)})
			same = false
			return nil
		}
		if len(files) == MaxViews {
			return engine.Errorf(engine.CodeLimit, "views: there are more than %d", MaxViews)
		}
		if old != nil && old.files[name] != nil && old.files[name].path == p && old.files[name].raw == string(raw) {
			files[name] = old.files[name]
			return nil
		}
		files[name] = v.parse(p, name, string(raw), isZ)
		same = false
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	if same && len(files) == len(old.files) && len(old.doubles) == 0 {
		return old, nil
	}
	return v.newSet(files, doubles, old), nil
}

// passed returns an error of the walk, but ignores a file that was deleted after the folder was listed.
func passed(err error, p string) error {
	if p != "." && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// parse parses one file. It stores faults in the file.
func (v *Views) parse(p, name, raw string, isZ bool) *file {
	f := &file{path: p, name: name, raw: raw, isZ: isZ}
	f.text = strings.TrimPrefix(raw, "\uFEFF")
	if m := unusable(f.text); m != nil {
		m.file = p
		f.err = m
		return f
	}
	f.bare = bareElements(f.text, isZ)
	if isZ {
		f.tags = scan(f.text)
		return f
	}
	t, err := template.New(p).Funcs(v.funcs).Parse(f.text)
	if err != nil {
		m := placed(err, p)
		f.err = &m
		return f
	}
	f.trees = map[string]*parse.Tree{}
	for _, d := range t.Templates() {
		if d.Tree == nil {
			continue
		}
		if d.Name() == p {
			f.trees[name] = d.Tree
		} else {
			f.trees[d.Name()] = d.Tree
		}
	}
	if f.trees[name] == nil { // an empty file is an empty page
		f.trees[name] = &parse.Tree{Name: name, ParseName: p, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	return f
}

// unusable returns why a text cannot be a view, nil if it can.
func unusable(text string) *mistake {
	if len(text) > MaxFileBytes {
		return &mistake{what: fmt.Sprintf("the file has %d bytes; a view has at most %d", len(text), MaxFileBytes)}
	}
	if !utf8.ValidString(text) {
		i := 0
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return &mistake{line: lineOf(text, i), what: fmt.Sprintf("the byte %#x is not UTF-8; save the file as UTF-8", text[i])}
	}
	for _, mark := range []string{markLeft, markRight} {
		if i := strings.Index(text, mark); i >= 0 {
			return &mistake{line: lineOf(text, i), what: fmt.Sprintf("%+q is a code point that no page may contain", mark)}
		}
	}
	return nil
}

// lineOf returns the line of an offset, beginning with 1.
func lineOf(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }
