package main

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
)

//go:embed views
var views embed.FS

// product is a line of the page.
type product struct {
	Name, Text string
	Price      string
}

// products are the lines of the page, which has about 10 kB with them.
var products = func() (all []product) {
	for i := range 40 {
		all = append(all, product{
			Name:  fmt.Sprintf("Product %d & sons", i),
			Text:  fmt.Sprintf("Made of <%d> parts, \"as good as new\", and sent within %d days.", i*7, i%5+1),
			Price: fmt.Sprintf("%d.%02d", i*3, i),
		})
	}
	return all
}()

// message is the response of the JSON route.
type message struct {
	Message string  `json:"message"`
	Count   int     `json:"count"`
	Ratio   float64 `json:"ratio"`
	OK      bool    `json:"ok"`
}

var hello = message{"hello, world", 42, 0.5, true}

// cart is the data of a session besides its user: about 400 bytes of JSON.
type cart struct {
	Items []item `json:"items"`
	Seen  int64  `json:"seen"`
}

type item struct {
	ID, Count int
	Note      string
}

func newCart() (c cart) {
	for i := range 8 {
		c.Items = append(c.Items, item{1000 + i, i%3 + 1, "to be wrapped as a gift"})
	}
	return c
}

// plain renders the page with html/template alone, from the same files as Skerry's views.
type plain struct{ page, layout *template.Template }

func newPlain() (p plain, err error) {
	read := func(name string) (*template.Template, error) {
		text, err := views.ReadFile("views/" + name)
		if err != nil {
			return nil, err
		}
		return template.New(name).Parse(string(text))
	}
	if p.page, err = read("shop.html"); err != nil {
		return p, err
	}
	p.layout, err = read("layout.html")
	return p, err
}

func (p plain) render(w *bytes.Buffer, locals map[string]any) error {
	var inner bytes.Buffer
	if err := p.page.Execute(&inner, locals); err != nil {
		return err
	}
	locals["contents"] = template.HTML(inner.String()) //nolint:gosec // it was escaped just now
	return p.layout.Execute(w, locals)
}
