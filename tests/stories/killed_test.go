package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// played limits the duration of a scene, on a busy machine.
	played = 3 * time.Minute
	// overdue is how long to wait, after a scene's end, for a point that has not been reached.
	overdue = 5 * time.Second
	// killedThere is at the end of the trace line for the point at which the daemon killed itself.
	killedThere = " killed"
	// killedBySignal is the exit code of a process that killed itself.
	killedBySignal = 137
)

// killedCommand is `killed [sample=N] SCENE…`: it plays the scenes once, to find the points and the results, and then
// repeatedly, each time with kills at some of the remaining points. Restarted after each kill, the daemon has to reach
// the same result.
func (s *story) killedCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: killed [sample=N] SCENE…")
	}
	sample := 0
	if text, ok := strings.CutPrefix(args[0], "sample="); ok {
		var err error
		if sample, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("read sample: %w", err)
		}
		args = args[1:]
	}
	lot, err := newLot(args, sample)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "killed: PLUMBLINE_SEED=%d draws the points\n", lot.seed)
	var all []*killing
	for _, name := range args {
		scene, known := scenes[name]
		if !known {
			return fmt.Errorf("there is no scene %q", name)
		}
		if !lot.wants(name) {
			continue
		}
		k := &killing{story: s, ts: ts, name: name, scene: scene}
		if err := k.playUndisturbed(lot); err != nil {
			return fmt.Errorf("%s without a kill: %w", name, err)
		}
		all = append(all, k)
	}
	// A scene starts about where the previous one ends, so they are played in turn.
	for round := 1; slices.ContainsFunc(all, (*killing).goesOn); round++ {
		for _, k := range all {
			if !k.goesOn() {
				continue
			}
			if err := k.playRound(round); err != nil {
				return err
			}
		}
	}
	var failed error
	for _, k := range all {
		failed = errors.Join(failed, k.outcome())
	}
	return failed
}

// killing is one scene that is played many times.
type killing struct {
	*story
	ts    *testscript.TestScript
	name  string
	scene scene
	want  *ending
	// points are the remaining points for kills.
	points *points
	failed error
}

func (k *killing) goesOn() bool { return k.points.goesOn() }

// playUndisturbed plays the scene without kills, and records its result and the points that it reaches.
func (k *killing) playUndisturbed(lot *lot) error {
	began := time.Now()
	if err := k.stage(); err != nil {
		return err
	}
	if err := k.start("--step-trace=" + k.traceFile()); err != nil {
		return err
	}
	err := k.poll(played, func(ctx context.Context) error { return k.scene.ended(ctx, k.story) })
	if err != nil {
		return err
	}
	if err := k.endsWell(); err != nil {
		return err
	}
	trace, err := k.trace()
	if err != nil {
		return err
	}
	if k.want, err = k.ending(k.ctx, killedSync); err != nil {
		return err
	}
	all := k.scene.pointsOf(trace)
	k.points = newPoints(lot.choose(k.name, all))
	fmt.Fprintf(os.Stderr, "killed: %s takes %.0fs and reaches %d points in %d places; to be killed at %d\n", k.name, time.Since(began).Seconds(), len(trace), len(all), len(k.points.left))
	k.ts.Logf("%s reaches %q", k.name, all)
	return k.hold()
}

// playRound plays the scene with kills at some of the remaining points. Its failure does not hide other failures,
// unless the scene cannot even be set up.
func (k *killing) playRound(round int) error {
	if err := k.stage(); err != nil {
		return errors.Join(k.failed, fmt.Errorf("%s: %w", k.name, err))
	}
	k.points.play(func(chosen []string) []string {
		began := time.Now()
		unreached, err := k.playKilled(chosen)
		if err != nil {
			k.ts.Logf("the end of the daemon's log:\n%s", k.daemon.LogTail(logLines))
			k.failed = errors.Join(k.failed, fmt.Errorf("%s killed at %q (-points '%s' again): %w", k.name, chosen, expression(k.name, chosen), err))
		}
		fmt.Fprintf(os.Stderr, "killed: %s, round %d: %q, unreached %q: %.0fs, error: %v\n", k.name, round, chosen, unreached, time.Since(began).Seconds(), err)
		return unreached
	})
	return nil
}

// outcome returns the result of all plays.
func (k *killing) outcome() error {
	// The number of reconciles varies between plays, so the last of many points may not be reached. If few are, the
	// test proves little.
	if n := len(k.points.missed); n > 1+k.points.all/10 {
		return errors.Join(k.failed, fmt.Errorf("%s: %d of %d points were not reached: %q", k.name, n, k.points.all, k.points.missed))
	}
	return k.failed
}

// playKilled makes the daemon kill itself at points, one after another, restarting it each time, and checks that the
// result is the same. It returns the points that were not reached.
func (k *killing) playKilled(chosen []string) (left []string, err error) {
	left = slices.Clone(chosen)
	for len(left) > 0 {
		flags := []string{"--step-trace=" + k.traceFile()}
		for _, point := range left {
			flags = append(flags, "--step-kill="+point)
		}
		if err := k.start(flags...); err != nil {
			return left, err
		}
		point, err := k.awaitDeath()
		if err != nil {
			return left, err
		}
		if point == "" {
			break
		}
		left = slices.DeleteFunc(left, func(p string) bool { return p == point })
	}
	if err := k.startAgain(); err != nil {
		return left, err
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
		return left, err
	}
	return left, errors.Join(k.endsWell(), k.hold())
}

func (s *story) traceFile() string { return filepath.Join(s.dir, "trace") }

// trace returns the points that the daemon has reached in this play.
func (k *killing) trace() ([]string, error) {
	data, err := os.ReadFile(k.traceFile())
	return strings.Split(strings.TrimSpace(string(data)), "\n"), err
}

// stage brings the cluster to the start of the scene, records what has to survive it, and makes the change for the
// daemon.
func (k *killing) stage() error {
	if err := k.scene.prepare(k.story, k.ts); err != nil {
		return fmt.Errorf("prepare the scene: %w", err)
	}
	if err := os.RemoveAll(k.traceFile()); err != nil {
		return err
	}
	k.kept = k.scene.keeps(k.story)
	if err := k.markCommand(k.ts, nil); err != nil {
		return err
	}
	return k.scene.begin(k.story, k.ts)
}

// awaitDeath waits until the daemon has killed itself, and returns the point at which it did. If the scene ends without
// reaching any, it kills the daemon from outside.
func (k *killing) awaitDeath() (point string, err error) {
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
		return "", fmt.Errorf("wait for the daemon to kill itself: %w", err)
	}
	if k.daemon.Running() {
		return "", k.daemon.Kill()
	}
	switch code := k.daemon.ExitCode(); {
	case code == 0 && len(k.scene.command) > 0:
		return "", nil
	case code != killedBySignal:
		return "", fmt.Errorf("the daemon was to be killed: %w", k.daemon.Err())
	}
	trace, err := k.trace()
	if err != nil {
		return "", err
	}
	point, killed := strings.CutSuffix(trace[len(trace)-1], killedThere)
	if !killed {
		return "", fmt.Errorf("the daemon was killed at none of its points, after %q", point)
	}
	return point, nil
}

// hold checks what a single moment does not show: that nothing that Git contains was terminated on the way, and that
// the daemon has deleted only what the scene deletes.
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
