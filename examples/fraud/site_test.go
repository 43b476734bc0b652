package fraud_test

import (
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/fraud"
	"github.com/skerrydb/skerry/webtest"
)

func start(t *testing.T) *webtest.Site {
	t.Helper()
	return webtest.Start(t, skerry.Web{Name: "fraud", Application: fraud.Application}, fraud.Procedures()...)
}

// TestPages: the sample is loaded, its rings are listed and drawn, and the form makes transfers or says what is wrong.
func TestPages(t *testing.T) {
	t.Parallel()
	b := start(t).Browser()
	home := b.Get("/").Expect(200, "There are no accounts yet").Lacks("Shared devices")
	home = home.Submit(`form[action=/sample]`).ExpectPath("/").Expect(200, "3 rings among 87 accounts and 600 transfers.", "visa-couple", "Groups").Lacks("Load the sample", "—")
	b.Post("/sample").ExpectPath("/").Expect(200, "87 accounts and 600 transfers") // once is enough
	cards := home.All(".card")
	if len(cards) != 3 {
		t.Fatalf("%d rings", len(cards))
	}
	for _, card := range cards {
		page := b.Get(card.Attr("href")).Expect(200, "<svg", "pays €", " h later", "All rings")
		if page.Find("svg").Attr("role") != "img" || page.Find("svg title").Text() != page.Find("h1").Text() || page.Find("svg desc").Text() == "" {
			t.Errorf("the picture has no texts:\n%s", page.Body)
		}
		if arrows, transfers := len(page.All("svg .arrow")), len(page.All("ol li")); arrows != transfers || arrows < fraud.MinAccounts {
			t.Errorf("%d arrows for %d transfers", arrows, transfers)
		}
		page.Click("All rings").ExpectPath("/")
	}
	b.Get("/rings/T1").Expect(404, "no ring begins")
	b.Get("/rings/%3Cb%3E").Expect(404, "&lt;b&gt;")

	for _, c := range []struct{ from, to, amount, want string }{
		{"P-001", "nobody", "5", "there is no account nobody"}, {"P-001", "P-002", "-5", "more than 0"}, {"P-001", "P-002", "0", "1 to"}, {"P-001", "P-002", "-0.5", "more than 0"},
		{"P-001", "P-002", "x", "such as 12.50"}, {"P-001", "P-002", "1.234", "such as 12.50"}, {"P-001", "P-002", "1.", "such as 12.50"}, {"P-001", "P-002", "1.-5", "such as 12.50"},
		{"P-001", "P-002", "99999999999", "at most"}, {"P-001", "P-001", "5", "two different accounts"}, {"P-001", "P-002", "9999999", "are needed"}, {"<b>", "P-002", "1", "&lt;b&gt;"},
	} {
		home.Submit("form.pay", "from", c.from, "to", c.to, "amount", c.amount).Expect(422, c.want)
	}
	b.Get("/").Expect(200, "600 transfers")
}

// TestNewRing: three transfers make a ring, which the page shows.
func TestNewRing(t *testing.T) {
	t.Parallel()
	b := start(t).Browser()
	b.Post("/sample")
	for i, c := range [][2]string{{"C-1", "C-2"}, {"C-2", "L-1"}, {"L-1", "C-1"}} {
		home := b.Get("/")
		home.Expect(200, "3 rings among")
		home.Submit("form.pay", "from", c[0], "to", " "+c[1]+" ", "amount", []string{"1050", "1050.00", "1000.5"}[i]).ExpectPath("/")
	}
	b.Get("/").Expect(200, "4 rings among 87 accounts and 603 transfers.", "Ring of 3 accounts from C-1", "less than a minute")
	b.Get("/rings/T601").Expect(200, "L-1 pays €1,000.50 to C-1")
}
