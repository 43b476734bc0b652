package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addDocs(g *web.Group) {}
