package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// answerLimit is how long a server may take for one response. PocketBase waits up to 10 s for a lock.
const answerLimit = 60 * time.Second

// client is one connection with one request in flight. It is written for little CPU: it reads nothing of a response's
// head but its status and length.
type client struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
	body []byte
}

func dial(addr string) (*client, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{conn: c, r: bufio.NewReaderSize(c, 32<<10)}, nil
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
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, fmt.Errorf("no HTTP response: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	length, err := c.head()
	if err != nil {
		return 0, nil, err
	}
	c.body = c.body[:0]
	if length == chunked {
		err = c.chunks()
	} else {
		err = c.more(length)
	}
	return status, c.body, err
}

// Lengths of responses that are not given by a number.
const (
	unknown = -1
	chunked = -2
)

// head reads the rest of a response's head and returns the length of the body.
func (c *client) head() (length int, err error) {
	length = unknown
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		name, v, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch v = bytes.TrimSpace(v); {
		case !found && len(name) == 0:
			if length == unknown {
				return 0, errors.New("response without a length")
			}
			return length, nil
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
}

// more reads n bytes of the body.
func (c *client) more(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

// chunks reads a body in chunks (RFC 9112, section 7.1) without trailers.
func (c *client) chunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return err
		}
		if err := c.more(int(n)); err != nil {
			return err
		}
		if _, err := c.r.Discard(len("\r\n")); err != nil || n == 0 {
			return err
		}
	}
}
