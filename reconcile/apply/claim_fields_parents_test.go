package apply

import (
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestTheLastFieldOfAMapMovesWithIt: a map that another manager created, and of which it owns no more fields, becomes
// ours as well, so that an apply removes it as a whole.
func TestTheLastFieldOfAMapMovesWithIt(t *testing.T) {
	for name, c := range map[string]struct {
		owned         string
		taken         [][]string
		within, stays string
	}{
		"the last field":       {`{"f:spec":{"f:tags":{".":{},"f:tier":{}}}}`, [][]string{{"spec", "tags", "tier"}}, `{"f:spec":{"f:tags":{".":{},"f:tier":{}}}}`, `{}`},
		"one of two":           {`{"f:spec":{"f:tags":{".":{},"f:team":{},"f:tier":{}}}}`, [][]string{{"spec", "tags", "tier"}}, `{"f:spec":{"f:tags":{"f:tier":{}}}}`, `{"f:spec":{"f:tags":{".":{},"f:team":{}}}}`},
		"the last two":         {`{"f:spec":{"f:tags":{".":{},"f:team":{},"f:tier":{}}}}`, [][]string{{"spec", "tags", "tier"}, {"spec", "tags", "team"}}, `{"f:spec":{"f:tags":{".":{},"f:team":{},"f:tier":{}}}}`, `{}`},
		"in maps that it made": {`{"f:spec":{"f:template":{"f:metadata":{".":{},"f:annotations":{".":{},"f:note":{}}}}}}`, [][]string{{"spec", "template", "metadata", "annotations", "note"}}, `{"f:spec":{"f:template":{"f:metadata":{".":{},"f:annotations":{".":{},"f:note":{}}}}}}`, `{}`},
		"in a map of another":  {`{"f:spec":{"f:tags":{"f:tier":{}}}}`, [][]string{{"spec", "tags", "tier"}}, `{"f:spec":{"f:tags":{"f:tier":{}}}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			owned := &fieldpath.Set{}
			if err := owned.FromJSON(strings.NewReader(c.owned)); err != nil {
				t.Fatal(err)
			}
			within, rest := split(owned, c.taken, nil)
			for what, got := range map[string]struct {
				set  *fieldpath.Set
				want string
			}{"within": {within, c.within}, "the rest": {rest, c.stays}} {
				if raw, err := got.set.ToJSON(); err != nil || string(raw) != got.want {
					t.Errorf("%s: %s, want %s; %v", what, raw, got.want, err)
				}
			}
		})
	}
}
