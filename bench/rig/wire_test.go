package rig

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestRequestsHaveTheirDeclaredLength(t *testing.T) {
	for name, c := range map[string]Codec{"plain": PlainHTTP{}, "gateway": GatewayHTTP{}} {
		b := c.AppendSet(c.AppendGet(c.AppendSet(nil, 7, 1), 999_999), 1_000_000, 1<<40)
		r := bufio.NewReader(bytes.NewReader(b))
		for i := range 3 {
			q, err := http.ReadRequest(r)
			if err != nil {
				t.Fatalf("%s: request %d: %v", name, i, err)
			}
			body, err := io.ReadAll(q.Body)
			if err != nil || int64(len(body)) != max(q.ContentLength, 0) {
				t.Fatalf("%s: body of %d bytes, %v", name, len(body), err)
			}
			if strings.HasPrefix(q.URL.Path, "/v3/") && !(bytes.HasPrefix(body, []byte("{")) && bytes.HasSuffix(body, []byte("}"))) {
				t.Errorf("%s: body %q", name, body)
			}
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: bytes after the last request", name)
		}
	}
}

func TestRepliesAreCutWhereTheyEnd(t *testing.T) {
	val := strings.Repeat("v", ValBytes)
	for _, c := range []struct {
		codec Codec
		set   bool
		reply string
	}{
		{RESP{}, true, "+OK\r\n"},
		{RESP{}, false, "$100\r\n" + val + "\r\n"},
		{PlainHTTP{}, true, "HTTP/1.1 204 No Content\r\nX-Skerry-Position: 7\r\n\r\n"},
		{PlainHTTP{}, false, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + val},
		{GatewayHTTP{}, true, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"},
	} {
		twice := []byte(c.reply + c.reply)
		for n := range len(c.reply) {
			if got, err := c.codec.Reply(twice[:n], c.set); got != 0 || err != nil {
				t.Fatalf("%T: %d bytes of %q: %d, %v", c.codec, n, c.reply, got, err)
			}
		}
		if got, err := c.codec.Reply(twice, c.set); got != len(c.reply) || err != nil {
			t.Errorf("%T: %q: %d, %v", c.codec, c.reply, got, err)
		}
	}
}

func TestFailuresAreNotCounted(t *testing.T) {
	for _, c := range []struct {
		codec Codec
		set   bool
		reply string
	}{
		{RESP{}, true, "-ERR no\r\n"},
		{RESP{}, false, "$-1\r\n"},
		{RESP{}, false, "$10\r\n"},
		{PlainHTTP{}, false, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		{PlainHTTP{}, false, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"},
		{GatewayHTTP{}, false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"},
		{GatewayHTTP{}, false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
	} {
		if n, err := c.codec.Reply([]byte(c.reply), c.set); err == nil {
			t.Errorf("%T takes %q for a success of %d bytes", c.codec, c.reply, n)
		}
	}
}

func TestShapes(t *testing.T) {
	got, err := ParseShapes("1x1,8x64")
	if err != nil || len(got) != 2 || got[1] != (Shape{8, 64}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "8", "8x", "x8", "0x1", "1x0", "8x64x", "1x1,", "1x1000000"} {
		if got, err := ParseShapes(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
