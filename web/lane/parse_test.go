package lane

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

var parsing = newTable([]Route{
	{Methods: "GET, HEAD, PUT, POST, DELETE", Path: "/k/", Headers: []string{"If-Match"}},
	{Methods: "GET", Path: "/exact"},
})

// good requests are simple.
var good = []string{
	"GET /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"HEAD /k/a/b//c/../d HTTP/1.1\r\nhOST:h:80  \r\nIF-match: \"1\"\r\n\r\n",
	"DELETE /k/-._~:@&=+$,; HTTP/1.1\r\nHost: [::1]:7001\r\nConnection: keep-alive\r\nAccept:\r\n\r\n",
	"PUT /k/a HTTP/1.1\r\nContent-Length: 3\r\nHost: h\r\n\r\nabc",
	"POST /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Type: text/plain; a=\"b\"\r\n\r\n",
	"GET /exact HTTP/1.1\r\nHost: h\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n",
}

// bad requests are not; among them are those that smuggle another one past a careless reader.
var bad = map[string]string{
	"method":                  "PATCH /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"method in lower case":    "get /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"empty line first":        "\r\nGET /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"absolute target":         "GET http://h/k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"other route":             "GET /other HTTP/1.1\r\nHost: h\r\n\r\n",
	"prefix alone":            "GET /k/ HTTP/1.1\r\nHost: h\r\n\r\n",
	"method of another route": "PUT /exact HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
	"percent":                 "GET /k/%61 HTTP/1.1\r\nHost: h\r\n\r\n",
	"query":                   "GET /k/a?b HTTP/1.1\r\nHost: h\r\n\r\n",
	"fragment":                "GET /k/a#b HTTP/1.1\r\nHost: h\r\n\r\n",
	"raw path":                "GET /k/a! HTTP/1.1\r\nHost: h\r\n\r\n",
	"two spaces":              "GET  /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"tab":                     "GET /k/a\tHTTP/1.1\r\nHost: h\r\n\r\n",
	"HTTP/1.0":                "GET /k/a HTTP/1.0\r\nHost: h\r\n\r\n",
	"HTTP/2":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"HTTP/0.9":                "GET /k/a\r\n\r\n",
	"bare LF":                 "GET /k/a HTTP/1.1\nHost: h\n\n",
	"bare LF in fields":       "GET /k/a HTTP/1.1\r\nHost: h\nAccept: b\r\n\r\n",
	"bare CR":                 "GET /k/a HTTP/1.1\r\nHost: h\rAccept: b\r\n\r\n",
	"folded":                  "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept: a\r\n b\r\n\r\n",
	"space before colon":      "GET /k/a HTTP/1.1\r\nHost : h\r\n\r\n",
	"space before name":       "GET /k/a HTTP/1.1\r\n Host: h\r\n\r\n",
	"no colon":                "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept\r\n\r\n",
	"empty name":              "GET /k/a HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n",
	"control byte":            "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept: a\x00\r\n\r\n",
	"tab in value":            "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept:\ta\r\n\r\n",
	"not ASCII":               "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept: ä\r\n\r\n",
	"no Host":                 "GET /k/a HTTP/1.1\r\nAccept: a\r\n\r\n",
	"empty Host":              "GET /k/a HTTP/1.1\r\nHost:\r\n\r\n",
	"two Hosts":               "GET /k/a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
	"Host with a path":        "GET /k/a HTTP/1.1\r\nHost: h/x\r\n\r\n",
	"two fields":              "GET /k/a HTTP/1.1\r\nHost: h\r\nAccept: a\r\naccept: b\r\n\r\n",
	"unknown field":           "GET /k/a HTTP/1.1\r\nHost: h\r\nX-Any: a\r\n\r\n",
	"field of another route":  "GET /exact HTTP/1.1\r\nHost: h\r\nIf-Match: a\r\n\r\n",
	"Origin":                  "GET /k/a HTTP/1.1\r\nHost: h\r\nOrigin: http://h\r\n\r\n",
	"Connection: close":       "GET /k/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
	"Connection names Host":   "GET /k/a HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Host\r\n\r\n",
	"Upgrade":                 "GET /k/a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"Expect":                  "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
	"length of GET":           "GET /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
	"no length of PUT":        "PUT /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"two lengths":             "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
	"list of lengths":         "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\na",
	"signed length":           "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na",
	"negative length":         "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\na",
	"length with a zero":      "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 01\r\n\r\na",
	"hexadecimal length":      "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\na",
	"empty length":            "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
	"large body":              "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n",
	"huge length":             "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551617\r\n\r\na",
	"chunked":                 "PUT /k/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunked with length":     "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"obscured chunked":        "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding : xchunked\r\n\r\n",
	"trailer":                 "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTrailer: A\r\n\r\na",
	"long head":               "GET /k/" + strings.Repeat("a", MaxHeadBytes) + " HTTP/1.1\r\nHost: h\r\n\r\n",
	"no end of a long head":   "GET /k/" + strings.Repeat("a", MaxHeadBytes),
}

