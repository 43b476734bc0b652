package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// Limits of a diagram.
const (
	maxBoxes     = 150 // collections of one diagram
	maxBoxFields = 12  // fields of a box; references come first
	maxHeadChars = 24  // of the name of a collection
	maxBoxChars  = 19  // of a name in a box
	maxRefChars  = 16  // of that of a reference, which is bold
	maxTypeChars = 9
	maxListed    = 1_000 // references of the table
)

func (a *Admin) addDiagram(g *web.Group) { g.Get("/diagram", a.diagram) }

// box is a collection in the diagram.
type box struct {
	Name, Title, Path string
	Rows              []boxRow
	More              string // how many fields are left out
	X, Y, Height      int
}

// boxRow is a field in a box.
type boxRow struct {
	Name, Type, Title string
	Reference         bool
	Y                 int // within the box, of the text
}

// reference is a line of the table.
type reference struct {
	From, FromPath, Field, To, ToPath, OnDelete string
	Required                                    bool
}

// diagram draws the collections, or one with those that it is linked to.
func (a *Admin) diagram(c *web.Context) error {
	all, err := a.o.Records.Collections(c, engine.Read{Level: engine.Local})
	if err != nil {
		return err
	}
	around := c.Query("around").String()
	shown := all
	if around != "" {
		shown = neighbours(all, around)
	}
	total := len(shown)
	after := c.Query("after").String()
	i, found := slices.BinarySearchFunc(shown, after, func(s schema.Collection, name string) int { return cmp.Compare(s.Name, name) })
	if found {
		i++
	}
	shown = shown[i:]
	next := ""
	if len(shown) > maxBoxes {
		shown = shown[:maxBoxes]
		next = shown[maxBoxes-1].Name
	}
	boxes, links := a.boxes(shown)
	d := layOut(boxes, links)
	list := a.references(shown)
	return a.show(c, http.StatusOK, "diagram", web.Locals{
		"title": a.text("Diagram"), "boxes": boxes, "links": links, "drawing": d, "references": list[:min(len(list), maxListed)], "cut": len(list) > maxListed, "total": total, "shown": len(shown),
		"around": around, "next": next, "box_width": boxWidth, "head": headHeight, "names": collectionNames(all),
	})
}

func collectionNames(all []schema.Collection) []string {
	var list []string
	for _, c := range all {
		list = append(list, c.Name)
	}
	return list
}

// neighbours returns a collection and those that it refers to or that refer to it.
func neighbours(all []schema.Collection, name string) (near []schema.Collection) {
	refers := func(c schema.Collection, to string) bool {
		return slices.ContainsFunc(c.Fields, func(f schema.Field) bool { return f.Type == schema.Reference && f.Collection == to })
	}
	i := slices.IndexFunc(all, func(c schema.Collection) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	for _, c := range all {
		if c.Name == name || refers(c, name) || refers(all[i], c.Name) {
			near = append(near, c)
		}
	}
	return near
}

// boxes returns the boxes of collections and the links between them.
func (a *Admin) boxes(all []schema.Collection) (boxes []*box, links []*link) {
	byName := map[string]*box{}
	for _, c := range all {
		b := &box{Name: cutTo(c.Name, maxHeadChars), Title: c.Name, Path: Prefix + "/records/" + url.PathEscape(c.Name)}
		if c.Label != "" {
			b.Title += " – " + c.Label
		}
		boxes, byName[c.Name] = append(boxes, b), b
	}
	for i, c := range all {
		b := boxes[i]
		fields := slices.Clone(c.Fields)
		slices.SortStableFunc(fields, func(f, g schema.Field) int { return cmp.Compare(rankOf(f), rankOf(g)) })
		for j, f := range fields[:min(len(fields), maxBoxFields)] {
			r := boxRow{Name: cutTo(f.Name, maxBoxChars), Type: cutTo(string(f.Type), maxTypeChars), Title: f.Name, Reference: f.Type == schema.Reference, Y: headHeight + j*rowHeight + rowHeight - 6}
			if r.Reference {
				r.Name = cutTo(f.Name, maxRefChars)
			}
			if f.Required {
				r.Type += "*"
			}
			b.Rows = append(b.Rows, r)
			if to := byName[f.Collection]; r.Reference && to != nil {
				links = append(links, &link{from: b, to: to, row: j, Name: fmt.Sprintf("%s.%s → %s", c.Name, f.Name, f.Collection)})
			}
		}
		rows := len(b.Rows)
		if left := len(fields) - rows; left > 0 {
			b.More = a.text("and %d more", left)
			rows++
		}
		b.Height = headHeight + rows*rowHeight + boxFoot
	}
	return boxes, links
}

// rankOf puts references first.
func rankOf(f schema.Field) int {
	if f.Type == schema.Reference {
		return 0
	}
	return 1
}

// cutTo cuts a text to n characters.
func cutTo(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// references returns the lines of the table.
func (a *Admin) references(all []schema.Collection) (list []reference) {
	for _, c := range all {
		for _, f := range a.fieldRows(c.Fields) {
			if f.Type == schema.Reference {
				list = append(list, reference{c.Name, Prefix + "/schema/" + url.PathEscape(c.Name), f.Name, f.Collection, f.Path, f.About, f.Required})
			}
		}
	}
	return list
}
