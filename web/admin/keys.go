package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addKeys(g *web.Group) {}
