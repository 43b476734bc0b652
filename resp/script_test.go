package resp_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// script is one parsed transcript of testdata; testdata/README.md explains the format.
type script struct {
	name     string
	only     int    // 2 or 3: only for that protocol; 0: for both
	password string // the server's password; "" for none
	steps    []step
	tail     []string // lines after the last step
}

// step is one command with its expected replies.
type step struct {
	before []string // comments and blank lines before it, verbatim
	src    string   // the source line
	line   int      // its number in the file
	conn   string
	verb   string // "" for a command, else push, nopush, send, reply, raw, sleep, close, closed
	args   []string
	only   int // 2 or 3: skipped in the other protocol
	sorted bool
	scan   bool
	as     string // name of the variable that stores the reply

	want   []string // Redis's reply; a line may begin with "2| " or "3| "
	reason string   // why Skerry differs on purpose; "" if it does not
	skip   bool     // Skerry does not play this step
	skerry []string // Skerry's reply if it differs
}

var wordRE = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"|[^\s"]+)(?:\*(\d+))?(?:\s+|$)`)

// parseScript reads one transcript file.
func parseScript(path string) (*script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &script{name: strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".txt")}
	for i, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		if err := s.parseLine(line, i+1); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return s, nil
}

func (s *script) parseLine(line string, number int) error {
	var last *step
	if len(s.steps) > 0 {
		last = &s.steps[len(s.steps)-1]
	}
	switch {
	case line == "" || line[0] == '#':
		s.tail = append(s.tail, line)
	case strings.HasPrefix(line, "!only "), strings.HasPrefix(line, "!password "):
		s.tail = append(s.tail, line)
		return s.setHeader(strings.Fields(line))
	case strings.HasPrefix(line, "  "):
		if last == nil || len(s.tail) > 0 {
			return fmt.Errorf("a reply without a command: %q", line)
		}
		if last.reason != "" {
			last.skerry = append(last.skerry, line[2:])
		} else {
			last.want = append(last.want, line[2:])
		}
	case strings.HasPrefix(line, "skerry: "):
		if last == nil || last.reason != "" {
			return fmt.Errorf("a deviation without a command: %q", line)
		}
		last.reason, last.skip = strings.CutPrefix(line[len("skerry: "):], "skip, ")
	default:
		st := step{before: s.tail, src: line, line: number, conn: "1"}
		s.tail = nil
		if err := st.parse(line); err != nil {
			return err
		}
		s.steps = append(s.steps, st)
	}
	return nil
}

func (s *script) setHeader(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("header %q needs one value", words[0])
	}
	if words[0] == "!password" {
		s.password = words[1]
		return nil
	}
	var err error
	s.only, err = strconv.Atoi(words[1])
	return err
}

// parse reads "[@conn] [(mods)] [!verb] words…".
func (st *step) parse(line string) error {
	if rest, ok := strings.CutPrefix(line, "@"); ok {
		st.conn, line, _ = strings.Cut(rest, " ")
	}
	if rest, ok := strings.CutPrefix(line, "("); ok {
		mods, rest, ok := strings.Cut(rest, ") ")
		if !ok {
			return fmt.Errorf("modifier without end")
		}
		line = rest
		for _, m := range strings.Split(mods, ", ") {
			if err := st.parseMod(m); err != nil {
				return err
			}
		}
	}
	if rest, ok := strings.CutPrefix(line, "!"); ok {
		st.verb, line, _ = strings.Cut(rest, " ")
		switch st.verb {
		case "push", "nopush", "send", "reply", "raw", "sleep", "close", "closed":
		default:
			return fmt.Errorf("unknown verb %q", st.verb)
		}
	}
	for line != "" {
		m := wordRE.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("cannot read %q", line)
		}
		word := m[1]
		if word[0] == '"' {
			var err error
			if word, err = strconv.Unquote(word); err != nil {
				return fmt.Errorf("word %s: %w", m[1], err)
			}
		}
		if m[2] != "" {
			n, _ := strconv.Atoi(m[2])
			word = strings.Repeat(word, n)
		}
		st.args = append(st.args, word)
		line = line[len(m[0]):]
	}
	return nil
}

func (st *step) parseMod(m string) error {
	switch {
	case m == "sorted":
		st.sorted = true
	case m == "scan":
		st.scan = true
	case m == "2" || m == "3":
		st.only = int(m[0] - '0')
	case strings.HasPrefix(m, "as "):
		st.as = m[len("as "):]
	default:
		return fmt.Errorf("unknown modifier %q", m)
	}
	return nil
}

// forProtocol returns the lines for one protocol without their marks.
func forProtocol(lines []string, proto int) []string {
	var out []string
	for _, l := range lines {
		if len(l) > 2 && l[1] == '|' && (l[0] == '2' || l[0] == '3') {
			if int(l[0]-'0') != proto {
				continue
			}
			l = l[3:]
		}
		out = append(out, l)
	}
	return out
}

var wildRE = regexp.MustCompile(`<(any|int|float|hex|-?\d+\.\.-?\d+)>`)

// matchReply reports whether got matches want. A line "..." in want stands for all
// following lines with at least its indentation.
func matchReply(want, got []string) bool {
	for len(want) > 0 {
		if strings.TrimLeft(want[0], " ") == "..." {
			indent := want[0][:len(want[0])-3]
			for len(got) > 0 && strings.HasPrefix(got[0], indent) {
				got = got[1:]
			}
			want = want[1:]
			continue
		}
		if len(got) == 0 || !matchLine(want[0], got[0]) {
			return false
		}
		want, got = want[1:], got[1:]
	}
	return len(got) == 0
}

func matchLine(want, got string) bool {
	marks := wildRE.FindAllStringSubmatchIndex(want, -1)
	if marks == nil {
		return want == got
	}
	pattern, at := "^", 0
	var ranges []string
	for _, m := range marks {
		pattern += regexp.QuoteMeta(want[at:m[0]])
		at = m[1]
		switch name := want[m[2]:m[3]]; name {
		case "any":
			pattern += `(?s:.*?)`
		case "hex":
			pattern += `[0-9a-f]+`
		case "float":
			pattern += `-?[0-9.e+-]+`
		case "int":
			pattern += `-?\d+`
		default:
			pattern += `(-?\d+)`
			ranges = append(ranges, name)
		}
	}
	m := regexp.MustCompile(pattern + regexp.QuoteMeta(want[at:]) + "$").FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, r := range ranges {
		lo, hi, _ := strings.Cut(r, "..")
		n, _ := strconv.ParseInt(m[i+1], 10, 64)
		from, _ := strconv.ParseInt(lo, 10, 64)
		to, _ := strconv.ParseInt(hi, 10, 64)
		if n < from || n > to {
			return false
		}
	}
	return true
}

// played is a server's reply to one step.
type played struct {
	lines []string
	ok    bool // it matches the file, or the step was skipped
}

// rewrite returns the file with Redis's replies, by protocol, in place of those that do not
// match them.
func (s *script) rewrite(got map[int][]played) string {
	var b strings.Builder
	put := func(lines []string, prefix string) {
		for _, l := range lines {
			b.WriteString(prefix + l + "\n")
		}
	}
	for i, st := range s.steps {
		put(st.before, "")
		put([]string{st.src}, "")
		put(st.rewritten(got, i), "  ")
		if st.reason != "" {
			b.WriteString("skerry: ")
			if st.skip {
				b.WriteString("skip, ")
			}
			b.WriteString(st.reason + "\n")
			put(st.skerry, "  ")
		}
	}
	put(s.tail, "")
	return b.String()
}

func (st *step) rewritten(got map[int][]played, i int) []string {
	matched, out := true, []string(nil)
	for proto, steps := range got {
		if st.only == 0 || st.only == proto {
			matched = matched && steps[i].ok
			out = steps[i].lines
		}
	}
	if matched {
		return st.want
	}
	if len(got) == 1 || st.only != 0 || slices.Equal(got[2][i].lines, got[3][i].lines) {
		return out
	}
	out = nil
	for _, proto := range []int{2, 3} {
		for _, l := range got[proto][i].lines {
			out = append(out, fmt.Sprintf("%d| %s", proto, l))
		}
	}
	return out
}
