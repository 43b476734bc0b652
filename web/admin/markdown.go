package admin

import (
	"html"
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// document is a page of the documentation: a subset of Markdown that has what docs/*.md use, and nothing else. Headings, paragraphs,
// lists of one level, tables, fenced code, links, code, bold and italic text. All other text is escaped, HTML included.
type document struct {
	Title  string
	Blocks []block
}

// block is a part of a document.
type block struct {
	Kind   string   // heading, paragraph, list, numbered, table or code
	Level  int      // of a heading
	Anchor string   // of a heading, or of the heading that a block is under
	Under  string   // plain text of the heading that a block is under
	Lines  []string // text, items, rows or lines of code
}

var numberedItem = regexp.MustCompile(`^[0-9]{1,3}\. `)

// parseMarkdown reads a page.
func parseMarkdown(text string) document {
	p := &markdownParser{anchors: map[string]int{}}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		p.line(line)
	}
	p.end()
	return p.doc
}

// markdownParser reads a page line by line.
type markdownParser struct {
	doc     document
	now     block // that is being read; no Kind: none
	fenced  bool
	comment bool
	anchor  string
	under   string
	anchors map[string]int // how often each was used
}

// end ends the block that is being read.
func (p *markdownParser) end() {
	if p.now.Kind != "" {
		p.now.Anchor, p.now.Under = p.anchor, p.under
		p.doc.Blocks = append(p.doc.Blocks, p.now)
	}
	p.now = block{}
}

// open begins a block of a kind unless one is being read.
func (p *markdownParser) open(kind string) {
	if p.now.Kind != kind {
		p.end()
		p.now.Kind = kind
	}
}

func (p *markdownParser) line(line string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "```"):
		p.end()
		if p.fenced = !p.fenced; p.fenced {
			p.now.Kind = "code"
		}
	case p.fenced:
		p.now.Lines = append(p.now.Lines, line)
	case p.comment || strings.HasPrefix(trimmed, "<!--"):
		p.comment = !strings.Contains(line, "-->")
	case trimmed == "":
		p.end()
	case strings.HasPrefix(line, "#") && strings.HasPrefix(strings.TrimLeft(line, "#"), " "):
		p.heading(line)
	case strings.HasPrefix(trimmed, "|"):
		p.open("table")
		p.now.Lines = append(p.now.Lines, trimmed)
	case strings.HasPrefix(trimmed, "- "), strings.HasPrefix(trimmed, "* "):
		p.open("list")
		p.now.Lines = append(p.now.Lines, trimmed[2:])
	case numberedItem.MatchString(trimmed):
		p.open("numbered")
		_, item, _ := strings.Cut(trimmed, " ")
		p.now.Lines = append(p.now.Lines, item)
	case p.now.Kind == "list" || p.now.Kind == "numbered": // an item goes on
		p.now.Lines[len(p.now.Lines)-1] += " " + trimmed
	default:
		p.open("paragraph")
		p.now.Lines = append(p.now.Lines, trimmed)
	}
}

func (p *markdownParser) heading(line string) {
	p.end()
	text := strings.TrimLeft(line, "#")
	level := len(line) - len(text)
	text = strings.TrimSpace(text)
	if p.doc.Title == "" {
		p.doc.Title = plainMarkdown(text)
	} else {
		level = max(level, 2) // a page has one title
	}
	p.anchor, p.under = p.slug(text), plainMarkdown(text)
	p.now = block{Kind: "heading", Level: min(level, 4), Lines: []string{text}}
	p.end()
}

// slug returns the anchor of a heading, as GitHub makes it.
func (p *markdownParser) slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(plainMarkdown(text)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	s := b.String()
	n := p.anchors[s]
	if p.anchors[s]++; n > 0 {
		s += "-" + strconv.Itoa(n)
	}
	return s
}

// html returns the page as HTML. Every text in it was escaped.
func (d document) html() template.HTML {
	var b strings.Builder
	for _, x := range d.Blocks {
		x.write(&b)
	}
	return template.HTML(b.String())
}

