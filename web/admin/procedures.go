package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addProcedures(g *web.Group) {}
