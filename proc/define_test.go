package proc_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

func define[In, Out any](name string) proc.Procedure {
	return proc.Define(name, func(*proc.Tx, In) (out Out, err error) { return out, nil })
}

// Types that a procedure must not have.
type (
	recursive struct {
		Name string
		Next *recursive
	}
	readsOnly struct{ A int }
	textOnly  struct{ A int }
	quotedInt struct {
		N int `json:"n,string"`
	}
	hidden struct{ A int }
)

func (*readsOnly) UnmarshalJSON([]byte) error { return nil }
func (*textOnly) UnmarshalText([]byte) error  { return nil }

func TestRefusedTypes(t *testing.T) {
	eng := openEngine(t)
	for text, p := range map[string]proc.Procedure{
		"its arguments must be a struct, not int":                                                                          define[int, int]("p"),
		"its arguments must be a struct, not *struct":                                                                      define[*struct{ A int }, int]("p"),
		"its arguments must be a struct of fields, but time.Time has its own unmarshaler":                                  define[time.Time, int]("p"),
		"arguments: field A: interface {} is an interface, whose shape is unknown; use json.RawMessage for arbitrary JSON": define[struct{ A any }, int]("p"),
		"arguments: field a: field B: values of type chan int cannot be passed": define[struct {
			A struct{ B chan int } `json:"a"`
		}, int]("p"),
		"arguments: field F: values of type func() cannot be passed":                                    define[struct{ F func() }, int]("p"),
		"arguments: field C: values of type complex128 cannot be passed":                                define[struct{ C complex128 }, int]("p"),
		"arguments: field R: field Next: type proc_test.recursive contains itself":                      define[struct{ R recursive }, int]("p"),
		"result: field Next: type proc_test.recursive contains itself":                                  define[struct{}, recursive]("p"),
		"result: error is an interface, whose shape is unknown; use json.RawMessage for arbitrary JSON": define[struct{}, error]("p"),
		"result: interface {} is an interface":                                                          define[struct{}, map[string]any]("p"),
		"arguments: field R: proc_test.readsOnly has UnmarshalJSON but no MarshalJSON":                  define[struct{ R readsOnly }, int]("p"),
		"arguments: field R: proc_test.textOnly has UnmarshalText but no MarshalText":                   define[struct{ R textOnly }, int]("p"),
		"arguments: field n: the option string is not supported":                                        define[quotedInt, int]("p"),
		"arguments: field hidden: a pointer to an unexported struct cannot be embedded":                 define[struct{ *hidden }, int]("p"),
		"arguments: field hidden: an unexported embedded struct cannot have its own name": define[struct {
			hidden `json:"h"`
		}, int]("p"),
		"result: map keys must be strings or integers without text methods, not float64":   define[struct{}, map[float64]int]("p"),
		"result: map keys must be strings or integers without text methods, not time.Time": define[struct{}, map[time.Time]int]("p"),
		"its name is empty":                           define[struct{}, int](""),
		`procedure "1st": its name has '1'`:           define[struct{}, int]("1st"),
		`its name has ' '`:                            define[struct{}, int]("a b"),
		`its name has 'é'`:                            define[struct{}, int]("caf" + "é"),
		"its name has 65 bytes, over the limit of 64": define[struct{}, int](strings.Repeat("a", 65)),
		"more than 32 types nested in each other":     define[struct{}, [][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][]int]("p"),
		"more than 1024 fields in total":              define[struct{}, [][2]map[string]struct{ A, B, C, D, E, F, G, H fields128 }]("p"),
	} {
		_, err := proc.New(eng, proc.Options{}, define[struct{}, int]("other"), p)
		if engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v; want %s", err, text)
		}
	}
}

// Types with fields that would be missing without notice.
type (
	shadow struct {
		A int
		B int `json:"A"`
	}
	One   struct{ N int }
	Other struct{ N int }
	both  struct {
		One
		Other
	}
	Again   struct{ One }
	More    struct{ One }
	diamond struct {
		Again
		More
	}
	secret struct{ a, b int }
	Buried struct{ secret }
)

