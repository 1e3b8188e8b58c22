package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/hashv5"
)

const bundle = "authorities"

// notes returns Karpenter's annotations with its hash of a definition, in the version of the linked library.
func (c *drawnCluster) notes(t *testing.T, text string) map[string]string {
	t.Helper()
	return c.notesIn(t, awsv1.EC2NodeClassHashVersion, text)
}

// notesIn is like notes, in a hash version of EC2NodeClasses.
func (c *drawnCluster) notesIn(t *testing.T, version, text string) map[string]string {
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
		sum := typed.Hash(&authorities)
		if version == hashv5.Version {
			var err error
			if sum, err = hashv5.Hash(object.Object["spec"].(map[string]any), typed.AMIFamily(), bundle); err != nil {
				t.Fatal(err)
			}
		}
		notes[awsv1.AnnotationEC2NodeClassHash], notes[awsv1.AnnotationEC2NodeClassHashVersion] = sum, version
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
		"an EC2NodeClass with an empty map in Git, which is not written": {
			live:   []string{class("default"), pool("general", "default")},
			git:    []string{class("default", "userData: hello", "tags: {}"), pool("general", "default")},
			madeBy: []string{changed, class("default")},
			want:   "Update EC2NodeClass/default Differs replaces 1 NodeClassDrift",
		},
		"a NodePool with an empty map in Git, which is not written": {
			live:   []string{class("default"), pool("general", "default")},
			git:    []string{class("default"), strings.Replace(tainted("general"), "    spec:", "    metadata: {labels: {}}\n    spec:", 1)},
			madeBy: []string{tainted("general"), pool("general", "default")},
			want:   "Update NodePool/general Differs replaces 1 NodePoolDrifted",
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

// TestEachHashVersion: under Karpenter 1.14 and 1.15, plumbline knows exactly which nodes a change of an EC2NodeClass
// replaces, and which do not match it afterwards. Under an older one, which hashes in another way, it counts all.
func TestEachHashVersion(t *testing.T) {
	soft := func(grace string) string {
		return class("default", "kubelet: {evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: "+grace+"}}")
	}
	const older = "Replace [general-0 general-1] up to: this Karpenter uses hash version v4 for EC2NodeClasses, and this plumbline computes v6 and v5"
	for name, test := range map[string]struct {
		live, git string
		want      map[string]string
	}{
		"user data": {
			class("default"), class("default", "userData: hello"),
			map[string]string{"v6": "Replace [general-0 general-1] exact NodeClassDrift", "v5": "Replace [general-0 general-1] exact NodeClassDrift", "v4": older},
		},
		"maxPods": {
			class("default", "kubelet: {maxPods: 40}"), class("default", "kubelet: {maxPods: 50}"),
			map[string]string{"v6": "Replace [general-0 general-1] exact NodeClassDrift", "v5": "Replace [general-0 general-1] exact NodeClassDrift", "v4": older},
		},
		"a duration in another form, which only v6 hashes as text": {
			soft("90s"), soft("1m30s"),
			map[string]string{"v6": "Replace [general-0 general-1] exact NodeClassDrift", "v5": ""},
		},
		"an expression, which Karpenter 1.14 cannot read": {
			class("default"), class("default", "kubelet: {maxPods: vcpus * 10}"),
			map[string]string{
				"v6": "Replace [general-0 general-1] exact NodeClassDrift",
				"v5": "Replace [general-0 general-1] up to: spec.kubelet has a value that a Karpenter with hash version v5 cannot read",
			},
		},
	} {
		for version, want := range test.want {
			t.Run(name+" "+version, func(t *testing.T) {
				c := newCluster(t)
				c.policy.CABundle = bundle
				c.have(t, owner, test.live, pool("general", "default"))
				notes := c.notesIn(t, version, test.live)
				c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
				c.live.NodeClaims = claims("general", 2)
				for i := range c.live.NodeClaims {
					c.live.NodeClaims[i].Hashes = plan.HashesOf(notes)
				}
				got := ""
				if changes := c.plan(t, test.git, pool("general", "default")).Changes; len(changes) > 0 {
					got = nodesOf(&changes[0])
				}
				if got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
	}
}

// TestMatchInEachHashVersion: nodes are compared with the hash in the version that the controller annotates, before it
// has updated the annotation.
func TestMatchInEachHashVersion(t *testing.T) {
	for _, version := range []string{awsv1.EC2NodeClassHashVersion, hashv5.Version} {
		c := newCluster(t)
		c.have(t, owner, class("default"), class("other", "userData: hello"), pool("general", "default"))
		made := c.notesIn(t, version, class("default"))
		for _, name := range []string{"default", "other"} {
			noted := c.notesIn(t, version, class("default"))
			c.Edit(t, classRef(name), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(noted) })
			c.resolve(t, name, "ami-1")
		}
		live := plan.Live{Objects: plan.NewObjects(c.Objects())}
		for _, of := range []string{"default", "other"} {
			live.NodeClaims = append(live.NodeClaims, plan.NodeClaim{
				Name: of, UID: types.UID(of), Class: of, ProviderID: "aws:///a/i-" + of, Image: "ami-1", Hashes: plan.HashesOf(made),
				Labels: plan.PackLabels(map[string]string{"kubernetes.io/arch": "amd64"}),
			})
		}
		m := plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: &plan.MatchMemory{}}
		found := m.Outdated([]*plan.Object{live.Objects[classRef("default")], live.Objects[classRef("other")]})
		if got := strings.Join(matched(found), " "); got != "NodeClassDrift" || found.Outdated[0].Claim.Name != "other" {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestNodePoolsHashAsInKarpenter1_14: the linked library computes the recorded hashes of 1.14.3 in the same version, so
// that predictions for it are exact.
func TestNodePoolsHashAsInKarpenter1_14(t *testing.T) {
	text, err := os.ReadFile("hashv5/testdata/nodepools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var recorded struct {
			Spec          karpv1.NodePoolSpec
			Version, Hash string
		}
		if err := json.Unmarshal(line, &recorded); err != nil {
			t.Fatal(err)
		}
		pool := karpv1.NodePool{Spec: recorded.Spec}
		if got := pool.Hash(); got != recorded.Hash || recorded.Version != karpv1.NodePoolHashVersion {
			t.Errorf("line %d: %s %s, want %s %s", i+1, karpv1.NodePoolHashVersion, got, recorded.Version, recorded.Hash)
		}
	}
}
