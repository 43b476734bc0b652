package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addConsole(g *web.Group) {}
