package plan_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAnAliasThatAWSDoesNotPublish is held, whether nodes run or not, and a NodePool waits if it references a class
// that is not created because of this. A failed query holds nothing.
func TestAnAliasThatAWSDoesNotPublish(t *testing.T) {
	const held = "AWS publishes no AMI for alias al2023@v20261115 of EC2NodeClass/default, so no node could be launched"
	empty := plan.Resolved[awsv1.AMI]{Empty: true, Unavailable: "AWS has no AMI"}
	failed := plan.Resolved[awsv1.AMI]{Unavailable: "AWS throttles ssm:GetParameter; plumbline retries"}
	found := plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{amiOf("ami-1", "amd64")}}
	bad := withSelectors("ami al2023@v20261115")
	for name, test := range map[string]struct {
		live  []string
		git   string
		amis  plan.Resolved[awsv1.AMI]
		nodes int
		asked bool
		want  map[render.Ref]string // action, and how the message starts
	}{
		"a class that is new": {nil, bad, empty, 0, true, map[render.Ref]string{classRef("default"): "Hold " + held, poolRef("general"): "Wait NodePool/general references EC2NodeClass/default, which could not be created: " + held}},
		"without nodes":       {[]string{class("default"), pool("general", "default")}, bad, empty, 0, true, map[render.Ref]string{classRef("default"): "Hold " + held}},
		"with nodes":          {[]string{class("default"), pool("general", "default")}, bad, empty, 3, true, map[render.Ref]string{classRef("default"): "Hold " + held}},
		"AWS does not answer": {[]string{class("default"), pool("general", "default")}, bad, failed, 0, true, map[render.Ref]string{classRef("default"): "Update "}},
		"it is published":     {[]string{class("default"), pool("general", "default")}, bad, found, 0, true, map[render.Ref]string{classRef("default"): "Update "}},
		"another field":       {[]string{bad, pool("general", "default")}, strings.Replace(bad, "  role:", "  userData: hello\n  role:", 1), empty, 0, false, map[render.Ref]string{classRef("default"): "Update "}},
		"by tags":             {[]string{class("default"), pool("general", "default")}, strings.Replace(class("default"), "amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023\n  amiSelectorTerms: [{tags: {a: b}}]", 1), empty, 0, false, map[render.Ref]string{classRef("default"): "Update "}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, test.live...)
			c.live.NodeClaims = claims("general", test.nodes, func(*plan.NodeClaim) {})
			c.policy.Answers = map[render.Ref]plan.Answer{classRef("default"): {AMIs: test.amis}}
			planned := c.plan(t, test.git, pool("general", "default"))
			if asked := planned.Questions(); (len(asked) == 1 && asked[0].AMIs) != test.asked {
				t.Errorf("AWS is asked %+v", asked)
			}
			if len(planned.Changes) != len(test.want) {
				t.Errorf("changes %+v", planned.Changes)
			}
			for i := range planned.Changes {
				ch := &planned.Changes[i]
				if got := string(ch.Action) + " " + ch.Message; !strings.HasPrefix(got, test.want[ch.Ref]) {
					t.Errorf("%s: %q, want %q", ch.Ref, got, test.want[ch.Ref])
				}
				if ch.Action == plan.Hold && (ch.Nodes != 0 || len(ch.NodeClaims()) != 0 || ch.Effect != plan.EffectBlocked) {
					t.Errorf("%s is held, and touches %d nodes (%s)", ch.Ref, ch.Nodes, ch.Effect)
				}
			}
		})
	}
}

