package plan_test

import (
	"fmt"
	"maps"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const bundle = "authorities"

// notes returns Karpenter's annotations with its hash of a definition.
func (c *drawnCluster) notes(t *testing.T, text string) map[string]string {
	t.Helper()
	object := c.Definition(t, text).Defaulted
	notes := map[string]string{}
	read := func(into any) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	if object.GetKind() == "NodePool" {
		typed := &karpv1.NodePool{}
		read(typed)
		notes[karpv1.NodePoolHashAnnotationKey], notes[karpv1.NodePoolHashVersionAnnotationKey] = typed.Hash(), karpv1.NodePoolHashVersion
	} else {
		typed, authorities := &awsv1.EC2NodeClass{}, bundle
		read(typed)
		notes[awsv1.AnnotationEC2NodeClassHash], notes[awsv1.AnnotationEC2NodeClassHashVersion] = typed.Hash(&authorities), awsv1.EC2NodeClassHashVersion
	}
	return notes
}

// TestWhatMatchesACommitAlreadyIsNotTouched: a commit is reverted after Karpenter has replaced one of five nodes; the
// guard allows the revert, because it replaces only that one.
func TestWhatMatchesACommitAlreadyIsNotTouched(t *testing.T) {
	changed := class("default", "userData: hello")
	for name, test := range map[string]struct {
		live, git []string
		madeBy    []string
		other     bool
		want      string
	}{
		"a NodePool": {
			live: []string{class("default"), tainted("general")}, git: []string{class("default"), pool("general", "default")},
			madeBy: []string{pool("general", "default"), tainted("general")},
			want:   "Update NodePool/general Differs replaces 1 NodePoolDrifted",
		},
		"an EC2NodeClass": {
			live: []string{changed, pool("general", "default")}, git: []string{class("default"), pool("general", "default")},
			madeBy: []string{class("default"), changed},
			want:   "Update EC2NodeClass/default Differs replaces 1 NodeClassDrift",
		},
		"an EC2NodeClass in a cluster whose authorities are not known": {
			live: []string{changed, pool("general", "default")}, git: []string{class("default"), pool("general", "default")},
			madeBy: []string{class("default"), changed}, other: true,
			want: "Hold EC2NodeClass/default MaxDisruptedNodes replaces 5 NodeClassDrift",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.CABundle = bundle
			if test.other {
				c.policy.CABundle = "others"
			}
			c.have(t, owner, test.live...)
			for _, text := range test.live {
				c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, text)) })
			}
			c.live.NodeClaims = claims("general", 5)
			for i := range c.live.NodeClaims {
				made := test.madeBy[0]
				if i == 0 {
					made = test.madeBy[1]
				}
				notes := c.notes(t, made)
				maps.Copy(notes, map[string]string{"other": "annotation"})
				c.live.NodeClaims[i].Hashes = plan.HashesOf(notes)
			}
			changes := c.plan(t, test.git...).Changes
			if len(changes) != 1 {
				t.Fatalf("%+v", changes)
			}
			change := changes[0]
			got := effectOf(change)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func effectOf(change plan.Change) string {
	text := fmt.Sprintf("%s %s %s replaces %d", change.Action, change.Ref, change.Reason, change.Nodes)
	for _, reason := range change.DriftReasons {
		text += " " + reason
	}
	return text
}

// TestNodeClaimsWithoutAHashAreCounted: a commit that changes the hash starts a rollout for them too, and the Change
// reports that Karpenter may never detect some.
func TestNodeClaimsWithoutAHashAreCounted(t *testing.T) {
	for _, without := range []bool{false, true} {
		c := newCluster(t)
		c.policy.CABundle = bundle
		c.have(t, owner, class("default"), pool("general", "default"))
		notes := c.notes(t, pool("general", "default"))
		c.Edit(t, poolRef("general"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
		c.live.NodeClaims = claims("general", 1)
		if !without {
			c.live.NodeClaims[0].Hashes = plan.HashesOf(notes)
		}
		changes := c.plan(t, class("default"), tainted("general")).Changes
		if len(changes) != 1 || changes[0].Nodes != 1 || changes[0].UpTo || changes[0].Uncomparable() != without {
			t.Errorf("without a hash %v: %+v", without, changes)
		}
	}
}
