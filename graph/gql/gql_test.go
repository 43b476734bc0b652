package gql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/gql"
)

// TestParse: texts are read as what they mean.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"MATCH (a)":                                     "{[{[{a [] []}] []}] <nil> [] false [] 0 -1}",
		"match (:A|B {x: -1.5e3})-->()":                 "{[{[{ [A B] [{x {-1500    0}}]} { [] []}] [{ [] true false []}]}] <nil> [] false [] 0 -1}",
		"MATCH (a)<-[r:R]-(b)--(c) RETURN * LIMIT 5":    "{[{[{a [] []} {b [] []} {c [] []}] [{r [R] false true []} { [] true true []}]}] <nil> [{a {<nil>  a  0}  false} {r {<nil>  r  0}  false} {b {<nil>  b  0}  false} {c {<nil>  c  0}  false}] false [] 0 5}",
		"MATCH (`a b`) RETURN `a b`.x AS y ORDER BY y":  "{[{[{a b [] []}] []}] <nil> [{y {<nil>  a b x 21}  false}] false [{y false 43}] 0 -1}",
		"MATCH (a) // who\nRETURN count(*) AS n SKIP 2": "{[{[{a [] []}] []}] <nil> [{n {<nil>    0} count true}] false [] 2 -1}",
	} {
		q, err := gql.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fmt.Sprint(*q); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	q, err := gql.Parse("MATCH (a) WHERE NOT (a.x = 1 OR a.y <> 'z') AND a.z IN [1, 'b', true, null] AND a.x IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	if w := q.Where; w.Op != "and" || len(w.Parts) != 3 || w.Parts[0].Op != "not" || w.Parts[1].Op != "in" || w.Parts[2].Op != "is not null" {
		t.Errorf("%+v", w)
	}
}

// TestRefused: what is wrong, or not supported, is named with its place.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "0: expected MATCH, found the end of the text",
		"RETURN 1":                              `0: expected MATCH, found "RETURN"`,
		"MATCH (a":                              `8: expected ")", found the end of the text`,
		"MATCH (a) WHERE a.x":                   "19: expected a comparison, found the end of the text",
		"MATCH (a {x: b.y})":                    "13: the value of a property in a pattern is a literal or a parameter; use WHERE",
		"MATCH p = (a)":                         "6: names of paths are not supported",
		"MATCH (a:A&B)":                         "10: only alternatives of labels are supported, as :A|B",
		"MATCH (a) WHERE size(a) = 1":           `20: there is no function "size" in a condition`,
		"MATCH (a) RETURN upper(a.x)":           `17: there is no function "upper"; count, sum, avg, min, max and collect are`,
		"MATCH (a) RETURN a, a":                 `20: two returned values have the name "a"; use AS`,
		"MATCH (a) RETURN a ORDER BY b":         `28: results are sorted by what is returned, and "b" is not`,
		"MATCH (a) RETURN a LIMIT -1":           "25: expected a whole number that is not negative",
		"MATCH (a) RETURN a UNION MATCH (b)":    "19: UNION is not supported",
		"MATCH (a) DELETE a":                    "10: DELETE is not supported",
		"OPTIONAL MATCH (a)":                    "0: OPTIONAL MATCH is not supported",
		"MATCH (a) WHERE a.x = 'b":              "22: the text that begins with ' has no end",
		`MATCH (a) WHERE a.x = '\q'`:            `23: "\\q" is no escape; \n, \t, \', \", \\ and \uXXXX are`,
		"MATCH (a) WHERE a.x = [b]":             "23: a list has literals only",
		"MATCH (a) WHERE a.x = 1e999":           "22: 1e999 is too large",
		"MATCH (a)-[]>(b)":                      `12: expected "-", found ">"`,
		"MATCH (a);":                            `9: expected the end of the text, found ";"`,
		"MATCH (a) \xff":                        "10: the text is not UTF-8",
		"MATCH (a) WHERE b.x = 1":               `16: no pattern has the variable "b"`,
		strings.Repeat(" ", gql.MaxTextBytes+1): "65536: a query has at most 65536 bytes (MaxTextBytes)",
		"MATCH (a)" + strings.Repeat("--()", gql.MaxElements/2): fmt.Sprint(9+4*(gql.MaxElements/2)-2) + ": the patterns have more than 100 nodes and edges (MaxElements)",
	} {
		_, err := gql.Parse(text)
		var own *gql.SyntaxError
		if !errors.As(err, &own) {
			t.Errorf("%.40q: %v", text, err)
			continue
		}
		if got := fmt.Sprintf("%d: %s", own.Pos, own.Msg); got != want {
			t.Errorf("%.40q:\ngot  %s\nwant %s", text, got, want)
		}
	}
	deep := "MATCH (a) WHERE " + strings.Repeat("NOT ", 1000) + "a.x = 1"
	if _, err := gql.Parse(deep); err == nil || !strings.Contains(err.Error(), "MaxDepth") {
		t.Errorf("deep: %v", err)
	}
}

// FuzzParse: any text is read or refused at a place in it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"MATCH (a:A {x: 1})-[r:R|S]->(b)<--(c), (d) WHERE a.x > 1 AND NOT b.y IN [1,'x'] RETURN DISTINCT a, count(*) AS n ORDER BY n DESC SKIP 1 LIMIT 2", "MATCH (`", "MATCH (a) WHERE a.x = -"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := gql.Parse(text)
		var own *gql.SyntaxError
		switch {
		case err == nil && len(q.Patterns) == 0:
			t.Error("no patterns")
		case err != nil && (!errors.As(err, &own) || own.Pos < 0 || own.Pos > len(text)):
			t.Errorf("%v at %+v", err, own)
		}
	})
}