func (x block) write(b *strings.Builder) {
	switch x.Kind {
	case "heading":
		h := "h" + strconv.Itoa(x.Level)
		b.WriteString("<" + h + ` id="` + html.EscapeString(x.Anchor) + `">` + inline(x.Lines[0]) + "</" + h + ">\n")
	case "code":
		b.WriteString(`<pre class="sample" tabindex="0"><code>` + html.EscapeString(strings.Join(x.Lines, "\n")) + "</code></pre>\n")
	case "list", "numbered":
		tag := map[string]string{"list": "ul", "numbered": "ol"}[x.Kind]
		b.WriteString("<" + tag + ">\n")
		for _, item := range x.Lines {
			b.WriteString("<li>" + inline(item) + "</li>\n")
		}
		b.WriteString("</" + tag + ">\n")
	case "table":
		x.writeTable(b)
	default:
		b.WriteString("<p>" + inline(strings.Join(x.Lines, " ")) + "</p>\n")
	}
}

var tableRule = regexp.MustCompile(`^\|[\s|:-]+$`)

func (x block) writeTable(b *strings.Builder) {
	b.WriteString(`<div class="scroll" tabindex="0" role="region" aria-label="` + html.EscapeString(x.Under) + `"><table>` + "\n")
	head := len(x.Lines) > 1 && tableRule.MatchString(x.Lines[1])
	for i, row := range x.Lines {
		if head && (i == 1 || i == 0 && strings.Trim(row, "| ") == "") {
			continue // the rule, or a head of which nothing is shown
		}
		b.WriteString("<tr>")
		for _, cell := range cells(row) {
			if head && i == 0 && cell != "" {
				b.WriteString(`<th scope="col">` + inline(cell) + "</th>")
			} else {
				b.WriteString("<td>" + inline(cell) + "</td>")
			}
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table></div>\n")
}

// cells splits a row of a table; \| is a bar in a cell.
func cells(row string) []string {
	const bar = "\x00"
	row = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), `\|`, bar)
	all := strings.Split(row, "|")
	for i, c := range all {
		all[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}
	return all
}

// markup is markup within a line: code, a link, bold and italic text, an escaped character. Code comes first, as it has no
// markup within.
var markup = regexp.MustCompile("(``+ ?)(.+?)( ?``+)" + "|`([^`]+)`" + `|\[((?:[^\]\\` + "`" + `]|\\.|` + "`[^`]*`" + `)+)\]\(([^()\s]*(?:\([^()\s]*\))?[^()\s]*)\)` + `|\*\*([^*]+)\*\*` + `|\*([^*\s](?:[^*]*[^*\s])?)\*|\\([[:punct:]])`)

// inline returns the HTML of a text with markup.
func inline(text string) string {
	var b strings.Builder
	for text != "" {
		at := markup.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		part := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return text[at[2*i]:at[2*i+1]]
		}
		b.WriteString(html.EscapeString(text[:at[0]]))
		switch {
		case at[4] >= 0:
			b.WriteString("<code>" + html.EscapeString(part(2)) + "</code>")
		case at[8] >= 0:
			b.WriteString("<code>" + html.EscapeString(part(4)) + "</code>")
		case at[10] >= 0:
			b.WriteString(anchorTo(part(6), inline(part(5))))
		case at[14] >= 0:
			b.WriteString("<strong>" + inline(part(7)) + "</strong>")
		case at[18] >= 0:
			b.WriteString(html.EscapeString(part(9)))
		default:
			b.WriteString("<em>" + inline(part(8)) + "</em>")
		}
		text = text[at[1]:]
	}
	return b.String() + html.EscapeString(text)
}

// anchorTo returns a link to another page of the documentation or to a web site. What is elsewhere in the repository is not
// on this server: its text stays.
func anchorTo(to, text string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return text
	case u.Scheme == "https" || u.Scheme == "http":
		return `<a href="` + html.EscapeString(u.String()) + `" rel="noreferrer">` + text + "</a>"
	case u.Scheme != "" || u.Host != "":
		return text
	case u.Path == "" && u.Fragment != "":
		return `<a href="#` + html.EscapeString(u.Fragment) + `">` + text + "</a>"
	}
	name, isPage := strings.CutSuffix(u.Path, ".md")
	if !isPage || strings.Contains(name, "/") {
		return text
	}
	path := Prefix + "/docs/" + url.PathEscape(name)
	if u.Fragment != "" {
		path += "#" + u.Fragment
	}
	return `<a href="` + html.EscapeString(path) + `">` + text + "</a>"
}

// plainMarkdown returns a text without its markup.
func plainMarkdown(text string) string {
	for range 4 { // markup within markup
		next := markup.ReplaceAllString(text, "$2$4$5$7$8$9")
		if next == text {
			break
		}
		text = next
	}
	return text
}