func TestParse(t *testing.T) {
	var h head
	for _, text := range good {
		if v := parsing.parse(&h, []byte(text), 0); v != simple {
			t.Errorf("%q is not simple: %v", text, v)
		}
		sameReading(t, &h, []byte(text))
		for i := range text[:h.size] { // whatever part has arrived
			if v := parsing.parse(&h, []byte(text[:i]), 0); v != more && i < strings.Index(text, "\r\n\r\n")+4 {
				t.Errorf("%q: %v", text[:i], v)
			}
		}
	}
	for name, text := range bad {
		if v := parsing.parse(&h, []byte(text), 0); v != other {
			t.Errorf("%s: %q is %v, want other", name, text[:min(len(text), 200)], v)
		}
	}
}

// sameReading fails unless net/http reads the request at the beginning of b as the lane did.
func sameReading(t *testing.T, h *head, b []byte) {
	t.Helper()
	src := bytes.NewReader(b)
	in := bufio.NewReaderSize(src, 1<<20)
	r, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b, err)
	}
	if size := len(b) - src.Len() - in.Buffered(); size != h.size {
		t.Errorf("%q: the head has %d bytes, net/http reads %d", b, h.size, size)
	}
	if r.Method != h.method || r.URL.Path != h.path || r.URL.RawPath != "" || r.URL.String() != h.path || r.RequestURI != h.path || r.Host != h.host || r.ContentLength != int64(h.length) {
		t.Errorf("%q: the lane reads %s %s of %s with %d bytes, net/http %+v", b, h.method, h.path, h.host, h.length, r)
	}
	if r.Proto != "HTTP/1.1" || r.Close || r.TransferEncoding != nil || r.Trailer != nil {
		t.Errorf("%q: net/http reads %+v", b, r)
	}
	if len(r.Header) != h.n {
		t.Errorf("%q: %d header fields, net/http has %v", b, h.n, r.Header)
	}
	for _, f := range h.fields[:h.n] {
		if v := r.Header[parsing.names[f.place]]; len(v) != 1 || v[0] != f.value {
			t.Errorf("%q: %s is %q, net/http has %q", b, parsing.names[f.place], f.value, v)
		}
	}
	if rest := b[h.size:]; len(rest) >= h.length {
		if body, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(body, rest[:h.length]) {
			t.Errorf("%q: net/http reads the body %q, %v", b, body, err)
		}
	}
}

// FuzzParse checks that net/http reads everything that the lane accepts in the same way, and that it does not
// matter in which parts it arrives.
func FuzzParse(f *testing.F) {
	for _, text := range good {
		f.Add([]byte(text), uint16(7))
		f.Add([]byte(text+good[0]), uint16(30))
	}
	for _, text := range bad {
		f.Add([]byte(text), uint16(20))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		var h, later head
		v := parsing.parse(&h, b, 0)
		if v == simple {
			sameReading(t, &h, b)
		}
		if n := int(cut); n < len(b) {
			switch first := parsing.parse(&later, b[:n], 0); {
			case first == more && len(b) <= MaxHeadBytes:
				if got := parsing.parse(&later, b, n); got != v {
					t.Errorf("%q is %v, but %v after %d bytes", b, v, got, n)
				}
			case first == other && v == simple, first == simple && v != simple:
				t.Errorf("%q is %v, its first %d bytes are %v", b, v, n, first)
			}
		}
	})
}