// Similar types that are valid.
type (
	outermost struct {
		N int
		One
		Other
	}
	decided struct {
		One
		Tagged
	}
	Tagged struct {
		M int `json:"N"`
	}
	Empty   struct{}
	nothing struct {
		Empty
		_ int
	}
	left struct {
		A int `json:"-"`
		b int
	}
)

// TestMissingFields checks that fields that would be neither arguments nor in a result are
// rejected, unless they are excluded explicitly.
func TestMissingFields(t *testing.T) {
	eng := openEngine(t)
	for text, p := range map[string]proc.Procedure{
		`procedure "p": arguments: fields B and A are both named A`:                 define[shadow, int]("p"),
		`arguments: fields One.N and Other.N are both named N`:                      define[both, int]("p"),
		`arguments: fields Again.One.N and More.One.N are both named N`:             define[diamond, int]("p"),
		`procedure "p": arguments: proc_test.secret has no exported field`:          define[secret, int]("p"),
		`procedure "p": arguments: field S: proc_test.secret has no exported field`: define[struct{ S []secret }, int]("p"),
		`procedure "p": arguments: proc_test.Buried has no exported field`:          define[Buried, int]("p"),
		`procedure "p": result: proc_test.secret has no exported field`:             define[struct{}, *secret]("p"),
	} {
		_, err := proc.New(eng, proc.Options{}, p)
		fails(t, err, engine.CodeInvalid, text)
	}
	for _, p := range []proc.Procedure{define[outermost, decided]("p"), define[nothing, Empty]("p"), define[left, left]("p")} {
		if _, err := proc.New(eng, proc.Options{}, p); err != nil {
			t.Errorf("%v", err)
		}
	}
	_, _ = left{b: 1}, Buried{secret{a: 1, b: 2}}.secret
	n := reflect.TypeFor[int]()
	same := reflect.StructOf([]reflect.StructField{ // go vet would report it in the source
		{Name: "A", Type: n, Tag: `json:"a"`}, {Name: "B", Type: n, Tag: `json:"a"`}, {Name: "C", Type: n},
	})
	if err := proc.WrongTypes(same, n); fmt.Sprint(err) != "arguments: fields A and B are both named a" {
		t.Errorf("one tag twice: %v", err)
	}
	if err := proc.WrongTypes(reflect.TypeFor[struct{}](), reflect.SliceOf(same)); fmt.Sprint(err) != "result: fields A and B are both named a" {
		t.Errorf("one tag twice in a result: %v", err)
	}
}

type (
	fields8   struct{ A, B, C, D, E, F, G, H int }
	fields64  struct{ A, B, C, D, E, F, G, H fields8 }
	fields128 struct{ A, B fields64 }
)

func TestRefusedSets(t *testing.T) {
	eng := openEngine(t)
	p := define[struct{}, int]("p")
	_, err := proc.New(eng, proc.Options{}, p, define[struct{}, string]("p"))
	fails(t, err, engine.CodeInvalid, "two procedures are named p")
	var none *proc.Func[struct{}, int]
	for _, bad := range []proc.Procedure{nil, none, new(proc.Func[struct{}, int])} {
		_, err = proc.New(eng, proc.Options{}, p, bad)
		fails(t, err, engine.CodeInvalid, "procedure 2 of 2 is nil, or not made by Define")
	}
	for _, define := range []func(string, func(*proc.Tx, struct{}) (int, error)) *proc.Func[struct{}, int]{proc.Define[struct{}, int], proc.DefineRead[struct{}, int]} {
		_, err = proc.New(eng, proc.Options{}, p, define("empty", nil))
		fails(t, err, engine.CodeInvalid, `procedure "empty": its function is nil`)
	}
	_, err = proc.New(eng, proc.Options{MaxRun: -1}, p)
	fails(t, err, engine.CodeInvalid, "option MaxRun is negative")
	many := make([]proc.Procedure, proc.MaxProcedures+1)
	for i := range many {
		many[i] = define[struct{}, int](fmt.Sprint("p", i))
	}
	if _, err = proc.New(eng, proc.Options{}, many[1:]...); err != nil {
		t.Errorf("a set at the limit: %v", err)
	}
	_, err = proc.New(eng, proc.Options{}, many...)
	fails(t, err, engine.CodeLimit, "4097 procedures are over the limit of 4096")
	_, err = proc.New(weak{eng}, proc.Options{}, p)
	fails(t, err, engine.CodeUnsupported, "proc")
}

