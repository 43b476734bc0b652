package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/web"
)

func (a *Admin) addSettings(g *web.Group) { g.Get("/settings", a.settingsPage) }

// settingsPage shows the settings in effect, those that somebody has set first.
func (a *Admin) settingsPage(c *web.Context) error {
	all := slices.Clone(a.o.Settings)
	slices.SortFunc(all, func(x, y Setting) int { return strings.Compare(x.Name, y.Name) })
	var set, defaults []Setting
	for _, s := range all {
		if s.From == fromDefault {
			defaults = append(defaults, s)
		} else {
			set = append(set, s)
		}
	}
	return a.show(c, http.StatusOK, "settings", web.Locals{"title": a.text("Settings"), "set": set, "defaults": defaults})
}

// fromDefault is Setting.From of what nobody has set.
const fromDefault = "default"
