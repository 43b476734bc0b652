package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addCluster(g *web.Group) {}
