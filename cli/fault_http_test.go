package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// webClient is a client of the HTTP face of one node, or of several in turn.
type webClient struct {
	http  *http.Client
	addrs []string
	at    int
	pos   uint64 // the highest position that it was told
}

func newWebClient(addrs []string) *webClient {
	return &webClient{addrs: addrs, http: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
		MaxIdleConnsPerHost: 4,
	}}}
}

// next goes on to the next node.
func (c *webClient) next() { c.at = (c.at + 1) % len(c.addrs) }

// answer is a server's response.
type webAnswer struct {
	status   int
	body     string
	etag     string
	pos      uint64
	replayed bool
}

// ask makes one request. An error response is a serverError.
func (c *webClient) ask(ctx context.Context, method, path, body string, header ...string) (a webAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addrs[c.at]+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return a, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a = webAnswer{status: resp.StatusCode, body: string(text), etag: resp.Header.Get("ETag"), replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	if p := resp.Header.Get("X-Skerry-Position"); p != "" {
		if a.pos, err = strconv.ParseUint(p, 10, 64); err != nil {
			return a, err
		}
	}
	switch a.status {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotFound, http.StatusPreconditionFailed:
		return a, nil
	}
	var p struct{ Code, Detail string }
	if json.Unmarshal(text, &p) != nil || p.Code == "" {
		return a, serverError(fmt.Sprintf("HTTP %d without a code: %.200q", a.status, text))
	}
	return a, serverError(fmt.Sprintf("%s [%s]", p.Detail, p.Code))
}

// saw records a position that the client received.
func (c *webClient) saw(a webAnswer) { c.pos = max(c.pos, a.pos) }

func dbPath(key string) string { return "/db/" + url.PathEscape(key) }

// listed is one key of a listing.
type listed struct {
	Key, Value string
	Revision   uint64
}

// list returns all keys with a prefix, as of pos if they fit into one page.
func (c *webClient) list(ctx context.Context, prefix, read string) (items []listed, pos uint64, pages int, err error) {
	next := "/db/?limit=10000&values=1&prefix=" + url.QueryEscape(prefix) + "&read=" + read
	for next != "" {
		a, err := c.ask(ctx, "GET", next, "")
		if err != nil {
			return nil, 0, 0, err
		}
		var page struct {
			Items []listed
			Next  string
		}
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			return nil, 0, 0, err
		}
		items, pos, pages = append(items, page.Items...), a.pos, pages+1
		if next = page.Next; next != "" && !strings.Contains(next, "read=") {
			next += "&read=" + read
		}
	}
	return items, pos, pages, nil
}
