package admin

import (
	"bytes"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

const (
	maxKeyLines  = 100    // lines of one page of the tree
	maxKeyReads  = 20_000 // keys that one page reads to count groups
	maxKeysCount = 1_000  // keys of one group that are counted
	maxKeyShown  = 300    // bytes of a key in a list
)

// keySeparators end the name of a group of keys.
const keySeparators = ":/."

func (a *Admin) addKeys(g *web.Group) {
	g.Get("/keys", a.keysPage)
	g.Get("/keys/live", a.keysLive)
	g.Get("/keys/one", a.keyPage)
	g.Get("/keys/value", a.keyValue)
	g.Post("/keys/one", a.keySet)
	g.Post("/keys/delete", a.keyDelete)
	g.Get("/keys/prefix", a.keyPrefixPage)
	g.Post("/keys/prefix", a.keyPrefixDelete)
}

// spaceOf returns the key space that a request names. Skerry's own spaces are refused.
func spaceOf(v web.Value) (uint8, error) {
	n, err := v.Or("0").Int64In(0, int64(keyspace.LastApplication))
	return uint8(n), err
}

// bytesOf returns bytes that a request has as text, or in base64url under the name with 64 after it.
func bytesOf(get func(string) web.Value, name string) ([]byte, error) {
	if v := get(name + "64"); v.Given() {
		b, err := base64.RawURLEncoding.DecodeString(v.String())
		if err != nil {
			return nil, engine.Errorf(engine.CodeInvalid, "%s64 is not base64url", name)
		}
		return b, nil
	}
	return []byte(get(name).String()), nil
}

// in64 returns bytes as addresses and forms have them.
func in64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keyAddress returns the query of an address that names a space and bytes: as text if that is readable. Views must not escape
// it once more.
func keyAddress(space uint8, name string, b []byte) template.URL {
	q := "space=" + strconv.Itoa(int(space))
	switch _, escaped := keyText(b); {
	case len(b) == 0:
	case escaped:
		q += "&" + name + "64=" + in64(b)
	default:
		q += "&" + name + "=" + url.QueryEscape(string(b))
	}
	return template.URL(q)
}

// keyText returns a key for people, and whether it has escapes: of bytes that are no text, and of what cannot be seen.
func keyText(b []byte) (text string, escaped bool) {
	if readableText(b, "") {
		return string(b), false
	}
	q := strconv.Quote(string(b))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), true
}

// readableText reports whether people can read b: it is UTF-8 without characters that are invisible or change the order of others,
// but for those of also.
func readableText(b []byte, also string) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) && !strings.ContainsRune(also, r) {
			return false
		}
	}
	return true
}

// keyLine is one line of the tree: a key, or a group of keys with a common prefix.
type keyLine struct {
	Text    string
	Escaped bool
	Query   template.URL // of its address
	Group   bool
	Count   int  // keys of a group
	AtLeast bool // there may be more
	Size    int
	Expires time.Time
	Left    string // until then
}

// keyTree is one page of the keys that begin with a prefix.
type keyTree struct {
	space  uint8
	prefix []byte
	lines  []keyLine
	next   []byte // where the next page begins; nil: there is none
	now    time.Time
	reads  int

	group []byte  // the open group; nil: none
	only  keyLine // its first key
	count int     // its keys so far
}

// read fills the page from a position in the keys. It reads at most maxKeyReads keys and one for each further line: a group is
// skipped by a seek once it has been counted to maxKeysCount.
func (k *keyTree) read(t *kv.Tx, from []byte) error {
	k.lines, k.reads, k.next, k.now, k.group = nil, 0, nil, t.AsOf(), nil
	hi := engine.PrefixEnd(k.prefix)
	for lo := from; lo != nil; {
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			break
		}
		again, err := k.run(t, lo, hi)
		if err != nil {
			return err
		}
		lo = again
	}
	return nil
}

// run scans until the page is full, the keys end, or a group is to be skipped; it returns where to scan again.
func (k *keyTree) run(t *kv.Tx, lo, hi []byte) ([]byte, error) {
	for it, err := range t.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		k.reads++
		if k.group != nil && bytes.HasPrefix(it.Key, k.group) {
			if k.count++; k.count >= maxKeysCount || k.reads >= maxKeyReads {
				end := engine.PrefixEnd(k.group)
				k.close(true)
				return end, nil
			}
			continue
		}
		k.close(false)
		if len(k.lines) == maxKeyLines {
			k.next = bytes.Clone(it.Key)
			return nil, nil
		}
		line := k.leaf(it)
		i := bytes.IndexAny(it.Key[len(k.prefix):], keySeparators)
		if i < 0 || len(k.prefix)+i+1 == len(it.Key) {
			k.lines = append(k.lines, line)
			continue
		}
		k.group, k.only, k.count = bytes.Clone(it.Key[:len(k.prefix)+i+1]), line, 1
		if k.reads >= maxKeyReads {
			end := engine.PrefixEnd(k.group)
			k.close(true)
			return end, nil
		}
	}
	k.close(false)
	return nil, nil
}

