package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addSettings(g *web.Group) {}
