package stories_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

var (
	keep  = flag.Bool("keep", false, "stay after the first story that failed, or the last one, until interrupted")
	match = flag.String("story", "", "tell only the stories that this regular expression matches")
)

// patience limits the duration of one story. With PLUMBLINE_FULL=1, one takes about half an hour.
func patience() time.Duration {
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full == "1" || *onlyPoints != "" {
		return 2 * time.Hour
	}
	return 10 * time.Minute
}

// told is the result of a story.
type told struct {
	name   string
	took   time.Duration
	failed bool
}

// TestStories runs the stories of the list that -run and -story select: those of a group one after another, and
// -parallel groups at a time. Stories mostly wait.
func TestStories(t *testing.T) {
	queue := groups(choose(t))
	lanes := flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int)
	if *keep {
		lanes = 1
	}
	tale := &tale{t: t, root: checkout(t)}
	var telling errgroup.Group
	telling.SetLimit(lanes)
	for i, group := range queue {
		telling.Go(func() error {
			tale.tell(group, i == len(queue)-1)
			return nil
		})
	}
	_ = telling.Wait() // stories report their own failures
	logTimes(t, tale.told)
}

// tale is a run of stories.
type tale struct {
	t    *testing.T
	root string
	mu   sync.Mutex
	told []told
}

// tell runs the stories of a group, which share a cluster.
func (a *tale) tell(group []entry, last bool) {
	g := &ground{t: a.t, root: a.root, kind: group[0].ground}
	defer g.end()
	for i, e := range group {
		a.t.Run(e.name, func(t *testing.T) {
			c := g.cluster(t)
			s := newStory(t, e, c, a.root)
			defer func() { // a script that fails ends the goroutine
				a.add(told{name: e.name, took: time.Since(s.began), failed: t.Failed()})
				if t.Failed() {
					s.diagnose()
				}
				if *keep && (t.Failed() || last && i == len(group)-1) {
					s.stay()
				}
				s.close()
				c.check(t)
			}()
			s.tell(t)
			s.checkRights(t)
		})
	}
}

func (a *tale) add(t told) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, t)
}

// choose returns the stories to run: those of the tier that -run and -story match.
func choose(t *testing.T) []entry {
	entries, err := readList()
	if err != nil {
		t.Fatal(err)
	}
	tier, _ := os.LookupEnv("PLUMBLINE_FULL")
	var run string
	if f := flag.Lookup("test.run"); f != nil {
		_, run, _ = strings.Cut(f.Value.String(), "/")
	}
	asked := []*regexp.Regexp{compile(t, run), compile(t, *match)}
	return slices.DeleteFunc(entries, func(e entry) bool {
		named := run != "" || *match != ""
		return (e.full && tier != "1" && !named) || !asked[0].MatchString(e.name) || !asked[1].MatchString(e.name)
	})
}

func compile(t *testing.T, expression string) *regexp.Regexp {
	r, err := regexp.Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkout returns the root of the checkout, in which the program has been built.
func checkout(t *testing.T) string {
	source, err := binaries.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(source, "..", "..", "..")
}

// tell runs the story's script, in which @KARPENTER@ is replaced with the newest version of Karpenter.
func (s *story) tell(t *testing.T) {
	script, err := os.ReadFile(s.script())
	if err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(t.TempDir(), filepath.Base(s.script()))
	if err := os.WriteFile(told, bytes.ReplaceAll(script, []byte("@KARPENTER@"), []byte(binaries.KarpenterVersion)), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.RunT(shim{t}, testscript.Params{
		Files: []string{told}, Setup: s.setup, Cmds: commands(), Condition: condition, Deadline: s.began.Add(patience()),
		RequireUniqueNames: true, TestWork: *keep,
	})
	s.member = s.members[0] // whose rights are checked
}

// condition evaluates conditions in brackets, in addition to testscript's own.
func condition(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// shim makes testscript run a single script in the existing test.
type shim struct{ *testing.T }

func (s shim) Run(_ string, f func(testscript.T)) { f(s) }
func (s shim) Parallel()                          {}
func (s shim) Verbose() bool                      { return testing.Verbose() }

// stay keeps the sandbox for a person until it is interrupted.
func (s *story) stay() {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(s.ctx), os.Interrupt)
	defer stop()
	fmt.Fprintf(os.Stderr, "\n%s: staying until Ctrl-C. In another terminal:\n", s.name)
	for _, line := range s.c.Environment() {
		fmt.Fprintf(os.Stderr, "  export '%s'\n", line)
	}
	fmt.Fprintf(os.Stderr, "  # sandbox: %s\n", s.c.Dir)
	<-ctx.Done()
}

// logTimes prints the duration of each story, the longest first.
func logTimes(t *testing.T, all []told) {
	var table strings.Builder
	var sum time.Duration
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(b.took, a.took) })
	for _, s := range all {
		word := "ok"
		if s.failed {
			word = "FAILED"
		}
		sum += s.took
		fmt.Fprintf(&table, "%7.1fs  %-6s  %s\n", s.took.Seconds(), word, s.name)
	}
	fmt.Fprintf(&table, "%7.1fs          %d stories\n", sum.Seconds(), len(all))
	fmt.Fprint(os.Stderr, table.String())
	t.Logf("\n%s", table.String())
}
