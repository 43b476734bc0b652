package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// answerLimit is how long a server may take for one response. PocketBase waits up to 10 s for a lock.
const answerLimit = 60 * time.Second

// client is one connection with one request in flight. It is written for little CPU: it reads nothing of a response's
// head but its status and length.
type client struct {
	conn net.Conn
	out  []byte
	in   []byte // received, and not yet returned
	body []byte // in chunks
	used int    // of in, by the last response
}

func dial(addr string) (*client, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{conn: c, in: make([]byte, 0, 32<<10)}, nil
}

// request starts a request without a body.
func (c *client) request(method, path string) {
	c.out = append(append(append(append(c.out[:0], method...), ' '), path...), " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"...)
}

// requestJSON starts a request with a body.
func (c *client) requestJSON(method, path string, body []byte) {
	c.out = append(append(append(append(c.out[:0], method...), ' '), path...), " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = append(append(strconv.AppendInt(c.out, int64(len(body)), 10), "\r\n\r\n"...), body...)
}

// send sends the started request and returns the response. The body is good until the next call.
func (c *client) send(now time.Time) (status int, body []byte, err error) {
	c.conn.SetDeadline(now.Add(answerLimit))
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, err
	}
	c.in = c.in[:copy(c.in, c.in[c.used:])]
	for {
		if status, body, c.used, err = c.response(c.in); c.used > 0 || err != nil {
			return status, body, err
		}
		if c.in = slices.Grow(c.in, 16<<10); err == nil {
			n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
			if c.in = c.in[:len(c.in)+n]; err != nil {
				return 0, nil, err
			}
		}
	}
}

// response reads the first response in b and returns its size, 0 if it is incomplete. The body is good until the next
// call, and as long as b.
func (c *client) response(b []byte) (status int, body []byte, size int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, nil, 0, nil
	}
	if end < 12 || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return 0, nil, 0, fmt.Errorf("no HTTP response: %.80q", b)
	}
	if status, err = strconv.Atoi(string(b[9:12])); err != nil {
		return 0, nil, 0, err
	}
	length, err := lengthOf(b[:end+2])
	if err != nil {
		return 0, nil, 0, err
	}
	end += 4
	switch {
	case length == chunked:
		c.body, size, err = unchunk(c.body[:0], b[end:])
		if size == 0 || err != nil {
			return 0, nil, 0, err
		}
		return status, c.body, end + size, nil
	case len(b) < end+length:
		return 0, nil, 0, nil
	}
	return status, b[end : end+length], end + length, nil
}

// Lengths of responses that are not given by a number.
const (
	unknown = -1
	chunked = -2
)

// lengthOf returns the length of the body after a head.
func lengthOf(head []byte) (length int, err error) {
	length = unknown
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\r\n"))
		head = rest
		name, v, _ := bytes.Cut(line, []byte(":"))
		switch v = bytes.TrimSpace(v); {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(v)); err != nil || length < 0 {
				return 0, fmt.Errorf("bad length of a response: %q", line)
			}
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case len(name) == len("Connection") && bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(v, []byte("close")):
			return 0, errors.New("the server closes the connection")
		}
	}
	if length == unknown {
		return 0, errors.New("response without a length")
	}
	return length, nil
}

// unchunk appends the body in chunks (RFC 9112, section 7.1), without trailers, that b begins with, and returns how long
// it is in b, 0 if it is incomplete.
func unchunk(body, b []byte) ([]byte, int, error) {
	for at := 0; ; {
		end := bytes.Index(b[at:], []byte("\r\n"))
		if end < 0 {
			return body, 0, nil
		}
		n, err := strconv.ParseUint(string(b[at:at+end]), 16, 31)
		if err != nil {
			return body, 0, err
		}
		at += end + 2
		if len(b) < at+int(n)+2 {
			return body, 0, nil
		}
		body = append(body, b[at:at+int(n)]...)
		if at += int(n) + 2; n == 0 {
			return body, at, nil
		}
	}
}
