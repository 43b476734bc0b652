package sqldriver

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// Arguments have the types that the client sends directly: those of database/sql, int (to
// avoid a copy to int64), uint64, jsonText and written.

// jsonText is an argument that is JSON text already.
type jsonText []byte

// written is a struct, map or slice of the caller, encoded as JSON.
type written []byte

// checkValue converts an argument to a type that can be sent.
func checkValue(nv *driver.NamedValue) error {
	switch v := nv.Value.(type) {
	case nil, int64, int, float64, bool, string, []byte, time.Time, uint64, jsonText, written:
		return nil
	case json.RawMessage:
		if v == nil {
			nv.Value = nil
			return nil
		}
		nv.Value = jsonText(v)
		return nil
	case sql.Out:
		return errors.New("skerry: sql.Out is not supported: a procedure returns its results as rows")
	case driver.Valuer:
		return valuer(nv, v)
	}
	return reflected(nv)
}

// valuer calls v.Value. A nil pointer is NULL, as in database/sql.
func valuer(nv *driver.NamedValue, v driver.Valuer) error {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		nv.Value = nil
		return nil
	}
	val, err := v.Value()
	if err != nil {
		return err
	}
	if _, again := val.(driver.Valuer); again {
		return fmt.Errorf("skerry: the Value method of %T returns another driver.Valuer", v)
	}
	nv.Value = val
	return checkValue(nv)
}

// reflected is like checkValue for other types.
func reflected(nv *driver.NamedValue) error {
	r := reflect.ValueOf(nv.Value)
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			nv.Value = nil
			return nil
		}
		nv.Value = r.Elem().Interface()
		return checkValue(nv)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		nv.Value = r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		nv.Value = r.Uint()
	case reflect.Float32:
		// The shortest text of a float32 differs from that of the same float64.
		f, err := strconv.ParseFloat(strconv.FormatFloat(r.Float(), 'g', -1, 32), 64)
		if err != nil {
			return err
		}
		nv.Value = f
	case reflect.Float64:
		nv.Value = r.Float()
	case reflect.Bool:
		nv.Value = r.Bool()
	case reflect.String:
		nv.Value = r.String()
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		if r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8 {
			nv.Value = r.Bytes()
			return nil
		}
		b, err := json.Marshal(nv.Value)
		if err != nil {
			return fmt.Errorf("skerry: write %T as JSON: %w", nv.Value, err)
		}
		nv.Value = written(b)
	default:
		return fmt.Errorf("skerry: a %T cannot be an argument", nv.Value)
	}
	return nil
}

// appendText appends an argument as text, as positional arguments are sent.
func appendText(dst []byte, v driver.Value) []byte {
	switch v := v.(type) {
	case nil:
		return dst
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return append(dst, v...)
	case number:
		return append(dst, v...)
	case []byte:
		return append(dst, v...)
	case jsonText:
		return append(dst, v...)
	case written:
		return append(dst, v...)
	case time.Time:
		return v.UTC().AppendFormat(dst, time.RFC3339Nano)
	}
	panic(fmt.Sprintf("BUG: an argument of type %T", v)) // checkValue accepts no other type
}

// appendJSON appends an argument as JSON that means the same for type t as the argument's
// text. t is nil if it is not known.
func appendJSON(dst []byte, v driver.Value, t *typ) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	text := appendText(nil, v)
	switch known := natural(v, t); known {
	case kindBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, text)
		return append(dst, '"'), nil
	case kindString, kindTime:
	default:
		// Text that is not JSON is sent as a string, so that the server reports the error.
		if fits(text, known) {
			return append(dst, text...), nil
		}
	}
	if !utf8.Valid(text) {
		return dst, errors.New("is not UTF-8 text")
	}
	quoted, err := json.Marshal(string(text))
	return append(dst, quoted...), err
}

// natural returns the kind of argument that the Go value v corresponds to.
func natural(v driver.Value, t *typ) kind {
	if t != nil {
		return t.Kind
	}
	switch v.(type) {
	case string, time.Time:
		return kindString
	case []byte:
		return kindBytes
	case jsonText, written:
		return kindJSON
	}
	return kindFloat
}

// fits reports whether text can be JSON of kind k, judging by its first character.
func fits(text []byte, k kind) bool {
	if !json.Valid(text) {
		return false
	}
	first := bytes.TrimLeft(text, " \t\r\n")[0]
	switch k {
	case kindObject, kindMap:
		return first == '{'
	case kindList:
		return first == '['
	case kindJSON:
		return true
	}
	return first != '{' && first != '[' && first != '"'
}
