package admin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

// maxValueShown bounds the bytes of a value that a page shows and that its form can edit.
const maxValueShown = 64 << 10

// Ways to show a value.
const (
	viewText = "text"
	viewJSON = "json"
	viewHex  = "hex"
)

// oneKey is a key of an application as its page shows it.
type oneKey struct {
	space uint8
	key   []byte
	entry kv.Entry
	there bool
	now   time.Time
}

// keyOf returns the key that a request names; as may say that its text is hex.
func keyOf(get func(string) web.Value) (k oneKey, err error) {
	if k.space, err = spaceOf(get("space")); err != nil {
		return k, err
	}
	if k.key, err = bytesOf(get, "key"); err != nil {
		return k, err
	}
	if get("key_as").String() == viewHex && !get("key64").Given() {
		if k.key, err = unhex(string(k.key)); err != nil {
			return k, err
		}
	}
	if len(k.key) == 0 {
		return k, engine.Errorf(engine.CodeInvalid, "enter a key")
	}
	return k, nil
}

func (k *oneKey) load(a *Admin, c *web.Context, r engine.Read) error {
	_, err := a.o.Store.View(c, r, k.space, func(t *kv.Tx) error {
		e, there, err := t.Get(k.key)
		e.Val = bytes.Clone(e.Val)
		k.entry, k.there, k.now = e, there, t.AsOf()
		return err
	})
	return err
}

func (a *Admin) keyPage(c *web.Context) error {
	k, err := keyOf(c.Query)
	if err != nil {
		return err
	}
	if err := k.load(a, c, engine.Read{Level: engine.Local}); err != nil {
		return err
	}
	as := c.Query("as").String()
	if as != viewText && as != viewJSON && as != viewHex {
		as = bestValueView(k.entry.Val)
	}
	return a.showKey(c, http.StatusOK, k, as, nil)
}

// showKey renders the page of a key. more has what a form had that could not be carried out.
func (a *Admin) showKey(c *web.Context, status int, k oneKey, as string, more web.Locals) error {
	text, escaped := keyText(k.key)
	shown := k.entry.Val[:min(len(k.entry.Val), maxValueShown)]
	if as == viewJSON && len(shown) < len(k.entry.Val) {
		as = viewText // a part of a document is none
	}
	editAs := viewText
	if !readableText(k.entry.Val, "\n\t") {
		editAs = viewHex
	}
	all := web.Locals{
		"title": shorten(text, 80), "key_text": text, "escaped": escaped, "space": k.space, "key64": in64(k.key), "key_query": keyAddress(k.space, "key", k.key),
		"up":    keyAddress(k.space, "prefix", k.key[:bytes.LastIndexAny(k.key, keySeparators)+1]),
		"there": k.there, "rev": uint64(k.entry.Rev), "size": len(k.entry.Val), "expires": k.entry.Expires, "left": a.untilText(k.now, k.entry.Expires), "written": time.UnixMicro(int64(k.entry.Rev)),
		"as": as, "value": valueInView(shown, as), "cut": len(shown) < len(k.entry.Val), "can_edit": len(k.entry.Val) <= maxValueShown, "max_shown": maxValueShown,
		"edit": valueInView(shown, editAs), "edit_as": editAs, "expiry": "keep", "ttl": "", "problem": "", "conflict": false,
	}
	if !k.there {
		all["expiry"] = "never"
	}
	for name, v := range more {
		all[name] = v
	}
	return a.show(c, status, "keysone", all)
}

// bestValueView returns how a value is shown unless a request says how.
func bestValueView(v []byte) string {
	switch trimmed := bytes.TrimSpace(v); {
	case len(trimmed) > 0 && len(v) <= maxValueShown && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(v):
		return viewJSON
	case readableText(v, "\r\n\t"):
		return viewText
	}
	return viewHex
}

// valueInView returns a value as text.
func valueInView(v []byte, as string) string {
	switch as {
	case viewHex:
		return hexText(v)
	case viewJSON:
		var b bytes.Buffer
		if json.Indent(&b, v, "", "  ") == nil {
			return b.String()
		}
	}
	return strings.ToValidUTF8(string(v), "\uFFFD")
}

// hexText returns bytes in hex, 32 in a line.
func hexText(v []byte) string {
	var b strings.Builder
	for i, x := range v {
		switch {
		case i == 0:
		case i%32 == 0:
			b.WriteByte('\n')
		case i%4 == 0:
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%02x", x)
	}
	return b.String()
}

// unhex reads what hexText has written.
func unhex(text string) ([]byte, error) {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "this is not hex: %w; write two digits for each byte, as 00 ff 7a", err)
	}
	return b, nil
}

// keyValue sends the bytes of a value as a file.
func (a *Admin) keyValue(c *web.Context) error {
	k, err := keyOf(c.Query)
	if err != nil {
		return err
	}
	if err := k.load(a, c, engine.Read{Level: engine.Local}); err != nil {
		return err
	}
	if !k.there {
		return engine.ErrNotFound
	}
	c.Attachment("value")
	return c.Stream(http.StatusOK, "application/octet-stream", io.NewSectionReader(bytes.NewReader(k.entry.Val), 0, int64(len(k.entry.Val))))
}