// TestAPoolThatMovesToAClassWithoutAMIs is held like the class, which the commit does not change, and nobody asks about a class
// whose AMIs Karpenter has resolved.
func TestAPoolThatMovesToAClassWithoutAMIs(t *testing.T) {
	other := strings.Replace(withSelectors("ami al2023@v20261115"), "{name: default}", "{name: other}", 1)
	const held = "Hold NodePool/general: AWS publishes no AMI for alias al2023@v20261115 of EC2NodeClass/other, so no node could be launched"
	for name, test := range map[string]struct {
		live     []string
		resolved bool
		git      []string
		amis     plan.Resolved[awsv1.AMI]
		asked    bool
		want     string
	}{
		"another class":          {live: []string{class("default"), other, pool("general", "default")}, git: []string{class("default"), other, pool("general", "other")}, amis: plan.Resolved[awsv1.AMI]{Empty: true}, asked: true, want: held},
		"a pool that is new":     {live: []string{other}, git: []string{other, pool("general", "other")}, amis: plan.Resolved[awsv1.AMI]{Empty: true}, asked: true, want: held},
		"it is published":        {live: []string{other}, git: []string{other, pool("general", "other")}, amis: plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{amiOf("ami-1", "amd64")}}, asked: true, want: "Create "},
		"Karpenter has resolved": {live: []string{other}, resolved: true, git: []string{other, pool("general", "other")}, amis: plan.Resolved[awsv1.AMI]{Empty: true}, want: "Create "},
		"the same class":         {live: []string{other, pool("general", "other")}, git: []string{other, strings.Replace(pool("general", "other"), "spec:", "spec:\n  weight: 2", 1)}, amis: plan.Resolved[awsv1.AMI]{Empty: true}, want: "Update "},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, test.live...)
			if test.resolved {
				c.resolve(t, "other", "ami-1")
			}
			c.policy.Answers = map[render.Ref]plan.Answer{classRef("other"): {AMIs: test.amis}}
			planned := c.plan(t, test.git...)
			if asked := planned.Questions(); (len(asked) == 1 && asked[0].AMIs && asked[0].Ref == classRef("other")) != test.asked {
				t.Errorf("AWS is asked %+v", asked)
			}
			if len(planned.Changes) != 1 || !strings.HasPrefix(string(planned.Changes[0].Action)+" "+planned.Changes[0].Message, test.want) {
				t.Errorf("changes %+v, want %q", planned.Changes, test.want)
			}
		})
	}
}

// TestReservedThatLeave: those of pools whose nodes Karpenter replaces as they leave.
func TestReservedThatLeave(t *testing.T) {
	claim := func(name, pool, capacity string, deleting bool) plan.NodeClaim {
		return plan.NodeClaim{Name: name, Node: "node-" + name, Pool: pool, Deleting: deleting, Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: capacity})}
	}
	live := plan.Live{NodeClaims: []plan.NodeClaim{
		claim("c", "general", karpv1.CapacityTypeReserved, false), claim("a", "general", karpv1.CapacityTypeReserved, false),
		claim("b", "general", karpv1.CapacityTypeReserved, true), claim("d", "general", karpv1.CapacityTypeSpot, false),
		claim("e", "batch", karpv1.CapacityTypeReserved, false),
	}}
	leaves := plan.Candidate{Ref: render.Ref{Kind: render.NodePool, Name: "general"}}
	orphan, last := leaves, leaves
	orphan.Orphan, last.Last = true, true
	for name, c := range map[string]struct {
		removal  plan.Candidate
		strategy v1alpha1.RemovalStrategy
		want     []string
	}{
		"by default":                    {removal: leaves, want: []string{"node-a", "node-c"}},
		"paced":                         {removal: leaves, strategy: v1alpha1.RemovalPaced, want: []string{"node-a", "node-c"}},
		"without replacements":          {removal: leaves, strategy: v1alpha1.RemovalAtOnce},
		"left to itself":                {removal: orphan},
		"nothing is there to take them": {removal: last},
		"an EC2NodeClass":               {removal: plan.Candidate{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "general"}}},
	} {
		if diff := cmp.Diff(c.want, live.ReservedThatLeave([]plan.Candidate{c.removal}, v1alpha1.RemovalPolicy{Strategy: c.strategy})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for want, nodes := range map[string][]string{
		"": nil,
		"reserved capacity: if the reservation is full, Karpenter terminates node a before its replacement is launched (feature gate TerminateFirstDrift)":                       {"a"},
		"reserved capacity: if the reservation is full, Karpenter terminates nodes a, b, c and others before their replacements are launched (feature gate TerminateFirstDrift)": {"a", "b", "c", "d"},
	} {
		if got := plan.TerminatedFirst(nodes); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
