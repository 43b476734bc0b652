package proc

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
)

// isNumber reports whether text is a number in JSON syntax.
func isNumber(text []byte) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(text) && text[i] == '-' {
		i++
	}
	if zero := i; !digits() || text[zero] == '0' && i > zero+1 {
		return false
	}
	if i < len(text) && text[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(text)
}

// number sets v, a number, from text that isNumber accepts.
func (p *plan) number(v reflect.Value, text []byte) *fault {
	if p.op == opFloat {
		f, err := strconv.ParseFloat(string(text), p.bits)
		if errors.Is(err, strconv.ErrRange) {
			return wrong("is outside the range of a floating-point number of %d bits", p.bits)
		}
		v.SetFloat(f)
		return nil
	}
	if bytes.ContainsAny(text, ".eE") {
		return p.mustBe(quoted(text))
	}
	if p.op == opUint {
		u, err := strconv.ParseUint(string(text), 10, p.bits)
		if err != nil {
			return wrong("is outside the range of an unsigned integer of %d bits", p.bits)
		}
		v.SetUint(u)
		return nil
	}
	i, err := strconv.ParseInt(string(text), 10, p.bits)
	if err != nil {
		return wrong("is outside the range of an integer of %d bits", p.bits)
	}
	v.SetInt(i)
	return nil
}

// shortInteger is the fast path for integers with few digits. It reports whether it set v;
// if not, number returns the reason.
func (p *plan) shortInteger(v reflect.Value, text []byte) bool {
	digits := text
	if p.op == opInt && len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int64(c-'0')
	}
	if p.op == opUint {
		if v.OverflowUint(uint64(n)) {
			return false
		}
		v.SetUint(uint64(n))
		return true
	}
	if len(digits) < len(text) {
		n = -n
	}
	if v.OverflowInt(n) {
		return false
	}
	v.SetInt(n)
	return true
}
