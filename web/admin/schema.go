package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addSchema(g *web.Group) {}
