package stories_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var onlyPoints = flag.String("points", "", "have `killed` kill at all points \"SCENE NAME#N\" that this regular expression matches, and at no other")

// sampled is the number of points at which `make test` kills the daemon.
const sampled = 5

// lot selects the points at which the daemon is killed: all of them in `make test-full`, some in `make test`.
type lot struct {
	seed uint64
	all  bool
	only *regexp.Regexp
	rand *rand.Rand
	// draws is the number of points to draw for each scene.
	draws map[string]int
}

// everywhere reports whether the daemon is killed at all points of all scenes, regardless of a script's sample.
func everywhere() bool { return os.Getenv("PLUMBLINE_KILL") == "everywhere" }

// newLot draws points among scenes, with PLUMBLINE_SEED or a random seed: sample points of each, unless sample is 0.
func newLot(scenes []string, sample int) (*lot, error) {
	l := &lot{seed: rand.Uint64N(1 << 32), draws: map[string]int{}}
	if text, set := os.LookupEnv("PLUMBLINE_SEED"); set {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read PLUMBLINE_SEED: %w", err)
		}
		l.seed = seed
	}
	full, _ := os.LookupEnv("PLUMBLINE_FULL")
	l.all = full == "1" && sample == 0 || everywhere()
	if *onlyPoints != "" {
		var err error
		if l.only, err = regexp.Compile(*onlyPoints); err != nil {
			return nil, fmt.Errorf("read -points: %w", err)
		}
	}
	l.rand = rand.New(rand.NewPCG(l.seed, 0))
	if sample > 0 {
		for _, scene := range scenes {
			l.draws[scene] = sample
		}
		return l, nil
	}
	for range sampled {
		l.draws[scenes[l.rand.IntN(len(scenes))]]++
	}
	return l, nil
}

// wants reports whether to play a scene at all.
func (l *lot) wants(scene string) bool { return l.all || l.only != nil || l.draws[scene] > 0 }

// choose returns the points of a scene at which to kill the daemon.
func (l *lot) choose(scene string, points []string) []string {
	if l.only != nil {
		return slices.DeleteFunc(slices.Clone(points), func(p string) bool { return !l.only.MatchString(scene + " " + p) })
	}
	if l.all {
		return points
	}
	drawn := l.rand.Perm(len(points))[:min(l.draws[scene], len(points))]
	slices.Sort(drawn) // in the order in which they are reached
	var chosen []string
	for _, i := range drawn {
		chosen = append(chosen, points[i])
	}
	return chosen
}

// spread is the distance between the kills of one play: every tenth of the remaining points, if there are more than a
// few.
const spread = 10

// points are those of a scene at which the daemon has yet to be killed.
type points struct {
	left []string // in the order in which they are reached
	all  int
	// again are those that a play did not reach, to get a play of their own; missed are those not reached even then.
	again, missed []string
}

func newPoints(chosen []string) *points {
	return &points{left: chosen, all: len(chosen)}
}

// goesOn reports whether there is another play.
func (p *points) goesOn() bool { return len(p.left)+len(p.again) > 0 }

// play kills the daemon at the points of the next play, and records which of them were not reached.
func (p *points) play(kill func([]string) (unreached []string)) {
	if len(p.left) > 0 {
		p.again = append(p.again, kill(p.take())...)
		return
	}
	alone := p.again[:1]
	p.again = p.again[1:]
	p.missed = append(p.missed, kill(alone)...)
}

// take removes and returns the points of the next play.
func (p *points) take() []string {
	n := max(sampled, (p.all+spread-1)/spread)
	var taken, kept []string
	for i, point := range p.left {
		if len(taken) < n && i >= len(taken)*len(p.left)/n {
			taken = append(taken, point)
		} else {
			kept = append(kept, point)
		}
	}
	p.left = kept
	return taken
}

// expression returns the value of -points for exactly these points of a scene.
func expression(scene string, points []string) string {
	return "^" + scene + " (" + strings.Join(points, "|") + ")$"
}

