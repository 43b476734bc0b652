package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addFaults(g *web.Group) {}
