package confine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlaces plays scripts over two places: "a" claims a place for the owner a, "-a"
// gives back the first one that a still has, "/a" ends the last claim of a. Held are the
// owners that have a place after each step; claims of nobody are "_".
func TestPlaces(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"one for each":                             {"a b", "a ab"},
		"one owner holds one place":                {"a a a b", "a a a ab"},
		"the place goes on to the owner's next":    {"a a -a -a", "a a a "},
		"others first, in turn":                    {"a b a b c -a -b -c", "a ab ab ab ab bc ac ab"},
		"new owners do not overtake":               {"a b a c d -b -c", "a ab ab ab ab ac ad"},
		"a full queue of one keeps no one out":     {"a a a a a b c -b", "a a a a a ab ab ac"},
		"whoever gives up waits no more":           {"a b c c /c /c d -a", "a ab ab ab ab ab ab bd"},
		"who gives up keeps the place that it has": {"a a /a b c -a", "a a a ab ab bc"},
		"nobody's may have all":                    {"_ _ _ a -_ -_", "_ __ __ __ __ _a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(2)
			claims := map[string][]*claim{}
			var got []string
			for _, step := range strings.Fields(tc.script) {
				who := strings.TrimLeft(step, "-/")
				owner := strings.Trim(who, "_")
				switch mine := claims[who]; step[0] {
				case '-':
					i := slices.IndexFunc(mine, (*claim).has)
					p.release(mine[i])
					claims[who] = slices.Delete(mine, i, i+1)
				case '/':
					p.release(mine[len(mine)-1])
					claims[who] = mine[:len(mine)-1]
				default:
					claims[who] = append(mine, p.claim(owner))
				}
				got = append(got, held(claims))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("held after each step of %q (-want +got):\n%s", tc.script, diff)
			}
		})
	}
}

func (c *claim) has() bool {
	select {
	case <-c.given:
		return true
	default:
		return false
	}
}

func held(claims map[string][]*claim) string {
	var all []string
	for who, mine := range claims {
		for _, c := range mine {
			if c.has() {
				all = append(all, who)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestPlacesAreForgotten: whoever has no work costs nothing.
func TestPlacesAreForgotten(t *testing.T) {
	p := newPlaces(1)
	ended, cancel := context.WithCancel(For(t.Context(), "b"))
	cancel()
	back, err := p.take(For(t.Context(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.take(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	back()
	if len(p.named) != 0 || len(p.queue) != 0 || p.free != 1 {
		t.Errorf("%d owners, %d in the queue, %d places free, want 0, 0 and 1", len(p.named), len(p.queue), p.free)
	}
}
