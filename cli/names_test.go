package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

// TestNames: a setting's three names stay unambiguous.
func TestNames(t *testing.T) {
	var all []verb.Verb
	for _, v := range verbs(greeter()) {
		if all = append(all, v.Subs...); v.Subs == nil {
			all = append(all, v)
		}
	}
	for _, v := range all {
		settings := v.Start(verb.App{}).Settings
		var names []string
		for _, s := range settings {
			names = append(names, s.Name)
			if s.Help == "" || s.Name != strings.ToLower(s.Name) || s.Name == "config" || s.Name == "help" {
				t.Errorf("%s: --%s", v.Name, s.Name)
			}
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != len(settings) {
			t.Errorf("%s: a name stands twice in %v", v.Name, names)
		}
	}
}
