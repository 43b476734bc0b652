package admin

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// maxCommands bounds the commands of one run.
const maxCommands = 100

// keyCommand is a command of the console on keys. Commands have the names and arguments of Redis, but for SCAN.
type keyCommand struct {
	Name, Args, Text string
	least, most      int // words after the name; most < 0: any number
	Writes           bool
	run              func(t *kv.Tx, g *consoleGrid, w []string) error
}

// keyCommands returns all commands.
func keyCommands() []keyCommand {
	return []keyCommand{
		{"GET", "key", "the value of a key", 1, 1, false, runGet},
		{"MGET", "key …", "the values of keys", 1, -1, false, runGet},
		{"EXISTS", "key …", "how many of the keys there are", 1, -1, false, runExists},
		{"STRLEN", "key", "bytes of a value", 1, 1, false, runStrlen},
		{"TTL", "key", "seconds until a key expires; -1: never, -2: there is no key", 1, 1, false, runTTL},
		{"DBSIZE", "", "how many keys the space has", 0, 0, false, runSize},
		{"SCAN", "[prefix [after-key]]", "keys that begin with a prefix, with their values", 0, 2, false, runScan},
		{"SET", "key value [EX seconds | KEEPTTL] [NX | XX]", "set a key", 2, 6, true, runSet},
		{"DEL", "key …", "delete keys", 1, -1, true, runDel},
		{"INCR", "key", "add 1 to a number", 1, 1, true, runAdd(1)},
		{"DECR", "key", "subtract 1 from a number", 1, 1, true, runAdd(-1)},
		{"INCRBY", "key number", "add to a number", 2, 2, true, runAdd(1)},
		{"DECRBY", "key number", "subtract from a number", 2, 2, true, runAdd(-1)},
		{"EXPIRE", "key seconds", "let a key expire", 2, 2, true, runExpire},
		{"PERSIST", "key", "keep a key for ever", 1, 1, true, runPersist},
	}
}

// keyWord is a word of a command, and where it begins in the text.
type keyWord struct {
	text string
	pos  int
}

// splitWords splits a line into words: separated by spaces, or in quotes, with the escapes of Go's strings between double ones.
func splitWords(line string, at int) ([]keyWord, error) {
	var all []keyWord
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '"':
			quoted, err := strconv.QuotedPrefix(line[i:])
			if err != nil {
				return nil, &placedError{at + i, engine.Errorf(engine.CodeInvalid, "this quoted text does not end, or has an escape that does not exist")}
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, &placedError{at + i, engine.Errorf(engine.CodeInvalid, "this quoted text has an escape that does not exist")}
			}
			all = append(all, keyWord{text, at + i})
			i += len(quoted)
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, &placedError{at + i, engine.Errorf(engine.CodeInvalid, "this quoted text does not end")}
			}
			all = append(all, keyWord{line[i+1 : i+1+end], at + i})
			i += end + 2
		default:
			end := i
			for end < len(line) && line[end] != ' ' && line[end] != '\t' {
				end++
			}
			all = append(all, keyWord{line[i:end], at + i})
			i = end
		}
	}
	return all, nil
}

// keyStep is a command with its words.
type keyStep struct {
	command keyCommand
	words   []string
	pos     int
}

// stepsOf reads the commands of a text, one a line.
func stepsOf(text string) ([]keyStep, error) {
	var all []keyStep
	at := 0
	for line := range strings.SplitSeq(text, "\n") {
		words, err := splitWords(line, at)
		if err != nil {
			return nil, err
		}
		if len(words) > 0 && !strings.HasPrefix(words[0].text, "#") {
			s, err := stepOf(words)
			if err != nil {
				return nil, err
			}
			if all = append(all, s); len(all) > maxCommands {
				return nil, &placedError{at, engine.Errorf(engine.CodeLimit, "at most %d commands run at once", maxCommands)}
			}
		}
		at += len(line) + 1
	}
	if len(all) == 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "there is nothing to run")
	}
	return all, nil
}

func stepOf(words []keyWord) (keyStep, error) {
	for _, c := range keyCommands() {
		if !strings.EqualFold(c.Name, words[0].text) {
			continue
		}
		n := len(words) - 1
		if n < c.least {
			last := words[n]
			return keyStep{}, &placedError{last.pos + len(last.text), engine.Errorf(engine.CodeInvalid, "too few arguments: %s %s", c.Name, c.Args)}
		}
		if c.most >= 0 && n > c.most {
			return keyStep{}, &placedError{words[c.most+1].pos, engine.Errorf(engine.CodeInvalid, "too many arguments: %s %s", c.Name, c.Args)}
		}
		s := keyStep{command: c, pos: words[0].pos}
		for _, w := range words[1:] {
			s.words = append(s.words, w.text)
		}
		return s, nil
	}
	return keyStep{}, &placedError{words[0].pos, engine.Errorf(engine.CodeInvalid, "there is no command %q here; the list of commands is below", shorten(words[0].text, 40))}
}

