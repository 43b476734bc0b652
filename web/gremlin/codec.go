package gremlin

import (
	"bytes"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message"
)

// codec is an encoding of messages.
type codec struct {
	form        byte // its name between nodes
	decode      func(b []byte) (*message.Request, error)
	appendItem  func(dst []byte, n int, v any) ([]byte, error)
	appendItems func(dst []byte, p *message.Response, items []byte, n int) ([]byte, error)
	append      func(dst []byte, p *message.Response) ([]byte, error)
}

func binaryCodec() *codec {
	return &codec{formBinary, graphbinary.DecodeRequest, graphbinary.AppendItem, graphbinary.AppendItems, graphbinary.AppendResponse}
}

// binaryCodec4 is of requests and results over HTTP only.
func binaryCodec4() *codec {
	return &codec{form: formBinary4, decode: graphbinary.DecodeRequest4, appendItem: graphbinary.AppendItem4}
}

func jsonCodec(f graphson.Format) *codec {
	form := byte(formTyped)
	switch f {
	case graphson.Untyped:
		form = formUntyped
	case graphson.Untyped4:
		form = formUntyped4
	}
	return &codec{form, graphson.DecodeRequest, f.AppendItem, f.AppendItems, f.AppendResponse}
}

// codecNamed returns the codec of a MIME type; nil if there is none.
func codecNamed(mime string) *codec {
	switch mime {
	case graphbinary.Mime:
		return binaryCodec()
	case graphson.MimeTyped, graphson.MimeJSON:
		return jsonCodec(graphson.Typed)
	case graphson.MimeUntyped:
		return jsonCodec(graphson.Untyped)
	}
	return nil
}

// codecOf returns the codec of a form; nil if there is none.
func codecOf(form byte) *codec {
	switch form {
	case formBinary:
		return binaryCodec()
	case formTyped:
		return jsonCodec(graphson.Typed)
	case formUntyped:
		return jsonCodec(graphson.Untyped)
	case formUntyped4:
		return jsonCodec(graphson.Untyped4)
	case formBinary4:
		return binaryCodec4()
	}
	return nil
}

// frame splits a message from a driver. A binary one begins with the length of
// the name of its encoding and the name; text is JSON. The codec is that of the
// answer, also if there is an error. offset is where the body begins.
func frame(typ websocket.MessageType, b []byte) (body []byte, offset int, c *codec, err error) {
	if typ == websocket.MessageText {
		return b, 0, jsonCodec(graphson.Typed), nil
	}
	if len(b) == 0 {
		return nil, 0, binaryCodec(), &message.Error{Msg: "expected the length of a MIME type"}
	}
	n := int(b[0])
	if n > len(b)-1 {
		return nil, 0, binaryCodec(), &message.Error{Offset: 1, Msg: "expected a MIME type"}
	}
	mime := string(bytes.ReplaceAll(b[1:1+n], []byte(" "), nil))
	if c = codecNamed(mime); c == nil {
		return nil, 0, binaryCodec(), &message.Error{
			Offset: 1, Msg: "expected a MIME type of " + graphbinary.Mime + " or " + graphson.MimeTyped,
		}
	}
	return b[1+n:], 1 + n, c, nil
}
