package main

import (
	"bytes"
	"encoding/json"

	"github.com/valyala/fasthttp"
)

// newFast is the limit: the same bytes, prepared in advance, without sessions.
func newFast() (*site, error) {
	pages, err := newPlain()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = pages.render(&page, map[string]any{
		"title": "Shop", "user": "user1", "items": 8, "products": products, "project_name": "bench", "assets": "", "debug_mode": false,
	})
	if err != nil {
		return nil, err
	}
	return &site{
		fast: func(ctx *fasthttp.RequestCtx) {
			switch string(ctx.Path()) {
			case "/json":
				ctx.SetContentType("application/json")
				_ = json.NewEncoder(ctx).Encode(hello)
			case "/shop":
				ctx.SetContentType("text/html; charset=utf-8")
				ctx.SetBody(page.Bytes())
			default:
				ctx.SetStatusCode(fasthttp.StatusNoContent)
			}
		},
		end: func() error { return nil },
	}, nil
}