// runKeys runs commands in one transaction.
func (a *Admin) runKeys(ctx context.Context, in consoleInput) (*consoleGrid, error) {
	steps, err := stepsOf(in.Text)
	if err != nil {
		return nil, err
	}
	writes := false
	for _, s := range steps {
		if s.command.Writes && !in.Write {
			return nil, &placedError{s.pos, errWrites}
		}
		writes = writes || s.command.Writes
	}
	out := &consoleGrid{}
	fn := func(t *kv.Tx) error {
		*out = consoleGrid{Columns: []string{"command", "key", "value"}, Changes: writes}
		for _, s := range steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.command.run(t, out, s.words); err != nil {
				if engine.CodeOf(err) == engine.CodeInternal {
					return err
				}
				return &placedError{s.pos, err}
			}
		}
		return nil
	}
	if writes {
		_, err = a.o.Store.Update(ctx, in.Space, fn)
	} else {
		_, err = a.o.Store.View(ctx, engine.Read{}, in.Space, fn)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func runGet(t *kv.Tx, g *consoleGrid, w []string) error {
	for _, key := range w {
		e, ok, err := t.Get([]byte(key))
		if err != nil {
			return err
		}
		g.add("GET", key, valueOr(e, ok))
	}
	return nil
}

// valueOr returns a value for a cell.
func valueOr(e kv.Entry, ok bool) string {
	if !ok {
		return "(there is no such key)"
	}
	return valuePreview(e.Val, maxConsoleCell)
}

func runExists(t *kv.Tx, g *consoleGrid, w []string) error {
	n := 0
	for _, key := range w {
		_, ok, err := t.Get([]byte(key))
		if err != nil {
			return err
		}
		if ok {
			n++
		}
	}
	g.add("EXISTS", strings.Join(w, " "), strconv.Itoa(n))
	return nil
}

func runStrlen(t *kv.Tx, g *consoleGrid, w []string) error {
	e, _, err := t.Get([]byte(w[0]))
	g.add("STRLEN", w[0], strconv.Itoa(len(e.Val)))
	return err
}

func runTTL(t *kv.Tx, g *consoleGrid, w []string) error {
	e, ok, err := t.Get([]byte(w[0]))
	text := "-2"
	switch {
	case ok && e.Expires.IsZero():
		text = "-1"
	case ok:
		text = strconv.FormatInt(int64(e.Expires.Sub(t.AsOf()).Round(time.Second)/time.Second), 10)
	}
	g.add("TTL", w[0], text)
	return err
}

func runSize(t *kv.Tx, g *consoleGrid, _ []string) error {
	n, err := t.Count()
	g.add("DBSIZE", "", strconv.Itoa(n))
	return err
}

func runScan(t *kv.Tx, g *consoleGrid, w []string) error {
	var prefix, after []byte
	if len(w) > 0 {
		prefix = []byte(strings.TrimSuffix(w[0], "*"))
	}
	lo := prefix
	if len(w) > 1 {
		if after = append([]byte(w[1]), 0); bytes.Compare(after, lo) > 0 {
			lo = after
		}
	}
	hi := engine.PrefixEnd(prefix)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	for it, err := range t.Scan(lo, hi) {
		if err != nil {
			return err
		}
		text, _ := keyText(it.Key)
		if !g.add("SCAN", text, valuePreview(it.Val, maxLiveValue)) {
			g.Cut = "There are more keys. Only the first are shown: use SCAN prefix after-key to go on."
			return nil
		}
	}
	return nil
}

func runSet(t *kv.Tx, g *consoleGrid, w []string) error {
	var o kv.SetOptions
	for i := 2; i < len(w); i++ {
		switch strings.ToUpper(w[i]) {
		case "NX":
			o.OnlyNew = true
		case "XX":
			o.OnlyExisting = true
		case "KEEPTTL":
			o.KeepTTL = true
		case "EX":
			if i++; i == len(w) {
				return engine.Errorf(engine.CodeInvalid, "EX needs a number of seconds")
			}
			d, err := ttlOf(w[i])
			if err != nil {
				return err
			}
			o.TTL = d
		default:
			return engine.Errorf(engine.CodeInvalid, "SET has no option %q", shorten(w[i], 40))
		}
	}
	set, err := t.Set([]byte(w[0]), []byte(w[1]), o)
	if err != nil {
		return err
	}
	text := "OK"
	if !set.Written {
		text = "(not written: the condition is not met)"
	}
	g.add("SET", w[0], text)
	return nil
}

func runDel(t *kv.Tx, g *consoleGrid, w []string) error {
	n := 0
	for _, key := range w {
		had, err := t.Delete([]byte(key))
		if err != nil {
			return err
		}
		if had {
			n++
		}
	}
	g.add("DEL", strings.Join(w, " "), strconv.Itoa(n))
	return nil
}

// runAdd returns a command that adds its number, or 1, times sign.
func runAdd(sign int64) func(*kv.Tx, *consoleGrid, []string) error {
	return func(t *kv.Tx, g *consoleGrid, w []string) error {
		delta := int64(1)
		if len(w) > 1 {
			n, err := strconv.ParseInt(w[1], 10, 64)
			if err != nil {
				return engine.Errorf(engine.CodeInvalid, "%q is not a whole number", shorten(w[1], 40))
			}
			delta = n
		}
		if delta*sign == delta && sign < 0 && delta != 0 {
			return engine.Errorf(engine.CodeInvalid, "%d is too large to be subtracted", delta)
		}
		n, err := t.Add([]byte(w[0]), delta*sign)
		if errors.Is(err, engine.ErrNotInteger) {
			return engine.Errorf(engine.CodeInvalid, "the value of %q is not a whole number", shorten(w[0], 100))
		}
		if err != nil {
			return err
		}
		g.add("INCRBY", w[0], strconv.FormatInt(n, 10))
		return nil
	}
}

func runExpire(t *kv.Tx, g *consoleGrid, w []string) error {
	d, err := ttlOf(w[1])
	if err != nil {
		return err
	}
	return expiry(t, g, "EXPIRE", w[0], t.Now().Add(d))
}

func runPersist(t *kv.Tx, g *consoleGrid, w []string) error {
	return expiry(t, g, "PERSIST", w[0], time.Time{})
}

func expiry(t *kv.Tx, g *consoleGrid, command, key string, at time.Time) error {
	changed, err := t.SetExpiry([]byte(key), at)
	if err != nil {
		return err
	}
	text := "0"
	if changed {
		text = "1"
	}
	g.add(command, key, text)
	return nil
}
