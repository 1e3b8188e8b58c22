package removal

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveKeepsRemovalsApart checks that a removal that cannot be queried or observed does not block others.
func TestDriveKeepsRemovalsApart(t *testing.T) {
	long := strings.Repeat("a", 64) // not a label value: Karpenter never launches a node
	stopped := func() map[string]any { return map[string]any{"limits": map[string]any{"cpu": "0"}} }
	cases := map[string]struct {
		kind, name string
		prepare    func(*stage)
		says       string
	}{
		"a name that no NodeClaim can have": {kind: render.NodePool, name: long, prepare: func(*stage) {}},
		"a kind of a later version":         {kind: "NodeGroup", name: "batch", prepare: func(*stage) {}, says: "does not support the kind"},
		"a provider ID that is none of AWS": {kind: render.NodePool, name: "odd", says: "kwok://odd", prepare: func(s *stage) {
			s.launch("odd", "odd", "odd-uid")
			claims := s.claims()
			claims[0].Status.ProviderID = "kwok://odd"
			if err := s.client.Update(s.t.Context(), &claims[0]); err != nil {
				s.t.Fatal(err)
			}
			s.instances = nil
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, pool("spot", "spot-uid", stopped()), pool(c.name, "odd-uid", stopped()))
			c.prepare(s)
			s.find(c.kind, c.name, "odd-uid")
			s.find(render.NodePool, "spot", "spot-uid")
			for range 3 {
				s.pass()
			}
			claims := s.claims()
			for i := range claims {
				claims[i].Finalizers = nil
				if err := s.client.Update(t.Context(), &claims[i]); err != nil {
					t.Fatal(err)
				}
				if claims[i].DeletionTimestamp == nil {
					if err := s.client.Delete(t.Context(), &claims[i], preconditions(claims[i].UID, claims[i].ResourceVersion)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 4 {
				s.pass()
			}
			if s.exists(pool("spot", "", nil)) {
				t.Errorf("the other removal stands still: %+v", s.sync.Status.Removals)
			}
			if c.says == "" {
				return
			}
			if open := s.sync.Status.Removals; len(open) != 1 || open[0].UID != types.UID("odd-uid") || !strings.Contains(open[0].Message, c.says) {
				t.Errorf("removals: %+v, want one that says %q", open, c.says)
			}
		})
	}
}

// TestAThrottleHidesNoInstance checks that temporary throttling does not hide running instances.
func TestAThrottleHidesNoInstance(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.find(render.NodePool, "batch", "batch-uid")
	s.instances["i-x"] = instanceOf("i-x", "batch")
	says := func(what, reason, message string) {
		t.Helper()
		if r := s.sync.Status.Removals[0]; r.Reason != reason || r.Message != message {
			t.Errorf("%s: %s %q, want %s %q", what, r.Reason, r.Message, reason, message)
		}
	}
	lives := "EC2 has not terminated all instances yet: i-x (running)"
	s.pass()
	s.pass()
	says("it is shown", ReasonInstancesLeaving, lives)
	s.silence = errors.New("AWS throttles ec2:DescribeInstances")
	for range 3 {
		s.pass()
		says("no answer", ReasonInstancesLeaving, lives+"; EC2 has not answered since: AWS throttles ec2:DescribeInstances")
	}
	s.silence = nil
	s.pass()
	says("an answer", ReasonInstancesLeaving, lives)
	if r := s.sync.Status.Removals[0]; r.Phase != v1alpha1.RemovalVerifyingCloud {
		t.Errorf("removal %+v", r)
	}
}
