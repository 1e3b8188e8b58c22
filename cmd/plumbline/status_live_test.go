package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestWatch: in a pipe, each change is one line, and Ctrl-C stops it without an error.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
		// rolls is the number of nodes that a rollout replaces at the end.
		rolls int32
	}{
		"get":          {[]string{"get"}, `^NAME +READY .*\nother +Unknown .*\nprod +Unknown .*\nprod +True .*\n$`, 0},
		"get of one":   {[]string{"get", "nodesync/prod"}, `^NAME .*\nprod +Unknown .*\nprod +True .*\n$`, 0},
		"status":       {[]string{"status", "prod"}, `^\d\d:\d\d:\d\dZ nodesync/prod: waiting for Controller: .*\n\d\d:\d\d:\d\dZ nodesync/prod: in sync: applied, Ready, .*\n$`, 0},
		"a rollout":    {[]string{"status", "prod"}, `^.* nodesync/prod: waiting for Controller: .*\n.*Z nodesync/prod: rolling out: 0 of 3 nodes replaced\n$`, 3},
		"get of all":   {[]string{"get", "-A"}, `^NAMESPACE .*\nfleet +other .*\nfleet +prod +Unknown .*\nfleet +prod +True .*\n$`, 0},
		"get, and URL": {[]string{"get", "prod", "-o", "wide"}, `^NAME .* URL .*\nprod .*\nprod .*\n$`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			at := func(name, version string) *v1alpha1.NodeSync {
				sync := verdicts()[name]
				if sync.ResourceVersion = version; version == "8" && c.rolls > 0 {
					rollsOut(v1alpha1.ReasonRollingOut, fmt.Sprintf("0 of %d nodes replaced", c.rolls))(sync)
				}
				return sync
			}
			s, kubeconfig := serve(t, at("waiting", "5"), nodeSync("other", func(n *v1alpha1.NodeSync) { n.ResourceVersion = "6" }))
			s.watched = func(s *apiServer, since string) *v1alpha1.NodeSync {
				if since != "7" {
					t.Errorf("watches since %q", since)
				}
				if s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).ResourceVersion == "8" {
					interrupt()
					return nil
				}
				s.objects[syncPath+"prod"] = at("in-sync", "8")
				return at("in-sync", "8")
			}
			got := plumblineIn(ctx, append(c.args, "--watch", "--kubeconfig", kubeconfig)...)
			if got.code != exitDone || got.err != "" || !regexp.MustCompile(c.want).MatchString(got.out) {
				t.Errorf("code %d, says %q, prints\n%s", got.code, got.err, got.out)
			}
		})
	}
	_, kubeconfig := serve(t, verdicts()["in-sync"])
	if got := plumbline(t, "status", "absent", "--watch", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "NodeSync absent does not exist") {
		t.Errorf("of none: code %d: %s", got.code, got.err)
	}
}

// TestAStateIsSaidOnce: it is not repeated before a message that starts with it.
func TestAStateIsSaidOnce(t *testing.T) {
	for want, of := range map[string][2]string{
		"removing NodePool/batch: 1 of 3": {"removing", "removing NodePool/batch: 1 of 3"},
		"in sync: applied":                {"in sync", "applied"},
	} {
		if got := stateWith(summary.State(of[0]), of[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
