// Package rig runs and monitors servers, for the benchmarks that compare Skerry with others.
//
// It knows load generators for RESP, HTTP and etcd's gRPC, how to start, stop and meter processes, PostgreSQL among them, and how
// to compute medians; it must not know what is compared or what the results are. Linux only (epoll, /proc).
package rig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

const (
	KeyBytes = 16
	ValBytes = 100
)

// AppendKey appends the i-th key: "k" and 15 digits.
func AppendKey(b []byte, i uint64) []byte {
	var k [KeyBytes]byte
	k[0] = 'k'
	for p := KeyBytes - 1; p > 0; p-- {
		k[p] = byte('0' + i%10)
		i /= 10
	}
	return append(b, k[:]...)
}

// AppendVal appends a value that differs from write to write and does not compress well.
func AppendVal(b []byte, seq uint64) []byte {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	x := seq*0x9E3779B97F4A7C15 + 1
	var v [ValBytes]byte
	for i := range v {
		if i%10 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		v[i] = alphabet[x>>(6*(i%10))&63]
	}
	return append(b, v[:]...)
}

// Codec is a protocol for the load generator: many requests in one write, replies in order.
type Codec interface {
	AppendGet(b []byte, key uint64) []byte
	AppendSet(b []byte, key, seq uint64) []byte
	// Reply returns the length of the first complete reply in b, 0 if it is incomplete, and an error if it is
	// not the expected success.
	Reply(b []byte, set bool) (int, error)
}

// RESP is RESP2, the protocol of Redis and Skerry.
type RESP struct{}

func (RESP) AppendGet(b []byte, key uint64) []byte {
	return append(AppendKey(append(b, "*2\r\n$3\r\nGET\r\n$16\r\n"...), key), "\r\n"...)
}

func (RESP) AppendSet(b []byte, key, seq uint64) []byte {
	b = AppendKey(append(b, "*3\r\n$3\r\nSET\r\n$16\r\n"...), key)
	return append(AppendVal(append(b, "\r\n$100\r\n"...), seq), "\r\n"...)
}

var (
	respOK  = []byte("+OK\r\n")
	respVal = []byte("$100\r\n")
)

func (RESP) Reply(b []byte, set bool) (int, error) {
	want, size := respVal, len(respVal)+ValBytes+2
	if set {
		want, size = respOK, len(respOK)
	}
	if n := min(len(b), len(want)); !bytes.Equal(b[:n], want[:n]) {
		return 0, fmt.Errorf("unexpected reply %q", b[:min(len(b), 200)])
	}
	if len(b) < size {
		return 0, nil
	}
	return size, nil
}

// PlainHTTP is Skerry's raw interface: GET and PUT /db/{key}.
type PlainHTTP struct{}

func (PlainHTTP) AppendGet(b []byte, key uint64) []byte {
	return append(AppendKey(append(b, "GET /db/"...), key), " HTTP/1.1\r\nHost: bench\r\n\r\n"...)
}

func (PlainHTTP) AppendSet(b []byte, key, seq uint64) []byte {
	b = AppendKey(append(b, "PUT /db/"...), key)
	return AppendVal(append(b, " HTTP/1.1\r\nHost: bench\r\nContent-Length: 100\r\n\r\n"...), seq)
}

func (PlainHTTP) Reply(b []byte, set bool) (int, error) { return HTTPReply(b, set, ValBytes) }

// GatewayHTTP is etcd's JSON gateway: base64 in JSON, always POST.
type GatewayHTTP struct{}

func (GatewayHTTP) AppendGet(b []byte, key uint64) []byte {
	b = append(b, "POST /v3/kv/range HTTP/1.1\r\nHost: bench\r\nContent-Length: 34\r\n\r\n{\"key\":\""...)
	return append(append64(b, AppendKey(nil, key)), "\"}"...)
}

func (GatewayHTTP) AppendSet(b []byte, key, seq uint64) []byte {
	b = append(b, "POST /v3/kv/put HTTP/1.1\r\nHost: bench\r\nContent-Length: 181\r\n\r\n{\"key\":\""...)
	b = append(append64(b, AppendKey(nil, key)), "\",\"value\":\""...)
	return append(append64(b, AppendVal(nil, seq)), "\"}"...)
}

func (GatewayHTTP) Reply(b []byte, set bool) (int, error) {
	return HTTPReply(b, set, base64.StdEncoding.EncodedLen(ValBytes))
}

func append64(b, raw []byte) []byte { return base64.StdEncoding.AppendEncode(b, raw) }

var (
	headEnd  = []byte("\r\n\r\n")
	lengthIs = []byte("content-length: ")
)

// HTTPReply finds the end of one HTTP/1.1 response with a Content-Length (or 204). The response to a read must
// have at least minBody bytes.
func HTTPReply(b []byte, set bool, minBody int) (int, error) {
	head := bytes.Index(b, headEnd)
	if head < 0 {
		return 0, nil
	}
	if len(b) < 12 || b[9] != '2' {
		return 0, fmt.Errorf("unexpected response %q", b[:min(len(b), 300)])
	}
	head += len(headEnd)
	body, err := contentLength(b[:head])
	if err != nil || len(b) < head+body {
		return 0, err
	}
	if !set && body < minBody {
		return 0, fmt.Errorf("response without the value: %q", b[:head+body])
	}
	return head + body, nil
}

func contentLength(head []byte) (int, error) {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if len(line) > len(lengthIs) && bytes.EqualFold(line[:len(lengthIs)], lengthIs) {
			return strconv.Atoi(string(line[len(lengthIs):]))
		}
	}
	if bytes.Equal(head[9:12], []byte("204")) {
		return 0, nil
	}
	return 0, errors.New("response without Content-Length: " + string(head))
}