// representative returns the points of a trace without repetitions: of each name the first, the second and a late one,
// in the order in which they were reached. A play with kills has fewer reconciles, so it may not reach the last ones.
func representative(trace []string) []string {
	last := map[string]int{}
	for _, point := range trace {
		name, n := splitPoint(point)
		last[name] = max(last[name], n)
	}
	var kept []string
	for _, point := range trace {
		if name, n := splitPoint(point); n <= 2 || n == last[name]-last[name]/4 {
			kept = append(kept, point)
		}
	}
	return kept
}

// splitPoint splits NAME#N.
func splitPoint(point string) (name string, n int) {
	i := strings.LastIndex(point, "#")
	n, err := strconv.Atoi(point[i+1:])
	if err != nil {
		return point, 1
	}
	return point[:i], n
}

func TestRepresentative(t *testing.T) {
	trace := strings.Fields("fetch#1 fetch#2 write#1 fetch#3 fetch#4 write#2 fetch#5 end#1")
	want := strings.Fields("fetch#1 fetch#2 write#1 fetch#4 write#2 end#1")
	if diff := cmp.Diff(want, representative(trace)); diff != "" {
		t.Errorf("points to kill at (-want +got):\n%s", diff)
	}
}

// TestPoints checks that each point is used once, and once more alone if it was not reached, and that those of one play
// are not adjacent.
func TestPoints(t *testing.T) {
	var all []string
	for i := range 60 {
		all = append(all, fmt.Sprintf("p#%d", i))
	}
	p := newPoints(slices.Clone(all))
	var plays [][]string
	for p.goesOn() {
		p.play(func(play []string) (unreached []string) {
			plays = append(plays, play)
			return slices.DeleteFunc(slices.Clone(play), func(point string) bool { return point != "p#7" })
		})
	}
	if diff := cmp.Diff([]string{"p#0", "p#10", "p#20", "p#30", "p#40", "p#50"}, plays[0]); diff != "" {
		t.Errorf("points of the first play (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"p#7"}, plays[len(plays)-1]); diff != "" {
		t.Errorf("points of the last play (-want +got):\n%s", diff)
	}
	taken := slices.Concat(plays...)
	slices.Sort(taken)
	want := append(slices.Clone(all), "p#7")
	slices.Sort(want)
	if diff := cmp.Diff(want, taken); diff != "" {
		t.Errorf("points of all plays (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"p#7"}, p.missed); diff != "" {
		t.Errorf("points that were missed (-want +got):\n%s", diff)
	}
}

// TestLot checks that a seed draws the same points each time, and the full tier all of them.
func TestLot(t *testing.T) {
	t.Setenv("PLUMBLINE_SEED", "7")
	t.Setenv("PLUMBLINE_FULL", "")
	scenes := []string{"a", "b"}
	points := strings.Fields("p#1 q#1 r#1 s#1 t#1 u#1 v#1")
	draw := func() []string {
		l, err := newLot(scenes, 0)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, scene := range scenes {
			all = append(all, l.choose(scene, points)...)
		}
		return all
	}
	first := draw()
	if len(first) != sampled {
		t.Errorf("points drawn: got %d, want %d", len(first), sampled)
	}
	if diff := cmp.Diff(first, draw()); diff != "" {
		t.Errorf("the same seed drew others (-first +second):\n%s", diff)
	}
	t.Setenv("PLUMBLINE_FULL", "1")
	if all := draw(); len(all) != 2*len(points) {
		t.Errorf("points of the full tier: got %d, want %d", len(all), 2*len(points))
	}
}

// TestSample checks that a sample is drawn of each scene in the full tier, too, unless all points are required.
func TestSample(t *testing.T) {
	t.Setenv("PLUMBLINE_FULL", "1")
	points := strings.Fields("p#1 q#1 r#1 s#1")
	for kill, want := range map[string]int{"": 2, "everywhere": 4} {
		t.Setenv("PLUMBLINE_KILL", kill)
		l, err := newLot([]string{"a", "b"}, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, scene := range []string{"a", "b"} {
			if got := len(l.choose(scene, points)); got != want || !l.wants(scene) {
				t.Errorf("PLUMBLINE_KILL=%q, scene %s: %d points, want %d", kill, scene, got, want)
			}
		}
	}
}
