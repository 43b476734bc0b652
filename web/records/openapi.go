package records

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// object is a JSON object.
type object = map[string]any

// OpenAPI responds with an OpenAPI 3.1 description of the routes for the collections that are not closed to the client.
func (f *Face) OpenAPI(c *web.Context) error {
	return f.document(c, &f.openAPI, "application/json", func(all []*schema.Compiled) ([]byte, error) {
		body, err := json.Marshal(f.describe(all))
		if err != nil {
			return nil, engine.Errorf(engine.CodeInternal, "encode the description of the API: %w", err)
		}
		return append(body, '\n'), nil
	})
}

// documents are about the collections that senders see. They are made anew only when the collections have changed, because
// anyone may ask for them, and they are large.
type documents [2]document // for those who are subject to rules, and for superadmins and operators

// document is one of documents.
type document struct {
	mu   sync.Mutex // guards what follows; held while the document is made
	of   []*schema.Compiled
	body []byte
	tag  string
}

// get returns the document about some collections, with its entity tag.
func (d *document) get(of []*schema.Compiled, make func(of []*schema.Compiled) ([]byte, error)) (body []byte, tag string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.body == nil || !slices.Equal(d.of, of) {
		if body, err = make(of); err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(body)
		d.of, d.body, d.tag = of, body, strconv.Quote(hex.EncodeToString(sum[:12]))
	}
	return d.body, d.tag, nil
}

// document responds with one of documents.
func (f *Face) document(c *web.Context, all *documents, media string, make func(of []*schema.Compiled) ([]byte, error)) error {
	var of []*schema.Compiled
	which := 0
	err := f.view(c, func(tx *record.Tx) error {
		if of = tx.Collections(); tx.Actor().System {
			which = 1
		}
		return nil
	})
	if err != nil {
		return explain(err)
	}
	body, tag, err := all[which].get(of, make)
	if err != nil {
		return err
	}
	h := c.Header()
	h["Content-Type"], h["Etag"], h["Cache-Control"] = []string{media}, []string{tag}, []string{"no-cache"}
	if c.Request.Header.Get("If-None-Match") == tag {
		c.Writer.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.Writer.WriteHeader(http.StatusOK)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(body) // an error means that the client is gone
	}
	return nil
}

func (f *Face) describe(all []*schema.Compiled) object {
	paths, schemas := object{}, commonSchemas()
	var tags []object
	add := func(r *route, k *schema.Compiled) {
		name := ""
		if k != nil {
			name = k.Name
		}
		path := f.o.Prefix + strings.Replace(r.path, "{collection}", name, 1)
		if paths[path] == nil {
			item := object{}
			if strings.Contains(path, "{id}") {
				item["parameters"] = []object{{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}}}
			}
			paths[path] = item
		}
		paths[path].(object)[strings.ToLower(r.method)] = r.describe(name)
	}
	table := routes()
	for _, k := range all {
		maps.Copy(schemas, schemasOf(k))
		tags = append(tags, object{"name": k.Name, "description": k.Hint})
	}
	for i := range table {
		if !strings.Contains(table[i].path, "{collection}") {
			add(&table[i], nil)
			continue
		}
		for _, k := range all {
			add(&table[i], k)
		}
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "Records", "version": "1", "description": "Collections of records. The rules of each collection decide what a client may do."},
		"paths":   paths, "tags": tags,
		"components": object{"schemas": schemas, "responses": object{"Problem": object{
			"description": "an error (RFC 9457) with a stable code", "content": object{"application/problem+json": object{"schema": ref("Problem")}},
		}}},
	}
}

