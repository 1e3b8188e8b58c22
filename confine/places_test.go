package confine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPlaces runs scripts with two places: "a" claims a place for the owner a, "-a" releases the first one that a
// holds, "/a" cancels the last claim of a. Held are the owners that have a place after each step; claims without an
// owner are "_".
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
			p := newPlaces(2, func() time.Time { return time.Time{} })
			got := play(p, tc.script, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("held after each step of %q (-want +got):\n%s", tc.script, diff)
			}
		})
	}
}

// play returns who has a place after each step of a script.
func play(p *places, script string, pass func(time.Duration)) string {
	claims := map[string][]*claim{}
	var got []string
	for _, step := range strings.Fields(script) {
		who := strings.TrimLeft(step, "-/")
		switch mine := claims[who]; step[0] {
		case '+':
			seconds, _ := strconv.Atoi(step[1:])
			pass(time.Duration(seconds) * time.Second)
		case '-':
			i := slices.IndexFunc(mine, (*claim).has)
			p.release(mine[i])
			claims[who] = slices.Delete(mine, i, i+1)
		case '/':
			p.release(mine[len(mine)-1])
			claims[who] = mine[:len(mine)-1]
		default:
			claims[who] = append(mine, p.claim(strings.Trim(who, "_")))
		}
		got = append(got, held(claims))
	}
	return strings.Join(got, " ")
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

// TestHeavyOwnersLeaveAPlace runs scripts like those of TestPlaces, in which "+30" advances the clock by as many
// seconds.
func TestHeavyOwnersLeaveAPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		places       int
		script, want string
	}{
		"two that were heavy share one":      {2, "a b +30 -a -b a b", "a ab ab b  a a"},
		"a third waits for neither":          {2, "a b +30 -a -b a b c", "a ab ab b  a a ac"},
		"nor for one that queued before it":  {2, "a +30 b +30 a b -a -b c", "a a ab ab ab ab b a ac"},
		"nor for several":                    {2, "a b +30 -a -b d +30 -d a b d c -c e", "a ab ab b  d d  a a a ac a ae"},
		"they take turns":                    {2, "a b +30 -a -b a b a -a", "a ab ab b  a a a b"},
		"the only one has a place":           {2, "a +30 -a a", "a a  a"},
		"of one place":                       {1, "a +30 -a a b -a", "a a  a a b"},
		"three places":                       {3, "a b d +30 -a -b -d a b d c", "a ab abd abd bd d  a ab ab abc"},
		"while it holds its first":           {2, "a +30 b +30 -b b", "a a ab ab a a"},
		"short work is not heavy":            {2, "a b +5 -a -b a b", "a ab ab b  a ab"},
		"short work adds up":                 {2, "a b +5 -a -b a b +6 -a -b a b", "a ab ab b  a ab ab b  a a"},
		"what was long ago is not heavy":     {2, "a b +30 -a -b +600 a b", "a ab ab b   a ab"},
		"what was a while ago is heavy":      {2, "a b +30 -a -b +60 a b", "a ab ab b   a a"},
		"twenty minutes after hours of work": {2, "a b +9999 -a -b +1200 a b", "a ab ab b   a ab"},
		"nobody's is not heavy":              {2, "_ _ +30 -_ -_ _ _", "_ __ __ _  _ __"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			p := newPlaces(tc.places, func() time.Time { return now })
			if got := play(p, tc.script, func(d time.Duration) { now = now.Add(d) }); got != tc.want {
				t.Errorf("held after each step of %q: %q, want %q", tc.script, got, tc.want)
			}
		})
	}
}

// TestPlacesAreForgotten: an owner without current or recent work takes no memory.
func TestPlacesAreForgotten(t *testing.T) {
	now := time.Now()
	p := newPlaces(1, func() time.Time { return now })
	ended, cancel := context.WithCancel(For(t.Context(), "b"))
	cancel()
	back, err := p.acquire(For(t.Context(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.acquire(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	now = now.Add(time.Minute)
	back()
	if len(p.named) != 1 {
		t.Errorf("%d owners, want the one that has held a place for a minute", len(p.named))
	}
	now = now.Add(10 * time.Minute)
	if back, err = p.acquire(For(t.Context(), "c")); err != nil {
		t.Fatal(err)
	}
	back()
	if len(p.named) != 0 || len(p.queue) != 0 || p.free != 1 {
		t.Errorf("%d owners, %d in the queue, %d places free, want 0, 0 and 1", len(p.named), len(p.queue), p.free)
	}
}
