package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// taggedBy are the tags that a bootstrap of cluster prod sets.
var taggedBy = map[string]string{"karpenter.sh/discovery": "prod", "plumbline.dev/bootstrap": "plumbline-prod"}

// TestBootstrapDiscoveryTags: only with the flag, and only where no other tool has tagged for the cluster; a second run has
// nothing to do, and the undo deletes only what the bootstrap has set.
func TestBootstrapDiscoveryTags(t *testing.T) {
	theirs := map[string]string{"karpenter.sh/discovery": "prod", "Name": "b"}
	aws := &bootstrapAWS{tags: map[string]map[string]string{"subnet-2": theirs, "sg-1": {"Name": "c"}}}
	b, out, said := bootstraps(t, aws, nil)
	facts, err := b.stack.Read(t.Context(), aws, "prod", wished())
	if err != nil {
		t.Fatal(err)
	}
	spec, _, err := bootstrap.Decide(wished(), facts)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() bootstrapStep {
		t.Helper()
		step, err := b.tagStep(t.Context(), facts.Cluster, spec)
		if err != nil {
			t.Fatal(err)
		}
		return step
	}
	if step := plan(); step.plan != "" {
		t.Errorf("without the flag: %s", step.plan)
	}
	b.discoveryTags = true
	step := plan()
	if step.plan != "set karpenter.sh/discovery=prod on subnet-1, sg-1" {
		t.Errorf("plan %q", step.plan)
	}
	if err := step.act(t.Context()); err != nil {
		t.Fatal(err)
	}
	if step := plan(); step.plan != "" {
		t.Errorf("again: %s", step.plan)
	}
	made, err := b.made(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sg-1", "subnet-1"}, made.tagged); diff != "" {
		t.Errorf("tagged (-want +got):\n%s", diff)
	}
	b.showUndo(made)
	if err := b.delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "deleting the tags karpenter.sh/discovery and plumbline.dev/bootstrap of sg-1, subnet-1") ||
		!strings.Contains(said.String(), "deleting the discovery tags of 2 subnets and security groups") {
		t.Errorf("printed %s, said %s", out, said)
	}
	want := map[string]map[string]string{"subnet-1": {}, "subnet-2": {"karpenter.sh/discovery": "prod", "Name": "b"}, "sg-1": {"Name": "c"}}
	if diff := cmp.Diff(want, aws.tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestBootstrapUndoFindsTagsWithoutAStack: an undo that was killed before it deleted the tags, or a stack that was deleted by
// another tool, leaves them behind for the next run.
func TestBootstrapUndoFindsTagsWithoutAStack(t *testing.T) {
	aws := &bootstrapAWS{tags: map[string]map[string]string{"subnet-1": taggedBy}, instances: []cloud.Instance{{ID: "i-1"}}}
	b, _, said := bootstraps(t, aws, nil)
	if err := b.undoAll(t.Context()); err == nil || !strings.Contains(err.Error(), "in use by 1 instances") {
		t.Errorf("got %v", err)
	}
	aws.tags = nil
	if err := b.undoAll(t.Context()); err != nil || !strings.Contains(said.String(), "stack plumbline-prod does not exist") {
		t.Errorf("got %v, said %s", err, said)
	}
}
