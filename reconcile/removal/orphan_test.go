package removal

import (
	"testing"
)

// TestOrphanNamesWhatEndsAllTheSame: NodeClaims that are terminating cannot be taken back, and
// the end of the NodeSync says how many there are.
func TestOrphanNamesWhatEndsAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		terminating bool
		want        string
	}{
		"none": {want: "its objects and nodes are left as they are"},
		"one":  {terminating: true, want: "its objects and nodes are left as they are; Karpenter ends 1 NodeClaim that was terminating already"},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			for range 10 {
				s := b.step()
				for i := range s.Live.NodeClaims {
					s.Live.NodeClaims[i].Deleting = c.terminating
				}
				result, err := s.Orphan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if result.Ended == "" {
					continue
				}
				if result.Ended != c.want {
					t.Errorf("ended: %q, want %q", result.Ended, c.want)
				}
				return
			}
			t.Error("it does not end")
		})
	}
}
