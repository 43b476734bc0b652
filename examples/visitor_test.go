package examples_test

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// visitor is a browser that keeps cookies whatever the connection is, as browsers do
// on the same machine, and gives them to every node, as they do to every port.
type visitor struct {
	t       *testing.T
	client  http.Client
	cookies map[string]string
}

func newVisitor(t *testing.T) *visitor {
	return &visitor{t, http.Client{
		Timeout:       startWait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, map[string]string{}}
}

// do sends a request to a node, a POST if there is a form. Status 0 means that there was no response.
func (v *visitor) do(at, path string, form url.Values) (status int, text string) {
	v.t.Helper()
	method := "GET"
	if form != nil {
		method = "POST"
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, "http://"+at+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, name := range slices.Sorted(maps.Keys(v.cookies)) {
		r.AddCookie(&http.Cookie{Name: name, Value: v.cookies[name]})
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	for _, c := range resp.Cookies() {
		v.cookies[c.Name] = c.Value
	}
	return resp.StatusCode, string(body)
}