// leaf returns the line of a key.
func (k *keyTree) leaf(it kv.Item) keyLine {
	text, escaped := keyText(it.Key)
	return keyLine{Text: shorten(text, maxKeyShown), Escaped: escaped, Query: keyAddress(k.space, "key", it.Key), Size: len(it.Val), Expires: it.Expires}
}

// close ends the open group. One that has a single key is that key.
func (k *keyTree) close(atLeast bool) {
	if k.group == nil {
		return
	}
	line := k.only
	if k.count > 1 || atLeast {
		text, escaped := keyText(k.group)
		line = keyLine{Text: shorten(text, maxKeyShown), Escaped: escaped, Query: keyAddress(k.space, "prefix", k.group), Group: true, Count: k.count, AtLeast: atLeast}
	}
	k.lines = append(k.lines, line)
	k.group = nil
}

// keyCrumb is a part of a prefix, with the address of all keys below it.
type keyCrumb struct {
	Text  string
	Query template.URL
}

// maxKeyCrumbs bounds the parts of a prefix that are links of their own.
const maxKeyCrumbs = 30

// keyCrumbs returns the parts of a prefix up to its separators.
func keyCrumbs(space uint8, prefix []byte) []keyCrumb {
	all := []keyCrumb{}
	begin := 0
	for i := range prefix {
		last := i == len(prefix)-1
		if !last && (len(all) == maxKeyCrumbs || !strings.ContainsRune(keySeparators, rune(prefix[i]))) {
			continue
		}
		text, _ := keyText(prefix[begin : i+1])
		all = append(all, keyCrumb{shorten(text, maxKeyShown), keyAddress(space, "prefix", prefix[:i+1])})
		begin = i + 1
	}
	return all
}

func (a *Admin) keysPage(c *web.Context) error {
	space, err := spaceOf(c.Query("space"))
	if err != nil {
		return err
	}
	tree := keyTree{space: space}
	if tree.prefix, err = bytesOf(c.Query, "prefix"); err != nil {
		return err
	}
	from, err := bytesOf(c.Query, "from")
	if err != nil {
		return err
	}
	if bytes.Compare(from, tree.prefix) < 0 {
		from = tree.prefix
	}
	total, lacks := -1, ""
	if err := a.o.Store.Lacks(); err != nil {
		lacks = c.Detail(err)
	} else if _, err := a.o.Store.View(c, engine.Read{Level: engine.Local}, space, func(t *kv.Tx) (err error) {
		if _, cheap := t.Engine().(engine.Ranker); cheap {
			if total, err = t.Count(); err != nil {
				return err
			}
		}
		return tree.read(t, from)
	}); err != nil {
		return err
	}
	for i, l := range tree.lines {
		tree.lines[i].Left = a.untilText(tree.now, l.Expires)
	}
	prefixText, escaped := keyText(tree.prefix)
	next := template.URL("")
	if tree.next != nil {
		next = keyAddress(space, "prefix", tree.prefix) + template.URL("&from64="+in64(tree.next))
	}
	return a.show(c, http.StatusOK, "keys", web.Locals{
		"title": a.text("Keys"), "space": space, "last_space": keyspace.LastApplication, "total": total, "prefix_text": prefixText, "prefix_escaped": escaped,
		"prefix_query": keyAddress(space, "prefix", tree.prefix), "crumbs": keyCrumbs(space, tree.prefix), "lines": tree.lines,
		"next_page": next, "later": len(from) > len(tree.prefix), "watches": a.hasFeed(), "lacks": lacks,
	})
}

// untilText says how long it is until a time.
func (a *Admin) untilText(now, at time.Time) string {
	switch d := at.Sub(now); {
	case at.IsZero():
		return a.text("never")
	case d < time.Minute:
		return a.text("in %d s", max(0, int(d/time.Second)))
	case d < time.Hour:
		return a.text("in %d min", int(d/time.Minute))
	case d < 48*time.Hour:
		return a.text("in %d h", int(d/time.Hour))
	default:
		return a.text("in %d days", int(d/(24*time.Hour)))
	}
}
