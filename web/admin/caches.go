package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addCaches(g *web.Group) {}
