package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// shows is an EC2 whose instances are in a security group, and the number of its queries.
type shows struct {
	group string
	err   error
	asked int
}

func (s *shows) TerminationProtected(context.Context, string) (bool, error) { return true, s.err }

func (s *shows) Instances(_ context.Context, query cloud.Query) (found []cloud.Instance, err error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	for _, id := range query.ProviderIDs {
		_, instance, err := cloud.ParseProviderID(id)
		if err != nil {
			return nil, err
		}
		found = append(found, cloud.Instance{ID: instance, Zone: "eu-west-1a", SecurityGroups: []string{s.group}})
	}
	return found, nil
}

// retagged returns nodes of two pools whose class selects one more security group.
func retagged(n int) plan.Live {
	class := plan.NewObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default"},
		"status": map[string]any{"securityGroups": []any{map[string]any{"id": "sg-2"}, map[string]any{"id": "sg-1"}}},
	}})
	live := plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.EC2NodeClass, Name: "default"}: class}}
	for i := range n {
		c := drifted(fmt.Sprintf("%03d", i), []string{"a", "b"}[i%2], false)
		c.Class, c.DriftReason, c.ProviderID = "default", "SecurityGroupDrift", fmt.Sprintf("aws:///eu-west-1a/i-%08x", i)
		live.NodeClaims = append(live.NodeClaims, c)
	}
	return live
}

// TestInputsThatOnlyEC2Knows shows that EC2 is queried once about each instance, or once a minute while it does not
// answer; until then, the inputs are reported as unknown, with the reason.
func TestInputsThatOnlyEC2Knows(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ec2, memory := &shows{group: "sg-1", err: errors.New("AWS denies ec2:DescribeInstances")}, &rollout.Memory{}
	var before *v1alpha1.Rollout
	look := func(after time.Duration, n int) *rollout.Rollouts {
		t.Helper()
		live := retagged(n)
		r := &rollout.Rollouts{
			Live: live, Pools: []rollout.Pool{pool("a"), pool("b")}, Classes: []*plan.Object{live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: "default"}]},
			EC2: func(context.Context) (rollout.EC2, error) { return ec2, nil }, Before: before, Reported: before, Now: now.Add(after), Memory: memory, Events: &spoken{},
		}
		before = r.Look(t.Context()).Rollout
		return r
	}
	wants := func(asked int, want string) {
		t.Helper()
		if got := rollout.Uncommitted(*before); got != want || ec2.asked != asked {
			t.Errorf("asked %d times, want %d: %s", ec2.asked, asked, got)
		}
	}
	r := look(0, 2)
	wants(1, "SecurityGroupDrift: inputs unknown: AWS denies ec2:DescribeInstances")
	if r.WakeAt.IsZero() || r.WakeAt.After(now.Add(time.Minute)) {
		t.Errorf("the next look is wanted at %s", r.WakeAt)
	}
	look(30*time.Second, 2)
	wants(1, "SecurityGroupDrift: inputs unknown: AWS denies ec2:DescribeInstances")
	ec2.err = nil
	look(time.Minute, 2)
	wants(2, "SecurityGroupDrift: sg-1 → sg-1, sg-2")
	if len(before.Inputs) != 2 || before.Inputs[0].Pool != "a" || before.Inputs[1].Pool != "b" {
		t.Errorf("by pool: %+v", before.Inputs)
	}
	look(2*time.Minute, 3)
	wants(3, "SecurityGroupDrift: sg-1 → sg-1, sg-2")
	look(3*time.Minute, 3)
	wants(3, "SecurityGroupDrift: sg-1 → sg-1, sg-2")
	look(4*time.Minute, 0) // its tags are unchanged, and the groups of an instance are edited meanwhile
	ec2.group, before = "sg-9", nil
	look(5*time.Minute, 2)
	wants(4, "SecurityGroupDrift: sg-9 → sg-1, sg-2")
	look(6*time.Minute, 300)
	if ec2.asked != 5 || !strings.Contains(rollout.Uncommitted(*before), "inputs unknown: EC2 was not queried for its instance") {
		t.Errorf("of 300: asked %d times: %s", ec2.asked, rollout.Uncommitted(*before))
	}
}

// TestACommitsRolloutHasNoInputs shows that EC2 is not queried: the commit has what has outdated its nodes.
func TestACommitsRolloutHasNoInputs(t *testing.T) {
	ec2, live := &shows{group: "sg-1"}, retagged(1)
	before := &v1alpha1.Rollout{Revision: "main@sha1:1", Nodes: 1, Outdated: 1, Inputs: []v1alpha1.DriftInput{{Pool: "a"}}}
	r := rollout.Rollouts{
		Live: live, Pools: []rollout.Pool{pool("a")}, EC2: func(context.Context) (rollout.EC2, error) { return ec2, nil },
		Before: before, Reported: before, Now: time.Now(), Memory: &rollout.Memory{}, Events: &spoken{},
	}
	if got := r.Look(t.Context()).Rollout; got == nil || got.Inputs != nil || ec2.asked != 0 {
		t.Errorf("asked %d times: %+v", ec2.asked, got)
	}
}
