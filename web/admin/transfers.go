package admin

import "github.com/skerrydb/skerry/web"

// addTransfers adds imports and exports: /records/{collection}/import and /records/{collection}/export.
func (a *Admin) addTransfers(g *web.Group) {}
