package files

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// cutter cuts JSON into its values without reading them, so that the edges of a line
// are decoded one after the other. It does not find all mistakes in what it cuts out.
type cutter struct {
	b  []byte
	at int
}

// cutError is a mistake in JSON.
type cutError struct {
	at  int // in bytes, from the beginning of the line
	msg string
}

func (e *cutError) Error() string { return e.msg }

func (c *cutter) failf(format string, args ...any) error {
	return &cutError{c.at, fmt.Sprintf(format, args...)}
}

// next returns the next byte that is not white space; 0: there is none.
func (c *cutter) next() byte {
	for ; c.at < len(c.b); c.at++ {
		switch b := c.b[c.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (c *cutter) expect(b byte, what string) error {
	switch found := c.next(); {
	case c.at >= len(c.b):
		return c.failf("expected %s, the line ends", what)
	case found != b:
		return c.failf("expected %s, found %q", what, found)
	}
	c.at++
	return nil
}

// skip moves behind a value.
func (c *cutter) skip() error {
	for depth := 0; ; {
		b := c.next()
		switch b {
		case 0:
			return c.failf("expected a value in JSON, the line ends")
		case '"':
			if err := c.skipString(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			if depth--; depth < 0 {
				return c.failf("expected a value in JSON, found %q", b)
			}
			c.at++
		case ',', ':':
			if depth == 0 {
				return c.failf("expected a value in JSON, found %q", b)
			}
			c.at++
		default:
			for c.at++; c.at < len(c.b) && !isPunctuation(c.b[c.at]); c.at++ {
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

func isPunctuation(b byte) bool {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ':', '"', '{', '}', '[', ']':
		return true
	}
	return false
}

func (c *cutter) skipString() error {
	for c.at++; c.at < len(c.b); c.at++ {
		switch c.b[c.at] {
		case '"':
			c.at++
			return nil
		case '\\':
			c.at++
		}
	}
	c.at = len(c.b)
	return c.failf("expected the end of a string, the line ends")
}

// name reads a name of an object and the colon behind it.
func (c *cutter) name() (string, error) {
	if c.next() != '"' {
		return "", c.expect('"', "a name")
	}
	from := c.at
	if err := c.skipString(); err != nil {
		return "", err
	}
	var name string
	if raw := c.b[from:c.at]; !utf8.Valid(raw) || json.Unmarshal(raw, &name) != nil {
		return "", &cutError{from, "expected a name as a string in JSON"}
	}
	return name, c.expect(':', "a colon behind a name")
}

// object calls yield with the names of an object. yield moves behind the value.
func (c *cutter) object(what string, yield func(name string) error) error {
	return c.items('{', '}', what, func() error {
		name, err := c.name()
		if err != nil {
			return err
		}
		return yield(name)
	})
}

// array calls yield with the cutter at each item of an array. yield moves behind it.
func (c *cutter) array(what string, yield func() error) error { return c.items('[', ']', what, yield) }

func (c *cutter) items(begin, end byte, what string, yield func() error) error {
	if err := c.expect(begin, fmt.Sprintf("%s as %c…%c", what, begin, end)); err != nil {
		return err
	}
	if c.next() == end {
		c.at++
		return nil
	}
	for {
		if err := yield(); err != nil {
			return err
		}
		if c.next() != ',' {
			return c.expect(end, fmt.Sprintf("a comma or %c", end))
		}
		c.at++
	}
}
