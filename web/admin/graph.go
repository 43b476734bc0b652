package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addGraph(g *web.Group) {}
