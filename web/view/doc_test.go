package view_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDoc compares the table of docs/templates.md with the code; -rewrite prints it.
func TestDoc(t *testing.T) {
	const file, from, to = "../../docs/templates.md", "<!-- printed from the code -->\n", "<!-- end -->"
	var b strings.Builder
	b.WriteString("\n| place | in the file | what comes out |\n|---|---|---|\n")
	const v = "<img src=x onerror=alert('1')>"
	for _, c := range []struct {
		place, text string
		value       any
	}{
		{"text", "<p>#{v}</p>", v},
		{"attribute", `<p title="#{v}">`, v},
		{"attribute without quotes", "<p title=#{v}>", v},
		{"URL, its beginning", `<a href="#{v}">`, "javascript:alert(1)"},
		{"URL, its path", `<a href="/x/#{v}">`, v},
		{"URL, its query", `<a href="/x?q=#{v}">`, "a&b=c d"},
		{"srcset", `<img srcset="#{v}">`, "/a.png 1x, javascript:alert(1) 2x"},
		{"name of an attribute", "<p #{v}=1>", "onclick"},
		{"style", "<style>p { color: #{v} }</style>", "red; background: url(//x)"},
		{"string in a style", "<style>p { content: '#{v}' }</style>", v},
		{"string in a script", "<script>x = '#{v}'</script>", v},
		{"template literal", "<script>x = `#{v}`</script>", "`${alert(1)}"},
		{"regular expression", "<script>x = /#{v}/</script>", "a.b"},
		{"value in a script", "<script>x = #{v}</script>", "</script>"},
		{"the same, for editors", "<script>x = /*! v */</script>", "</script>"},
		{"object", "<script>x = {/* v */}</script>", map[string]any{"a": []int{1, 2}}},
		{"array", "<script>x = [/* v */]</script>", []string{"it's", "\u2028"}},
		{"string in an event handler", `<p onclick="f('#{v}')">`, "'); alert('1"},
		{"value in an event handler", `<p onclick="f({/* v */})">`, map[string]any{"a": "\""}},
		{"object in text", `<p data-x="#{v}">`, map[string]any{"a": 1}},
		{"comment", "<!-- #{v} --><script>/* #{v} */</script>", v},
	} {
		out := render(t, load(t, map[string]string{"a.z.html": c.text}), "a", map[string]any{"v": c.value})
		cell := strings.NewReplacer("|", `\|`, "\u2028", `\u2028`)
		fmt.Fprintf(&b, "| %s | `%s` | `%s` |\n", c.place, tick(cell.Replace(c.text)), tick(cell.Replace(out)))
	}
	b.WriteString("\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), from)
	old, tail, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks", file)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(head+from+b.String()+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != b.String() {
		t.Errorf("the table of %s differs from the code; run this test with -rewrite", file)
	}
}

// tick makes a text with backquotes one that Markdown shows between backquotes.
func tick(s string) string {
	if strings.Contains(s, "`") {
		return "` " + s + " `"
	}
	return s
}
