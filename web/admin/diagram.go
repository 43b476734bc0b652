package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addDiagram(g *web.Group) {}
