package gotro_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// post sends a form, and returns the page that follows.
func (b *browser) post(want int, path string, form url.Values, has ...string) string {
	b.t.Helper()
	status, body := b.send("POST", path, "text/html", form)
	if status != want {
		b.t.Fatalf("%s: %d, want %d\n%s", path, status, want, body)
	}
	b.contains(path, body, has)
	return body
}

func customer(name, email string, more ...string) url.Values {
	v := url.Values{"rev": {"0"}, "full_name": {name}, "email": {email}, "kind": {"person"}}
	for i := 0; i < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// TestBaseTable: the grid, its search, order and pages; the form and what it refuses; history, deletion and restoring.
func TestBaseTable(t *testing.T) {
	t.Parallel()
	b := start(t)
	if status, _ := b.send("GET", "/base/customers", "text/html", nil); status != 403 {
		t.Errorf("a stranger: %d", status)
	}
	b.send("POST", "/login_example", "text/html", url.Values{"name": {"Anna"}})
	b.page("/base/customers", "Nothing found.", "<th><a href=\"?sort=email\">E-mail</a>", "Credit limit")
	b.page("/base/customers/new", `type="email" name="email"`, `type="tel" name="phone"`, "<option selected>person</option>", "only one customer can have it")

	b.post(200, "/base/customers/new", customer(hostile[:40], "x@example.org", "phone", "+62 (21) 555-01", "credit", "12.5", "blocked", "true", "since", "2024-05-06"),
		"&lt;img", "x@example.org", "&#43;622155501", "12.50", "true", "2024-05-06T00:00:00")
	for want, form := range map[int]url.Values{
		2: customer("A", "", "credit", "much", "since", "soon"), // no values of their fields
		4: customer("", "nobody", "kind", "cat", "phone", "1"),
		1: customer("A", "", "credit", "0.001"),
	} {
		body := b.post(422, "/base/customers/new", form)
		if n := strings.Count(body, `<b class="wrong">`); n != want {
			t.Errorf("%d fields are wrong, want %d:\n%s", n, want, body)
		}
	}
	b.post(422, "/base/customers/new", customer("Second", "x@example.org"), `role="alert"`, `value="Second"`)
	for i := range 25 {
		b.post(200, "/base/customers/new", customer(fmt.Sprintf("Customer %02d", i), "", "kind", []string{"person", "company"}[i%2], "credit", fmt.Sprint(i)))
	}
	page := b.page("/base/customers?sort=full_name", "Customer 00", "Customer 18")
	if strings.Contains(page, "Customer 21") {
		t.Error("the page does not end")
	}
	next := strings.ReplaceAll(regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page)[1], "&amp;", "&")
	b.page("/base/customers"+next, "Customer 21", "Customer 24")
	page = b.page("/base/customers?full_name=CUSTOMER&kind=company&credit=7&sort=-full_name", "Customer 07")
	if strings.Contains(page, "Customer 09") || strings.Contains(page, "Customer 06") {
		t.Errorf("the search finds too much:\n%s", page)
	}
	b.page("/base/customers?full_name="+url.QueryEscape(`" || true || "" = "`), "Nothing found.")
	if status, _ := b.send("GET", "/base/customers?credit=much", "text/html", nil); status != 400 {
		t.Errorf("a search for no number: %d", status)
	}

	at := regexp.MustCompile(`/base/customers/[0-9a-f-]{36}`).FindString(page)
	b.page(at, `value="Customer 07"`, `name="rev" value="1"`, "<b>create</b> by Anna", "History")
	b.post(200, at, customer("Renamed", "", "rev", "1"), "Renamed")
	b.post(422, at, customer("Too late", "", "rev", "1"), `role="alert"`, "revision")
	b.page(at, "<b>update</b> by Anna", "Renamed", "Customer 07")
	b.post(200, at+"/delete", url.Values{})
	b.page("/base/customers?trash=1", "Renamed")
	if page := b.page("/base/customers?full_name=renamed"); strings.Contains(page, ">Renamed<") {
		t.Error("a deleted record is listed")
	}
	b.page(at, "<b>delete</b> by Anna", at+"/restore")
	b.post(200, at+"/restore", url.Values{})
	b.page("/base/customers?full_name=renamed", ">Renamed<")
	for _, path := range []string{"/base/nothing", "/base/customers/none", "/base/nothing/new"} {
		if status, _ := b.send("GET", path, "text/html", nil); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}
