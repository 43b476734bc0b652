package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addBackups(g *web.Group) {}
