package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addChanges(g *web.Group) {}
