package value

import "fmt"

// Convert converts v, as written by people, to a kind. A text is parsed, and a number becomes another kind if that is
// exact or, for Float, nearest. Null stays null, and every value is of kind JSON.
func Convert(kind Kind, v Value) (Value, error) {
	if v.kind == kind || v.kind == Null || kind == JSON {
		return v, nil
	}
	if text, ok := v.Text(); ok {
		return FromText(kind, text)
	}
	switch kind {
	case Int:
		if n, ok := v.Int(); ok {
			return OfInt(n), nil
		}
	case Float:
		if f, ok := v.Float(); ok {
			return OfFloat(f)
		}
	case Decimal:
		if d, ok := v.Decimal(); ok {
			return ParseDecimal(d)
		}
	}
	return Value{}, fmt.Errorf("%s is not %s", v.AppendJSON(nil), kind.Article())
}

// FromText parses a value of a kind from text: 12, 0.5, true, 2026-01-02.
func FromText(kind Kind, text string) (Value, error) {
	switch kind {
	case Text:
		return OfText(text)
	case Time:
		return ParseTime(text)
	case Decimal:
		return ParseDecimal(text)
	}
	v, err := As(kind, []byte(text))
	if err != nil {
		return v, fmt.Errorf("%.60q is not %s", text, kind.Article())
	}
	return v, nil
}
