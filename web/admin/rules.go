package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addRules(g *web.Group) {}
