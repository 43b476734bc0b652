package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addSeries(g *web.Group) {}
