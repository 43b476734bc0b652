package api

import (
	"io"
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// bodyLimit is the longest body in bytes, and the error for a longer one.
type bodyLimit struct {
	bytes int
	code  engine.Code
	what  string
}

// readBody reads the body of r into x.val. A declared length over the limit is
// refused before anything is read; memory grows only as bytes arrive, whatever
// length was declared.
func (x *operation) readBody(r *http.Request, limit bodyLimit) error {
	n := r.ContentLength
	if n > int64(limit.bytes) {
		return x.tooLarge(limit)
	}
	if n == 0 && len(r.Header["Content-Length"]) == 0 {
		return engine.Errorf(problem.CodeLengthRequired, "the request has no body; an empty value needs Content-Length: 0")
	}
	if n > int64(cap(x.val)) && n <= smallBody {
		x.val = make([]byte, 0, n)
	}
	x.val = x.val[:0]
	for {
		if len(x.val) == cap(x.val) {
			if int64(len(x.val)) == n {
				return nil // as much as was declared
			}
			if err := x.growBody(n, limit.bytes); err != nil {
				return err
			}
		}
		got, err := r.Body.Read(x.val[len(x.val):cap(x.val)])
		x.val = x.val[:len(x.val)+got]
		switch {
		case len(x.val) > limit.bytes:
			return x.tooLarge(limit)
		case int64(len(x.val)) == n:
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return x.brokenBody(err)
		}
	}
}

// growBody doubles the capacity of x.val, but not beyond the declared length n (-1 if unknown), nor beyond one
// byte more than the limit.
func (x *operation) growBody(n int64, limit int) error {
	size := max(2*cap(x.val), 4<<10)
	if most := limit + 1; size > most {
		size = most
	}
	if n >= 0 && int64(size) > n {
		size = int(n)
	}
	if size > smallBody {
		if err := x.reserve(int64(size) - x.reserved); err != nil {
			x.c.RefuseBody()
			return err
		}
	}
	grown := make([]byte, len(x.val), size)
	copy(grown, x.val)
	x.val = grown
	return nil
}

func (x *operation) tooLarge(limit bodyLimit) error {
	x.c.RefuseBody()
	return engine.Errorf(limit.code, "%s over the limit of %d bytes", limit.what, limit.bytes)
}

// brokenBody returns why a body could not be read to its end.
func (x *operation) brokenBody(err error) error {
	x.c.RefuseBody()
	return web.BodyError(err)
}
