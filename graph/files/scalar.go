package files

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// Names of the types that text formats have, as they are compared.
const (
	typeBool   = "bool"
	typeByte   = "byte"
	typeShort  = "short"
	typeInt    = "int"
	typeLong   = "long"
	typeFloat  = "float"
	typeDouble = "double"
	typeString = "string"
	typeDate   = "date"
)

// parseScalar reads the text of a value of a type. It reports false if it is none.
func parseScalar(typ, text string) (v any, ok bool) {
	if typ == typeString {
		return text, true
	}
	text = strings.TrimSpace(text)
	var err error
	switch typ {
	case typeBool:
		return strings.EqualFold(text, "true"), strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
	case typeByte:
		n, err := strconv.ParseInt(text, 10, 8)
		return int8(n), err == nil
	case typeShort:
		n, err := strconv.ParseInt(text, 10, 16)
		return int16(n), err == nil
	case typeInt:
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err == nil
	case typeLong:
		v, err = strconv.ParseInt(text, 10, 64)
	case typeFloat:
		f, ok := parseFloat(text, 32)
		return float32(f), ok
	case typeDouble:
		return parseFloat(text, 64)
	case typeDate:
		v, err = value.ParseDate(text)
	default:
		return nil, false
	}
	return v, err == nil
}

// parseFloat reads a number as Java writes it.
func parseFloat(text string, bits int) (float64, bool) {
	if strings.ContainsAny(text, "xX_pP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, bits)
	return f, err == nil
}

// scalarText returns the type of a value and its text, which parseScalar reads; "":
// it has none.
func scalarText(v any) (typ, text string) {
	switch x := v.(type) {
	case bool:
		return typeBool, strconv.FormatBool(x)
	case int8:
		return typeByte, strconv.Itoa(int(x))
	case int16:
		return typeShort, strconv.Itoa(int(x))
	case int32:
		return typeInt, strconv.Itoa(int(x))
	case int64:
		return typeLong, strconv.FormatInt(x, 10)
	case float32:
		return typeFloat, floatText(float64(x), 32)
	case float64:
		return typeDouble, floatText(x, 64)
	case string:
		return typeString, x
	case time.Time:
		text := x.Format(time.RFC3339Nano)
		back, err := value.ParseDate(text)
		_, offset := x.Zone()
		if _, same := back.Zone(); err != nil || !back.Equal(x) || same != offset {
			return "", ""
		}
		return typeDate, text
	}
	return "", ""
}

func floatText(f float64, bits int) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
