package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addMail(g *web.Group) {}