// weak promises nothing.
type weak struct{ engine.Engine }

func (weak) Promises() engine.Promises { return engine.Promises{} }

// TestFieldNames checks that arguments have the names and the order that encoding/json
// gives them.
func TestFieldNames(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("p", echo[named]))
	d, err := s.Schema("p")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range d.Args {
		names = append(names, f.Name)
	}
	v := named{private: 1, Mid: &Mid{}}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	dec := json.NewDecoder(strings.NewReader(string(b)))
	for _, err := dec.Token(); err == nil && dec.More(); {
		key, _ := dec.Token()
		_, _ = dec.Token()
		keys = append(keys, fmt.Sprint(key))
	}
	if fmt.Sprint(names) != fmt.Sprint(keys) || len(names) < 5 {
		t.Errorf("the names are %q, encoding/json has %q", names, keys)
	}
	if i := len(d.Args) - 1; !d.Args[i].Optional || d.Args[0].Optional {
		t.Errorf("what stands in an embedded pointer is optional: %+v", d.Args)
	}
}

// named has fields that hide and promote each other.
type named struct {
	B       int `json:"b"`
	A       int
	Skipped int `json:"-"`
	private int
	Left
	Right
	*Mid
}

// Left and Right are embedded side by side, Mid by a pointer.
type (
	Left struct {
		A    string // hidden by the outer one
		Tag  int    `json:"tagged"`
		Wins int
	}
	Right struct {
		Other int `json:"Wins"` // has a tag, so it wins
	}
	Mid struct{ Last int }
)

// TestUint8: []byte and []uint8 are the same type in Go, so clients see bytes for both.
func TestUint8(t *testing.T) {
	type in struct {
		List []uint8
		N    int `json:",omitempty"`
	}
	s := newSet(t, proc.Options{}, proc.Define("p", func(_ *proc.Tx, in in) ([]uint8, error) { return in.List, nil }))
	d, err := s.Schema("p")
	if err != nil || d.Args[0].Type.Kind != proc.KindBytes || d.Result.Kind != proc.KindBytes {
		t.Errorf("%+v, %v", d, err)
	}
	want(t, `"AQI="`)(call(t, s, "p", `{"List":"AQI="}`))
	c := begin(t, s, "p", "x")
	defer c.End()
	fails(t, c.JSON([]byte(`{"List":[1,2]}`)), engine.CodeInvalid, "argument List must be a string of base64, not a list")
}

func TestSchemaJSON(t *testing.T) {
	type in struct {
		Phone int64    `json:"phone"`
		Note  *string  `json:"note"`
		Where []point  `json:"where,omitempty"`
		Tags  []string `json:"tags"`
	}
	s := newSet(t, proc.Options{}, proc.DefineRead("p", func(*proc.Tx, in) (map[string]float32, error) { return nil, nil }).Describe("Does it."),
		define[struct{}, struct{}]("q"))
	b, err := json.Marshal(s.Schemas())
	expect := `[{"name":"p","text":"Does it.","read_only":true,"args":[{"name":"phone","type":{"kind":"int","bits":64}},` +
		`{"name":"note","type":{"kind":"string","nullable":true},"optional":true},` +
		`{"name":"where","type":{"kind":"list","of":{"kind":"object","fields":[{"name":"x","type":{"kind":"int","bits":64}},` +
		`{"name":"y","type":{"kind":"uint","bits":8,"nullable":true},"optional":true}]}},"optional":true},` +
		`{"name":"tags","type":{"kind":"list","of":{"kind":"string"}}}],"result":{"kind":"map","of":{"kind":"float","bits":32}}},` +
		`{"name":"q","read_only":false,"args":[],"result":{"kind":"null"}}]`
	if err != nil || string(b) != expect {
		t.Errorf("%s, %v; want\n%s", b, err, expect)
	}
}
