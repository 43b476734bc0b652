package admin

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

const (
	maxCommands     = 100       // of one run
	maxConsoleReply = 256 << 10 // bytes of a single reply that is shown as text
)

// consoleWord is a word of a command, and where it begins in the text.
type consoleWord struct {
	text string
	pos  int
}

// splitWords splits a line into words: separated by spaces, or in quotes, with the escapes of Go's strings between double ones.
func splitWords(line string, at int) ([]consoleWord, error) {
	var all []consoleWord
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
			all = append(all, consoleWord{text, at + i})
			i += len(quoted)
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, &placedError{at + i, engine.Errorf(engine.CodeInvalid, "this quoted text does not end")}
			}
			all = append(all, consoleWord{line[i+1 : i+1+end], at + i})
			i += end + 2
		default:
			end := i
			for end < len(line) && line[end] != ' ' && line[end] != '\t' {
				end++
			}
			all = append(all, consoleWord{line[i:end], at + i})
			i = end
		}
	}
	return all, nil
}

// commandStep is a command with its words, and what is known of it.
type commandStep struct {
	about resp.Explanation
	words []string
	pos   int
}

// commandsOf reads the commands of a text, one a line.
func (a *Admin) commandsOf(text string) ([]commandStep, error) {
	var all []commandStep
	at := 0
	for line := range strings.SplitSeq(text, "\n") {
		words, err := splitWords(line, at)
		if err != nil {
			return nil, err
		}
		if len(words) > 0 && !strings.HasPrefix(words[0].text, "#") {
			s := commandStep{pos: words[0].pos}
			for _, w := range words {
				s.words = append(s.words, w.text)
			}
			if s.about, err = a.o.Redis.Explain(s.words...); err != nil {
				return nil, &placedError{s.pos, err}
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

// runCommands runs commands as a Redis client would, one after the other, until one fails. What those before it did stays. Nothing runs
// if one of them may not.
func (a *Admin) runCommands(ctx context.Context, in consoleInput) (*consoleGrid, error) {
	steps, err := a.commandsOf(in.Text)
	if err != nil {
		return nil, err
	}
	if in.Explain {
		return a.explainCommands(steps), nil
	}
	for _, s := range steps {
		if err := s.about.Allowed(in.Write); engine.CodeOf(err) == engine.CodeReadOnly {
			return nil, &placedError{s.pos, errWrites}
		} else if err != nil {
			return nil, &placedError{s.pos, err}
		}
	}
	k, err := a.o.Redis.OpenConsole(ctx, resp.ConsoleOptions{Database: int(in.Space), Changes: in.Write})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	out := &consoleGrid{Columns: []string{a.text("command"), a.text("place"), a.text("type"), a.text("value")}}
	for _, s := range steps {
		v, err := k.Do(s.words...)
		out.Changes = out.Changes || s.about.Effect == resp.EffectChanges
		if err != nil {
			return out, placedReply(s.pos, err)
		}
		a.addReply(out, s, v)
		if v.IsError() {
			return out, &placedError{s.pos, engine.Errorf(engine.CodeInvalid, "%s", shorten(bytesText(v.Str), maxConsoleCell))}
		}
		if len(steps) == 1 && !in.JSON {
			out.Text = longReply(v)
		}
	}
	return out, nil
}

// placedReply returns an error of a command with its place. That of a context stays what it is.
func placedReply(pos int, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || engine.CodeOf(err) == engine.CodeInternal {
		return err
	}
	return &placedError{pos, err}
}

// longReply returns a reply that is better shown as text than in a cell, or "".
func longReply(v wire.Value) string {
	if v.Kind != wire.KindVerbatim && (v.Kind != wire.KindBulk || len(v.Str) <= maxConsoleCell) {
		return ""
	}
	return shorten(replyText(v), maxConsoleReply)
}

// addReply adds the rows of a reply, and the reply as JSON.
func (a *Admin) addReply(g *consoleGrid, s commandStep, v wire.Value) {
	command := shorten(s.about.Name, maxConsoleCell)
	if len(s.about.Keys) > 0 {
		key, _ := keyText([]byte(s.about.Keys[0]))
		command += " " + shorten(key, maxKeyShown)
	}
	if len(g.items) < maxConsoleRows && g.bytes < maxConsoleBytes {
		g.items = append(g.items, mustJSON(orderedObject{{"command", command}, {"reply", plainReply(v)}}))
	}
	if !g.addValue(command, "", v) {
		g.Cut = a.text("The result is larger than a page shows; the rest is left out.")
	}
}

// addValue adds the rows of a value: one for each that has no others in it, with its place, as 2.1 or a name of a map. It returns false if
// not all fit.
func (g *consoleGrid) addValue(command, place string, v wire.Value) bool {
	if len(v.List) == 0 {
		return g.add(command, place, replyKind(v), replyText(v))
	}
	if place != "" {
		place += "."
	}
	if v.Kind == wire.KindMap {
		for i := 0; i+1 < len(v.List); i += 2 {
			if !g.addValue(command, place+shorten(replyText(v.List[i]), maxKeyShown), v.List[i+1]) {
				return false
			}
		}
		return true
	}
	for i, e := range v.List {
		if !g.addValue(command, place+strconv.Itoa(i+1), e) {
			return false
		}
	}
	return true
}

// replyKind names the type of a value in RESP3.
func replyKind(v wire.Value) string {
	switch v.Kind {
	case wire.KindError, wire.KindBlobError:
		return "error"
	case wire.KindInt:
		return "integer"
	case wire.KindArray, wire.KindPush:
		return "array"
	case wire.KindNull:
		return "null"
	case wire.KindDouble:
		return "double"
	case wire.KindBool:
		return "boolean"
	case wire.KindBig:
		return "big number"
	case wire.KindMap:
		return "map"
	case wire.KindSet:
		return "set"
	}
	return "string"
}

// replyText returns a value for people. Bytes that they cannot read are escaped.
func replyText(v wire.Value) string {
	switch v.Kind {
	case wire.KindInt:
		return strconv.FormatInt(v.Int, 10)
	case wire.KindBool:
		return strconv.FormatBool(v.Int == 1)
	case wire.KindNull:
		return "(nil)"
	case wire.KindArray, wire.KindMap, wire.KindSet, wire.KindPush:
		if len(v.List) == 0 {
			return "(empty)"
		}
		return string(mustJSON(plainReply(v)))
	case wire.KindVerbatim:
		return bytesText([]byte(strings.ReplaceAll(string(v.Str), "\r\n", "\n")))
	}
	return bytesText(v.Str)
}

// bytesText returns bytes as they are if people can read them, with line breaks, and escaped otherwise.
func bytesText(b []byte) string {
	if readableText(b, "\n\t") {
		return string(b)
	}
	text, _ := keyText(b)
	return text
}

// plainReply returns a value as one that JSON has.
func plainReply(v wire.Value) any {
	switch v.Kind {
	case wire.KindInt:
		return v.Int
	case wire.KindBool:
		return v.Int == 1
	case wire.KindNull:
		return nil
	case wire.KindMap:
		o := orderedObject{}
		for i := 0; i+1 < len(v.List); i += 2 {
			o = append(o, orderedMember{replyText(v.List[i]), plainReply(v.List[i+1])})
		}
		return o
	case wire.KindArray, wire.KindSet, wire.KindPush:
		all := []any{}
		for _, e := range v.List {
			all = append(all, plainReply(e))
		}
		return all
	case wire.KindError, wire.KindBlobError:
		return orderedObject{{"error", bytesText(v.Str)}}
	}
	return bytesText(v.Str)
}

// explainCommands says of commands what is known without running them.
func (a *Admin) explainCommands(steps []commandStep) *consoleGrid {
	out := &consoleGrid{Columns: []string{a.text("command"), a.text("about"), a.text("value")}}
	for _, s := range steps {
		e := s.about
		var keys []string
		for _, k := range e.Keys {
			text, _ := keyText([]byte(k))
			keys = append(keys, text)
		}
		effect := map[resp.Effect]string{resp.EffectReads: a.text("only reads"), resp.EffectChanges: a.text("may change something"), resp.EffectHolds: a.text("is not run here: it blocks, or changes its connection")}[e.Effect]
		for _, row := range [][2]string{
			{a.text("arguments"), e.Syntax}, {a.text("what it does"), e.Summary}, {a.text("here"), effect}, {a.text("keys"), strings.Join(keys, " ")},
			{a.text("complexity"), e.Complexity}, {a.text("flags"), strings.Join(e.Flags, " ")}, {a.text("categories"), strings.Join(e.Categories, " ")},
		} {
			if row[1] != "" && !out.add(e.Name, row[0], row[1]) {
				out.Cut = a.text("The result is larger than a page shows; the rest is left out.")
				return out
			}
		}
	}
	return out
}

// commandHelp returns all commands for the list beneath the form.
func (a *Admin) commandHelp() []resp.Explanation {
	if a.o.Redis == nil {
		return nil
	}
	return a.o.Redis.Explanations()
}
