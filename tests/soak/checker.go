package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// checkEvery is the interval of the checks.
const checkEvery = 2 * time.Second

// user is the daemon's user in the API server's audit log.
const user = "system:serviceaccount:" + daemon.Namespace + ":" + daemon.ServiceAccount

// checker continuously checks for what must not happen.
type checker struct {
	*soak

	read     int64 // of the audit log, in bytes
	deletes  map[string]int
	untruths untruths
}

func newChecker(s *soak) *checker { return &checker{soak: s, deletes: map[string]int{}} }

// run checks until the context is done, or cancels it with what was found.
func (c *checker) run(ctx context.Context, found context.CancelCauseFunc) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, check := range []func(context.Context) error{c.checkDeletes, c.checkStatus} {
			if err := check(ctx); err != nil && ctx.Err() == nil {
				found(err)
			}
		}
	}, checkEvery)
}

// checkDeletes checks that nothing was deleted that Git contains.
func (c *checker) checkDeletes(context.Context) error {
	writes, read, err := c.sandbox.Kube.Audit(c.read)
	if err != nil {
		return err
	}
	c.read = read
	for _, w := range writes {
		if w.User != user || !strings.HasPrefix(w.Verb, "delete") || w.Code >= 300 {
			continue
		}
		c.deletes[w.Resource]++
		if reason := forbidden(w, c.history, &c.lives); reason != "" {
			return fmt.Errorf("%w: the daemon did %s at %s: %s", errViolation, w, w.Time.Format(time.RFC3339Nano), reason)
		}
	}
	return nil
}

// forbidden returns why the daemon must not have deleted something; empty if it may.
func forbidden(w kube.Write, h *history, l *lives) string {
	name := w.Name
	kind := w.Resource
	switch kind {
	case nodePools:
		if there := l.in(name, w.Time); len(there) > 0 {
			return fmt.Sprintf("a pool goes last, and these instances were not terminated: %v", there)
		}
	case nodeClasses:
	case nodeClaims:
		kind, name = nodePools, poolOf(w.Name)
	default:
		return "it never deletes such a thing"
	}
	if h.wanted(kind, name, w.Time.Add(-remembered), w.Time) {
		return fmt.Sprintf("each HEAD of the last %s has %s/%s", remembered, kind, name)
	}
	return ""
}

// poolOf returns the pool of a NodeClaim, whose name is the pool's and a random suffix.
func poolOf(claim string) string { return claim[:max(0, strings.LastIndex(claim, "-"))] }

// checkStatus checks that the status of a NodeSync that is Ready is true.
func (c *checker) checkStatus(ctx context.Context) error {
	stale, lie, err := c.look(ctx)
	if err != nil {
		return nil //nolint:nilerr // the API server may be away, or the status another one by now; the next look tells
	}
	disturbed, quiet := c.faults.quietSince()
	return c.untruths.judge(stale, lie, time.Now(), disturbed, quiet)
}

// look compares the NodeSync's status with the actual definitions.
func (c *checker) look(ctx context.Context) (stale, lie string, err error) {
	before, err := c.sync(ctx)
	if err != nil {
		return "", "", err
	}
	live, err := c.live(ctx)
	if err != nil {
		return "", "", err
	}
	after, err := c.sync(ctx)
	if err != nil {
		return "", "", err
	}
	if after.GetResourceVersion() != before.GetResourceVersion() {
		return "", "", fmt.Errorf("the status of %s has changed meanwhile", syncName)
	}
	stale, lie = claimOf(before).untruth(c.history, live)
	return stale, lie, nil
}
