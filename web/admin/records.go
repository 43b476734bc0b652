package admin

import "github.com/skerrydb/skerry/web"

func (a *Admin) addRecords(g *web.Group) {
	a.addHistory(g)
	a.addTransfers(g)
}
