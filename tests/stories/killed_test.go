package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// played is how long a scene may take to its end, on a busy machine.
	played = 3 * time.Minute
	// overdue is how long after a scene's end a point is still waited for that has
	// not been reached.
	overdue = 5 * time.Second
	// killedBySignal is the exit code of a process that killed itself.
	killedBySignal = 137
)

// killedCommand is `killed SCENE…`: it plays each scene to its end, to see which
// points there are and how it ends, and then again and again with a kill at one
// of them. Started anew, the daemon has to come to the same end.
func (s *story) killedCommand(ts *testscript.TestScript, args []string) error {
	lot, err := newLot(args)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "killed: PLUMBLINE_SEED=%d draws the points\n", lot.seed)
	for _, name := range args {
		scene, known := scenes[name]
		if !known {
			return fmt.Errorf("there is no scene %q", name)
		}
		if !lot.wants(name) {
			continue
		}
		k := &killing{story: s, ts: ts, scene: scene}
		if err := k.playAll(name, lot); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// killing is one scene that is played many times.
type killing struct {
	*story
	ts    *testscript.TestScript
	scene scene
	want  *ending
	// unreached are points that a scene ended without.
	unreached []string
}

func (k *killing) playAll(name string, lot *lot) error {
	began := time.Now()
	trace, err := k.playUndisturbed()
	if err != nil {
		return fmt.Errorf("without a kill: %w", err)
	}
	points := representative(trace)
	chosen := lot.choose(name, points)
	fmt.Fprintf(os.Stderr, "killed: %s takes %.0fs and reaches %d points in %d places; to be killed at %d\n", name, time.Since(began).Seconds(), len(trace), len(points), len(chosen))
	k.ts.Logf("%s reaches %q", name, points)
	for i, point := range chosen {
		began := time.Now()
		reached, err := k.playKilled(point)
		if err != nil {
			return fmt.Errorf("killed at %q (-points '^%s %s$' again): %w", point, name, point, err)
		}
		if !reached {
			k.unreached = append(k.unreached, point)
		}
		fmt.Fprintf(os.Stderr, "killed: %s %d/%d %q reached=%v %.0fs\n", name, i+1, len(chosen), point, reached, time.Since(began).Seconds())
	}
	// How often a pass runs is not the same each time, so the last of many may not
	// come. That few do not is what makes the others worth something.
	if len(k.unreached) > 1+len(chosen)/4 {
		return fmt.Errorf("%d of %d points were not reached: %q", len(k.unreached), len(chosen), k.unreached)
	}
	return nil
}

// playUndisturbed plays the scene to its end, and returns the points that it
// reached on the way.
func (k *killing) playUndisturbed() ([]string, error) {
	if err := k.stage(); err != nil {
		return nil, err
	}
	file := filepath.Join(k.dir, "trace")
	if err := errors.Join(os.RemoveAll(file), k.daemon.StartSteps(k.ctx, "--step-trace="+file)); err != nil {
		return nil, err
	}
	var trace []byte
	err := k.poll(played, func(ctx context.Context) error {
		if err := k.scene.ended(ctx, k.story); err != nil {
			return err
		}
		var err error
		trace, err = os.ReadFile(file)
		return err
	})
	if err != nil {
		return nil, err
	}
	if k.want, err = k.ending(k.ctx, killedSync); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(trace)), "\n"), k.hold()
}

// playKilled plays the scene with a kill at a point, starts the daemon again and
// holds that the end is the same.
func (k *killing) playKilled(point string) (reached bool, err error) {
	if err := k.stage(); err != nil {
		return false, err
	}
	if err := k.daemon.StartSteps(k.ctx, "--step-kill="+point); err != nil {
		return false, err
	}
	if reached, err = k.awaitDeath(); err != nil {
		return false, err
	}
	if err := k.daemon.Start(k.ctx); err != nil {
		return false, err
	}
	err = k.poll(played, func(ctx context.Context) error {
		if err := k.scene.ended(ctx, k.story); err != nil {
			return err
		}
		got, err := k.ending(ctx, killedSync)
		if err != nil {
			return err
		}
		return got.unlike(k.want)
	})
	if err != nil {
		return false, err
	}
	return reached, k.hold()
}

// stage brings the cluster to where the scene begins, notes what has to live
// through it, and does what the daemon will have to act upon.
func (k *killing) stage() error {
	if err := k.scene.prepare(k.story, k.ts); err != nil {
		return fmt.Errorf("prepare the scene: %w", err)
	}
	k.kept = k.scene.keeps(k.story)
	if err := k.markCommand(k.ts, nil); err != nil {
		return err
	}
	return k.scene.begin(k.story, k.ts)
}

// awaitDeath waits until the daemon has killed itself. One whose scene has ended
// without reaching the point is killed from outside.
func (k *killing) awaitDeath() (reached bool, err error) {
	var ended time.Time
	err = wait.PollUntilContextTimeout(k.ctx, pollEvery, played, true, func(ctx context.Context) (bool, error) {
		if !k.daemon.Running() {
			return true, nil
		}
		if k.scene.ended(ctx, k.story) != nil {
			ended = time.Time{}
			return false, nil //nolint:nilerr // it goes on until it is dead
		}
		if ended.IsZero() {
			ended = time.Now()
		}
		return time.Since(ended) > overdue, nil
	})
	if err != nil {
		return false, fmt.Errorf("wait for the daemon to kill itself: %w", err)
	}
	if k.daemon.Running() {
		return false, k.daemon.Kill()
	}
	if code := k.daemon.ExitCode(); code != killedBySignal {
		return false, fmt.Errorf("the daemon was to be killed: %w", k.daemon.Err())
	}
	return true, nil
}

// hold holds what no single moment shows: that nothing died on the way that Git
// wants, and that the daemon has deleted nothing that is not in the scene.
func (k *killing) hold() error {
	running := k.billed("")
	for _, id := range k.kept {
		if !slices.Contains(running, id) {
			return fmt.Errorf("instance %s, which Git wants, runs no more; %s do", id, strings.Join(running, ", "))
		}
	}
	written, err := k.allWritten()
	if err != nil {
		return err
	}
	for _, w := range written {
		if strings.HasPrefix(w.Verb, "delete") && !slices.ContainsFunc(k.scene.deletes, func(kind string) bool { return kinds[kind].Resource == w.Resource }) {
			return fmt.Errorf("the daemon has deleted what is not in the scene: %s", w)
		}
	}
	return nil
}
