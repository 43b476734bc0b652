package admin

import "github.com/skerrydb/skerry/web"

// addHistory adds the history of records: the routes below /records/{collection}/history.
func (a *Admin) addHistory(g *web.Group) {}
