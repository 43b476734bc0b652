package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
)

var verifyVerb = verb.Verb{
	Name: "verify", Args: "[COLLECTION…]", Short: "verify the histories, records and indexes of collections",
	Long: `The changes of a collection form a chain of hashes, which reveals any change that was altered,
removed or inserted later. Records, indexes and counters are compared with the changes.
Requests are served meanwhile. To detect that somebody rewrote the whole chain, keep the
printed hash of the last change elsewhere and compare it.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		check := func([]string) error { return verb.Mistakes(o.check("url")) }
		return verb.Action{Settings: o.settings(app), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			found, err := o.verify(ctx, rest)
			if err != nil {
				return err
			}
			faults := 0
			for _, v := range found {
				if v.Fault != nil {
					faults++
				}
			}
			if o.json {
				err = verb.PrintJSON(p.Stdout, map[string]any{"collections": found})
			} else {
				err = printVerified(p.Stdout, found)
			}
			if err == nil && faults > 0 {
				err = engine.Errorf(engine.CodeCorrupt, "%d collections are damaged", faults)
			}
			return err
		}}
	},
}

// verify asks for the verification of collections, of all if none is named.
func (o *usersOptions) verify(ctx context.Context, names []string) (found []api.Verified, err error) {
	if len(names) == 0 {
		all, err := o.migrations(ctx, false, nil)
		if err != nil {
			return nil, err
		}
		for _, m := range all.Migrations {
			if m.Version > 0 {
				names = append(names, m.Collection)
			}
		}
	}
	found = []api.Verified{}
	for _, name := range names {
		var v api.Verified
		if err := o.askJSON(ctx, "/records/verify?collection="+url.QueryEscape(name), &v); err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, nil
}

func printVerified(w io.Writer, found []api.Verified) error {
	for _, v := range found {
		text := fmt.Sprintf("%d changes, %d records, %d index entries; the last hash is %s", v.Changes, v.Records, v.Entries, v.Head)
		if v.Fault != nil {
			text = "damaged: " + v.Fault.Error()
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", v.Collection, text); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "there are no collections")
		return err
	}
	return nil
}