// describe returns the operation of a route for a collection.
func (r *route) describe(collection string) object {
	named := func(name string) string {
		if collection == "" {
			return name
		}
		return collection + "." + name
	}
	op := object{"summary": r.text, "operationId": named(strings.ToLower(r.method) + strings.ReplaceAll(strings.NewReplacer("/{collection}", "", "{id}", "one").Replace(r.path), "/", "."))}
	if collection != "" {
		op["tags"] = []string{collection}
	}
	var params []object
	for _, p := range r.params {
		params = append(params, object{"name": p, "in": "query", "description": parameterTexts[p], "schema": object{"type": "string"}})
	}
	if r.method != http.MethodGet {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "description": "makes the request safe to repeat", "schema": object{"type": "string"}})
	}
	if strings.HasPrefix(r.path, onePath) && !strings.HasSuffix(r.path, "/history") {
		params = append(params, object{"name": "If-Match", "in": "header", "description": "the ETag that the record must have", "schema": object{"type": "string"}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if r.takes != "" {
		op["requestBody"] = object{"required": true, "content": r.content(named(r.takes), r.files)}
	}
	success := object{"description": "done"}
	if r.gives != "" {
		success["content"] = r.content(named(r.gives), r.files && r.method == http.MethodGet)
	}
	if r.path == eventsPath {
		success["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	}
	if r.path == txPath && r.method == http.MethodGet {
		success["content"] = object{jsonType: object{"schema": object{"type": "string"}}}
	}
	op["responses"] = object{strconv.Itoa(r.status): success, "default": object{"$ref": "#/components/responses/Problem"}}
	return op
}

// content returns the media types of a body.
func (r *route) content(name string, files bool) object {
	c := object{"application/json": object{"schema": ref(name)}}
	if files {
		c[csvType] = object{"schema": object{"type": "string"}}
		c[jsonType] = object{"schema": object{"type": "string"}}
	}
	return c
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func anObject(properties object, required ...string) object {
	return object{"type": "object", "properties": properties, "required": append([]string{}, required...)}
}

func listOf(x object) object { return object{"type": "array", "items": x} }

// simple returns the schema of a type.
func simple(name string) object { return object{"type": name} }

// schemasOf returns the schemas of the bodies that depend on a collection.
func schemasOf(k *schema.Compiled) object {
	n := k.Name
	properties := schema.ColumnSchemas()
	properties["data"] = schema.JSONSchema(k, schema.ReadForm)
	properties["expand"] = object{"type": "object", "description": "what the parameter expand asks for"}
	id := properties["id"].(object)
	return object{
		n + ".Record":   anObject(properties, "id", "rev", "data"),
		n + ".Create":   anObject(object{"id": id, "data": schema.JSONSchema(k, schema.CreateForm)}, "data"),
		n + ".Patch":    anObject(object{"rev": properties["rev"], "data": schema.JSONSchema(k, schema.PatchForm)}, "data"),
		n + ".PatchAll": anObject(object{"data": schema.JSONSchema(k, schema.PatchForm)}, "data"),
		n + ".Page": object{"oneOf": []object{
			anObject(object{"items": listOf(ref(n + ".Record")), "next": simple("string"), "total": simple("integer")}, "items"),
			anObject(object{"groups": listOf(simple("object")), "more": simple("boolean")}, "groups"),
		}},
		n + ".Bulk":    ref("Bulk"),
		n + ".Revert":  ref("Revert"),
		n + ".History": ref("History"),
	}
}

// commonSchemas returns the schemas of the other bodies.
func commonSchemas() object {
	id, rev, text := simple("string"), simple("integer"), simple("string")
	operations := slices.Sorted(maps.Keys(kinds))
	change := anObject(object{"collection": text, "id": id, "rev": rev, "seq": simple("integer"), "op": text, "at": object{"type": "string", "format": "date-time"}, "by": text, "request": text,
		"patch": object{"type": "array", "items": simple("object"), "description": "a JSON Patch (RFC 6902) with the values before as old"}}, "collection", "id", "rev", "seq", "op", "at")
	return object{
		"Transaction": anObject(object{"ops": object{"type": "array", "maxItems": record.MaxOps,
			"items": anObject(object{"op": object{"enum": operations}, "collection": text, "id": id, "rev": rev, "data": simple("object")}, "op", "collection")}}, "ops"),
		"Results": anObject(object{"results": listOf(anObject(object{"status": simple("integer"), "record": simple("object")}, "status"))}, "results"),
		"Bulk":    anObject(object{"count": simple("integer"), "token": text}, "count"),
		"Revert":  anObject(object{"to": rev}, "to"),
		"History": anObject(object{"items": listOf(change), "next": rev}, "items"),
		"Problem": anObject(object{"title": text, "status": simple("integer"), "code": text, "detail": text, "retryable": simple("boolean"), "request_id": text,
			"errors": listOf(anObject(object{"pointer": text, "parameter": text, "header": text, "code": text, "detail": text}, "code", "detail"))}, "title", "status", "code"),
	}
}
