package plan_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestOnKubernetes: an alias may resolve to other AMIs for another version of the control plane, other terms do not.
func TestOnKubernetes(t *testing.T) {
	tagged := strings.Replace(class("default"), "amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023\n  amiSelectorTerms: [{tags: {a: b}}]", 1)
	moved := plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{amiOf("ami-amd64-new", "amd64"), amiOf("ami-arm64-new", "arm64")}}
	for name, test := range map[string]struct {
		live     string
		change   func(*drawnCluster)
		amis     plan.Resolved[awsv1.AMI]
		unasked  bool
		outcome  plan.AliasOutcome
		replaced int
		upTo     bool
		says     string
	}{
		"an alias that moves": {amis: moved, outcome: plan.AliasMoves, replaced: 2, says: "the alias resolves to ami-amd64-new, ami-arm64-new: Karpenter replaces 2 nodes at the pace of the budgets (AMIDrift)"},
		"of a node that terminates": {
			change: func(c *drawnCluster) { c.live.NodeClaims[0].Deleting = true },
			amis:   moved, outcome: plan.AliasMoves, replaced: 1, says: "Karpenter replaces 1 node at",
		},
		"of a node that is not launched": {
			change: func(c *drawnCluster) { c.live.NodeClaims[0].Image = "" },
			amis:   moved, outcome: plan.AliasMoves, replaced: 2, upTo: true, says: "Karpenter replaces up to 2 nodes at the pace of the budgets (AMIDrift); 1 NodeClaim: not launched yet",
		},
		"an alias that stays": {
			amis:    plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{amiOf("ami-amd64-old", "amd64"), amiOf("ami-arm64-new", "arm64")}},
			outcome: plan.AliasStays, says: "each node runs an AMI that the alias resolves to",
		},
		"a release that is not published": {
			live: withSelectors("ami al2023@v20250904"), amis: plan.Resolved[awsv1.AMI]{Empty: true, Unavailable: "AWS has no AMI"},
			outcome: plan.AliasUnpublished, says: "AWS publishes no AMI for alias al2023@v20250904 and Kubernetes 1.37: Karpenter launches nodes with the AMIs in the status of the class",
		},
		"a family that ends": {
			live: withSelectors("ami al2@latest"), amis: plan.Resolved[awsv1.AMI]{Unsupported: true, Unavailable: "AL2 aliases are no longer supported"},
			outcome: plan.AliasUnsupported, says: "Karpenter sets the class to AMIsReady=False and launches no node with it: AL2 aliases are no longer supported",
		},
		"AWS does not answer": {amis: plan.Resolved[awsv1.AMI]{Unavailable: "AWS throttles"}, outcome: plan.AliasUnknown, replaced: 3, upTo: true, says: "AWS throttles"},
		"AWS was not queried": {unasked: true, outcome: plan.AliasUnknown, says: "AWS was not queried"},
		"other terms":         {live: tagged, unasked: true, outcome: plan.AliasStays, says: "its amiSelectorTerms do not depend on the Kubernetes version: nodes keep their AMIs"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := resolvedWorld(t)
			if test.live != "" {
				c = newCluster(t)
				c.have(t, owner, test.live)
				other, _ := resolvedWorld(t)
				c.live.NodeClaims = other.live.NodeClaims
			}
			if test.change != nil {
				test.change(c)
			}
			c.live.Objects = plan.NewObjects(c.Objects())
			answers := map[render.Ref]plan.Answer{}
			for _, q := range c.live.AliasQuestions() {
				if q.Ref != classRef("default") || !q.AMIs || q.OfInstances() {
					t.Errorf("question %+v", q)
				}
				if !test.unasked {
					answers[q.Ref] = plan.Answer{AMIs: test.amis}
				}
			}
			got := c.live.OnKubernetes("1.37", answers)
			if len(got) != 1 {
				t.Fatalf("%+v", got)
			}
			f := got[0]
			if f.Class != "default" || f.Outcome != test.outcome || f.Replaced != test.replaced || f.UpTo != test.upTo || !strings.Contains(f.Message, test.says) {
				t.Errorf("%+v", f)
			}
			if diff := cmp.Diff([]string{"general"}, f.Pools); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAliasQuestions: AWS is queried for aliases, and for nothing that a Kubernetes version does not change.
func TestAliasQuestions(t *testing.T) {
	c := newCluster(t)
	tagged := strings.Replace(class("tagged"), "amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023\n  amiSelectorTerms: [{tags: {a: b}}]", 1)
	c.have(t, owner, class("second"), tagged, class("first"), pool("general", "first"))
	c.live.Objects = plan.NewObjects(c.Objects())
	var got []string
	for _, q := range c.live.AliasQuestions() {
		got = append(got, q.Ref.Name)
	}
	if diff := cmp.Diff([]string{"first", "second"}, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	var nodes []int
	for _, f := range c.live.OnKubernetes("1.37", nil) {
		nodes = append(nodes, f.Nodes)
	}
	if diff := cmp.Diff([]int{0, 0, 0}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