// keyForm is what the form of a key has.
type keyForm struct {
	val  []byte
	rev  kv.Revision
	opts kv.SetOptions
}

// readKeyForm reads the form of a key.
func readKeyForm(c *web.Context) (f keyForm, err error) {
	if f.rev, err = revisionOf(c); err != nil {
		return f, err
	}
	if f.rev == 0 {
		f.opts.OnlyNew = true
	} else {
		f.opts.IfRev = f.rev
	}
	text := strings.ReplaceAll(c.Form("value").String(), "\r\n", "\n") // browsers send CRLF for each end of a line
	f.val = []byte(text)
	if c.Form("as").String() == viewHex {
		if f.val, err = unhex(text); err != nil {
			return f, err
		}
	}
	switch c.Form("expiry").String() {
	case "keep":
		f.opts.KeepTTL = f.rev != 0
	case "after":
		f.opts.TTL, err = ttlOf(c.Form("ttl").String())
	}
	return f, err
}

func revisionOf(c *web.Context) (kv.Revision, error) {
	n, err := strconv.ParseUint(c.Form("rev").Or("0").String(), 10, 64)
	if err != nil {
		return 0, engine.Errorf(engine.CodeInvalid, "rev must be a revision")
	}
	return kv.Revision(n), nil
}

// ttlOf reads a time to live: seconds, or a duration as 1h30m.
func ttlOf(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if n, isNumber := strconv.ParseInt(text, 10, 64); isNumber == nil && n < int64(1<<63-1)/int64(time.Second) {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 {
		return 0, engine.Errorf(engine.CodeInvalid, "the time to live %q must be a number of seconds or a duration such as 90s, 30m or 12h", text)
	}
	return d, nil
}

// keySet writes a key if it is as it was when the form was made.
func (a *Admin) keySet(c *web.Context) error {
	k, err := keyOf(c.Form)
	if err != nil {
		return err
	}
	f, err := readKeyForm(c)
	if err == nil {
		err = a.act(c, "key.set", keySubject(k), fmt.Sprintf("%d bytes, %s", len(f.val), expiryText(f.opts)), func() error {
			set, _, err := a.o.Store.Set(c, k.space, k.key, f.val, f.opts)
			if err == nil && !set.Written {
				err = engine.Errorf(engine.CodePreconditionFailed, "somebody has created this key in the meantime")
			}
			return err
		})
	}
	if err == nil {
		return a.done(c, "/keys/one?"+string(keyAddress(k.space, "key", k.key)), "saved")
	}
	return a.keyRefused(c, k, err)
}

// keyDelete deletes a key if it is as it was when the form was made.
func (a *Admin) keyDelete(c *web.Context) error {
	k, err := keyOf(c.Form)
	if err != nil {
		return err
	}
	rev, err := revisionOf(c)
	if err != nil {
		return err
	}
	err = a.act(c, "key.delete", keySubject(k), fmt.Sprintf("revision %d", rev), func() error {
		_, _, err := a.o.Store.Delete(c, k.space, k.key, rev)
		return err
	})
	if err != nil {
		return a.keyRefused(c, k, err)
	}
	return a.done(c, "/keys?"+string(keyAddress(k.space, "prefix", k.key[:bytes.LastIndexAny(k.key, keySeparators)+1])), "deleted")
}

// keyRefused shows a form again with what is wrong. After a conflict it shows the value that is there now too, and saving again
// replaces that.
func (a *Admin) keyRefused(c *web.Context, k oneKey, err error) error {
	status, problem := http.StatusUnprocessableEntity, c.Detail(err)
	conflict := errors.Is(err, engine.ErrPreconditionFailed) || engine.CodeOf(err) == engine.CodePreconditionFailed
	switch {
	case conflict:
		status, problem = http.StatusConflict, a.text("This key has changed since you opened it, so nothing was written. The current value is above and yours is in the form; save again to overwrite it.")
	case engine.CodeOf(err) != engine.CodeInvalid && engine.CodeOf(err) != engine.CodeLimit && engine.CodeOf(err) != engine.CodeKeyTooLarge && engine.CodeOf(err) != engine.CodeValueTooLarge:
		return err
	}
	if err := k.load(a, c, engine.Read{}); err != nil {
		return err
	}
	more := web.Locals{"problem": problem, "conflict": conflict}
	if c.Form("value").Given() {
		more["edit"], more["edit_as"] = c.Form("value").String(), c.Form("as").String()
		more["expiry"], more["ttl"], more["can_edit"] = c.Form("expiry").String(), c.Form("ttl").String(), true
	}
	if !conflict {
		more["rev"] = c.Form("rev").String()
	}
	return a.showKey(c, status, k, bestValueView(k.entry.Val), more)
}

// keySubject names a key in the log.
func keySubject(k oneKey) string {
	text, _ := keyText(k.key)
	return fmt.Sprintf("%s (space %d)", shorten(text, maxKeyShown), k.space)
}

// expiryText says when a key expires that is written with some options.
func expiryText(o kv.SetOptions) string {
	switch {
	case o.TTL > 0:
		return "expires after " + o.TTL.String()
	case o.KeepTTL:
		return "the expiry stays"
	}
	return "never expires"
}
