package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/cli/verify"
)

// TestOnlySkerry: programs without the verbs of package verify say which command has them.
func TestOnlySkerry(t *testing.T) {
	t.Parallel()
	if names := verbNames(verify.Verbs()); !slices.Equal(names, onlySkerry()) {
		t.Errorf("package verify has the verbs %v", names)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"help", "bench"}} {
		var stderr strings.Builder
		code := Run(t.Context(), App{Name: "shop"}, Process{Args: args, Stderr: &stderr})
		if want := "shop: only the skerry command has the verb "; code != verb.ExitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%v: [%d] %s, want %s", args, code, &stderr, want)
		}
	}
}

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
