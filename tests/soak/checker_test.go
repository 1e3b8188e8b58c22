package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

func TestForbidden(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	h := &history{}
	pushed(h, "1", fleet{pools: map[string]pool{"a": {}, "b-c": {}, "gone": {}}, classes: map[string]class{"x": {}}}, now.Add(-time.Hour), now.Add(-time.Hour))
	pushed(h, "2", fleet{pools: map[string]pool{"a": {}, "b-c": {}}, classes: map[string]class{"x": {}}}, now.Add(-30*time.Second), now.Add(-30*time.Second))
	l := &lives{}
	instance := awssim.Instance{ID: "i-1", Tags: map[string]string{poolTag: "full"}}
	l.note(awssim.Event{Kind: awssim.Launched, Instance: instance}, now.Add(-time.Minute))
	l.note(awssim.Event{Kind: awssim.ShuttingDown, Instance: instance}, now.Add(-time.Second))
	for name, test := range map[string]struct {
		resource, name string
		want           string
	}{
		"a pool that Git has":           {nodePools, "a", "each HEAD"},
		"a pool that has left":          {nodePools, "gone", ""},
		"one whose instance runs":       {nodePools, "full", "goes last"},
		"a NodeClaim of a pool Git has": {nodeClaims, "b-c-x7k2p", "each HEAD"},
		"a NodeClaim of one that left":  {nodeClaims, "gone-x7k2p", ""},
		"a class that Git has":          {nodeClasses, "x", "each HEAD"},
		"a class that Git never had":    {nodeClasses, "y", ""},
		"a CRD":                         {"customresourcedefinitions", "nodepools.karpenter.sh", "never"},
		"Karpenter's Deployment":        {"deployments", "karpenter", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			got := forbidden(kube.Write{Resource: test.resource, Name: test.name, Time: now}, h, l)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	l.note(awssim.Event{Kind: awssim.Terminated, Instance: instance}, now)
	if got := forbidden(kube.Write{Resource: nodePools, Name: "full", Time: now.Add(time.Second)}, h, l); got != "" {
		t.Errorf("a pool whose instance has ended must not go: %s", got)
	}
}
