package graphs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a server may take for an answer.
const patience = 10 * time.Second

// answer is what a server says to a text.
type answer struct {
	failed string   // why there are no results
	late   bool     // they did not come in time
	items  []string // the results, types of numbers included
}

// post sends a text to a server and reads its answer.
func post(tb testing.TB, url, text string) answer {
	tb.Helper()
	body, err := json.Marshal(map[string]string{"gremlin": text, "language": "gremlin-lang"})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/vnd.gremlin-v3.0+json")
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{failed: "late", late: true}
	}
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{failed: "late", late: true}
	}
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	var out struct {
		Message string
		Status  struct{ Message string }
		Result  struct {
			Data struct {
				Value []any `json:"@value"`
			}
		}
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		tb.Fatalf("%s: %v in %.300s", text, err, b)
	}
	if resp.StatusCode != http.StatusOK {
		return answer{failed: fmt.Sprintf("%d %s%s", resp.StatusCode, out.Message, out.Status.Message)}
	}
	a := answer{items: []string{}}
	for _, item := range out.Result.Data.Value {
		a.items = append(a.items, plain(item, false))
	}
	return a
}

// sorted returns an answer in which no order counts.
func (a answer) sorted() []string {
	out := slices.Clone(a.items)
	slices.Sort(out)
	return out
}

// plain writes a value of GraphSON 3 so that equal values have equal texts. Ids of properties, which servers choose,
// are left out, and the order of lists counts only if strict is true.
func plain(v any, strict bool) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case map[string]any:
		kind, _ := v["@type"].(string)
		return typed(kind, v["@value"], strict)
	case []any: // of a list without a type
		return typed("g:List", v, strict)
	}
	return fmt.Sprint(v) // booleans
}

func typed(kind string, v any, strict bool) string {
	all, _ := v.([]any)
	fields, _ := v.(map[string]any)
	get := func(name string) string { return plain(fields[name], strict) }
	switch kind {
	case "g:Vertex":
		return "v[" + get("id") + " " + get("label") + "]"
	case "g:Edge":
		return "e[" + get("id") + " " + get("label") + " " + get("outV") + ">" + get("inV") + "]"
	case "g:VertexProperty":
		return "vp[" + get("label") + " " + get("value") + "]"
	case "g:Property":
		return "p[" + get("key") + " " + get("value") + "]"
	case "g:Path":
		objects, _ := fields["objects"].(map[string]any)
		list, _ := objects["@value"].([]any)
		out := make([]string, len(list))
		for i, x := range list {
			out[i] = plain(x, false)
		}
		return "path" + get("labels") + "[" + strings.Join(out, ", ") + "]"
	case "g:List", "g:Set", "g:BulkSet":
		var out []string
		for _, x := range all {
			out = append(out, plain(x, strict))
		}
		if !strict || kind != "g:List" {
			slices.Sort(out)
		}
		return strings.TrimPrefix(kind, "g:") + "[" + strings.Join(out, ", ") + "]"
	case "g:Map":
		var out []string
		for i := 0; i+1 < len(all); i += 2 {
			out = append(out, plain(all[i], strict)+"="+plain(all[i+1], strict))
		}
		slices.Sort(out)
		return "{" + strings.Join(out, ", ") + "}"
	case "g:Tree":
		var out []string
		for _, x := range all {
			branch, _ := x.(map[string]any)
			out = append(out, plain(branch["key"], strict)+":"+plain(branch["value"], strict))
		}
		slices.Sort(out)
		return "tree(" + strings.Join(out, ", ") + ")"
	case "g:Double", "g:Float":
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err == nil {
			return fmt.Sprintf("%s(%v)", kind, f)
		}
	case "gx:OffsetDateTime": // Java leaves out seconds if there are none
		if t, err := time.Parse("2006-01-02T15:04Z07:00", fmt.Sprint(v)); err == nil {
			return fmt.Sprintf("%s(%s)", kind, t.Format(time.RFC3339))
		}
	case "gx:BigDecimal":
		if r, ok := new(big.Rat).SetString(fmt.Sprint(v)); ok { // 1.0 and 1.00 are one number; a mean has 10 places there, more here
			return fmt.Sprintf("%s(%s)", kind, r.FloatString(9))
		}
	}
	return fmt.Sprintf("%s(%v)", kind, v)
}
