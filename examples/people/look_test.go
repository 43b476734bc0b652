package people_test

import (
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/examples/people"
	"github.com/skerrydb/skerry/webtest"
)

// TestLooks looks at the page in a real browser, on a phone and on a desktop, light and dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	site := webtest.Start(t, skerry.Web{Name: "people", Application: people.Application})
	site.Browser().Post("/")
	browsertest.Open(t).Visit(site.URL+"/", "people")
}
