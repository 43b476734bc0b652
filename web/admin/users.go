package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addUsers(g *web.Group) {}
