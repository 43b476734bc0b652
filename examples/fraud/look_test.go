package fraud_test

import (
	"testing"

	"github.com/skerrydb/skerry/examples/browsertest"
)

// TestLooks looks at the pages in a real browser, on a phone and on a desktop, light and dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	site := start(t)
	home := site.Browser().Post("/sample")
	tab := browsertest.Open(t)
	tab.Visit(site.URL+"/", "overview")
	tab.Visit(site.URL+home.All(".card")[0].Attr("href"), "ring")
}
