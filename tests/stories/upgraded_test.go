package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var errUpgradedUsage = errors.New("usage: upgraded [-t D] NODESYNC VERSION")

// upgradedCommand is `upgraded NODESYNC VERSION`: it waits until a change of the charts is complete, and prints how
// long each step took.
func (s *story) upgradedCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	if len(args) != 2 {
		return errUpgradedUsage
	}
	what, version := "nodesync/"+args[0], args[1]
	ready, err := s.expectation(what, []string{"Ready=True"})
	if err != nil {
		return err
	}
	way := &chartSteps{now: "Checking", since: time.Now()}
	err = s.poll(timeout, func(ctx context.Context) error {
		sync, err := s.get(ctx, what)
		if err != nil {
			return err
		}
		target, _, _ := unstructured.NestedString(sync.Object, "status", "karpenter", "target", "step")
		way.see(target, time.Now())
		if err := ready.unmet(sync); err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(sync.Object, "status", "karpenter", "version"); is != version || target != "" {
			return fmt.Errorf("Karpenter %s is in force, and the target is at step %q", is, target)
		}
		return s.c.Leads(ctx, version)
	})
	fmt.Fprintf(os.Stderr, "upgraded: %s to %s: %s\n", args[0], version, way.end(time.Now()))
	return err
}

// chartSteps are the steps in which a change of the charts was observed, and their durations. A step between two
// observations counts to the one before it.
type chartSteps struct {
	now   string
	since time.Time
	took  []string
	all   time.Duration
}

// see records the step in a status; empty before the change has started, and after it is complete.
func (c *chartSteps) see(step string, at time.Time) {
	if step == "" && c.now != "Checking" {
		step = "the rest"
	}
	if step == "" || step == c.now {
		return
	}
	c.all += at.Sub(c.since)
	c.took = append(c.took, fmt.Sprintf("%s %.1fs", c.now, at.Sub(c.since).Seconds()))
	c.now, c.since = step, at
}

// end returns a summary of all steps.
func (c *chartSteps) end(at time.Time) string {
	c.see("end", at)
	return fmt.Sprintf("%.1fs (%s)", c.all.Seconds(), strings.Join(c.took, ", "))
}
