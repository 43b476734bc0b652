package view_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestWithoutNonce: scripts and styles that a policy of nonces blocks are found, with
// their lines, and no others.
func TestWithoutNonce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<script>x</script>": "1 script", "a\n\n<STYLE>p{}</STYLE>\n<Script\ntype=module>x</script>": "3 style, 4 script",
		`<script nonce="#{nonce}">x</script><style nonce='{{.nonce}}'>y</style>`: "", `<script NONCE={{.nonce}}>x</script>`: "",
		`<script src="/a.js"></script><script src=/b.js defer></script>`: "", `<script type="application/json">{}</script>`: "",
		`<script type="text/JavaScript">x</script>`: "1 script", `<script type=importmap>{}</script>`: "1 script",
		`<script {{.attrs}}>x</script>`: "html: , z: 1 script", `<script #{attrs}>x</script>`: "", `<script type="{{.t}}">x</script>`: "",
		`<!-- <script>x</script> --><p>`: "", `<textarea><script></textarea><title><style></title>`: "",
		`<script nonce="x">"<script>"</script><style>`: "1 style", `<scripts><script-a><styles>`: "",
		`<script data-a=">" nonce=x>y</script>`: "", `<script data-nonce="1">y</script>`: "1 script",
		`{{/* <script> */}}{{printf "<style>"}}`: "html: , z: 1 script", `<script nonce="{{index . "nonce"}}">x</script>`: "",
		`<script`: "", `<script `: "1 script", `<script a="`: "1 script", `<script a=`: "1 script", `<script =x>`: "1 script", `<!--`: "", "<": "",
	} {
		for _, kind := range []string{"html", "z"} {
			file := map[string]string{"html": "a.html", "z": "a.z.html"}[kind]
			wants := want
			if html, z, both := strings.Cut(strings.TrimPrefix(want, "html: "), ", z: "); both {
				wants = map[string]string{"html": html, "z": z}[kind]
			}
			s := newSite(t)
			s.write(file, text)
			var got []string
			for _, p := range s.load(true).WithoutNonce() {
				if p.File != file {
					t.Errorf("%q: in %s", text, p.File)
				}
				got = append(got, fmt.Sprintf("%d %s", p.Line, p.Element))
			}
			if strings.Join(got, ", ") != wants {
				t.Errorf("%s %q: %q, want %q", kind, text, got, wants)
			}
		}
	}
}
