package picture_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/examples/picture"
)

// TestWellFormed: whatever the names are, the picture is XML, and it has every text.
func TestWellFormed(t *testing.T) {
	t.Parallel()
	p := picture.Picture{
		ID: "p", Title: `<b>&"`, About: "3 < 4",
		Names:  []picture.Name{{Text: "<script>"}, {Text: "ß&"}, {Text: `"d"`, Middle: true}},
		Arrows: []picture.Arrow{{From: 0, To: 1, Labels: []string{"a<b", "5 €"}}, {From: 1, To: 0}, {From: 0, To: 0}},
		Lines:  []picture.Line{{From: 0, To: 2}},
	}
	for _, text := range []string{p.File(), p.Inline()} {
		var all strings.Builder
		elements := map[string]int{}
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			switch x := token.(type) {
			case xml.StartElement:
				elements[x.Name.Local]++
			case xml.CharData:
				all.Write(x)
			}
		}
		for _, want := range []string{"<script>", "ß&", `"d"`, "a<b", "5 €", `<b>&"`, "3 < 4"} {
			if !strings.Contains(all.String(), want) {
				t.Errorf("it lacks %s:\n%s", want, text)
			}
		}
		if elements["path"] != 3 || elements["line"] != 1 || elements["title"] != 1 || elements["desc"] != 1 || elements["script"] != 0 || strings.Contains(text, "NaN") {
			t.Errorf("%v\n%s", elements, text)
		}
	}
}
