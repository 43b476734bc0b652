package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONSchema(t *testing.T) {
	a := articles()
	a.Label, a.Fields[0].Hint = "Articles", "A line"
	k := compile(t, a)
	for form, want := range map[Form]map[string]string{
		ReadForm: {"": `{"additionalProperties":false,"properties":…,"required":["title"],"title":"Articles","type":"object"}`,
			"title": `{"description":"A line","maxLength":10,"minLength":1,"pattern":"^(?:[a-zé ]*)$","type":"string"}`,
			"count": `{"format":"int64","maximum":9007199254740993,"minimum":-5,"type":"integer"}`, "ratio": `{"format":"double","maximum":1.5,"type":"number"}`,
			"price": `{"format":"decimal","pattern":"^-?[0-9]+(\\.[0-9]+)?$","type":"string"}`, "live": `{"type":"boolean"}`, "at": `{"format":"date-time","type":"string"}`,
			"mail": `{"format":"email","type":"string"}`, "site": `{"format":"uri","type":"string"}`, "phone": `{"pattern":"^\\+[1-9][0-9]{6,14}$","type":"string"}`,
			"state": `{"enum":["open","done"],"type":"string"}`, "tags": `{"items":{"enum":["a","b","c"],"type":"string"},"maxItems":2,"minItems":1,"type":"array","uniqueItems":true}`,
			"meta": `{}`, "author": `{"pattern":"^[A-Za-z0-9_-]{1,64}$","type":"string"}`},
		CreateForm: {"": `{"additionalProperties":false,"properties":…,"required":["title"],"title":"Articles","type":"object"}`,
			"title": `{"description":"A line","maxLength":10,"minLength":1,"pattern":"^(?:[a-zé ]*)$","type":"string"}`,
			"count": `{"default":3,"format":"int64","maximum":9007199254740993,"minimum":-5,"type":["integer","null"]}`, "price": `{"format":"decimal","type":["string","number","null"]}`,
			"state": `{"default":"open","enum":["open","done",null],"type":["string","null"]}`, "secret": `{"format":"password","minLength":8,"type":["string","null"],"writeOnly":true}`, "at": `{"type":["string","null"]}`},
		PatchForm: {"": `{"additionalProperties":false,"properties":…,"title":"Articles","type":"object"}`,
			"title": `{"description":"A line","maxLength":10,"minLength":1,"pattern":"^(?:[a-zé ]*)$","type":["string","null"]}`, "count": `{"format":"int64","maximum":9007199254740993,"minimum":-5,"type":["integer","null"]}`},
	} {
		s := JSONSchema(k, form)
		properties := s["properties"].(map[string]any)
		if _, secret := properties["secret"]; secret == (form == ReadForm) {
			t.Errorf("form %d: password", form)
		}
		s["properties"] = json.RawMessage(`"…"`)
		for name, text := range want {
			var got []byte
			if got, _ = json.Marshal(properties[name]); name == "" {
				got, _ = json.Marshal(s)
				text = strings.Replace(text, "…", `"…"`, 1)
			}
			if string(got) != text {
				t.Errorf("form %d, %s:\ngot  %s\nwant %s", form, name, got, text)
			}
		}
	}
	columns := ColumnSchemas()
	for _, c := range Columns() {
		if columns[c.Name] == nil {
			t.Errorf("no schema of the column %s", c.Name)
		}
	}
	if got, _ := json.Marshal(columns["rev"]); string(got) != `{"format":"int64","minimum":1,"type":"integer"}` {
		t.Errorf("%s", got)
	}
}
