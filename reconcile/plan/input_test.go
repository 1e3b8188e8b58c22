package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestInput: what a node has and what its definitions call for, for each of Karpenter's reasons; what
// is on no object is not known, and said to be.
func TestInput(t *testing.T) {
	running := plan.Running{Subnet: "subnet-1", SecurityGroups: []string{"sg-2", "sg-1"}}
	for name, test := range map[string]struct {
		reason  string
		change  func(*plan.NodeClaim)
		pool    string
		running plan.Running
		unknown string
		want    plan.Input
	}{
		"an alias that moved":   {reason: "AMIDrift", want: plan.Input{From: "ami-1", To: "ami-2 (al2023@latest)"}},
		"one that moved back":   {reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Image = "ami-2" }, want: plan.Input{From: "ami-2", To: "ami-2"}},
		"no AMI for its labels": {reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Labels = plan.PackLabels(map[string]string{"a": "b"}) }, want: plan.Input{From: "ami-1", To: "none of its class (al2023@latest)"}},
		"an AMI that is not noted": {
			reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Image = "" }, want: plan.Input{To: "the NodeClaim does not say which AMI it runs"},
		},
		"groups":                 {reason: "SecurityGroupDrift", running: running, want: plan.Input{From: "sg-1, sg-2", To: "sg-1, sg-3"}},
		"groups that EC2 hides":  {reason: "SecurityGroupDrift", unknown: "AWS denies it", want: plan.Input{To: "AWS denies it"}},
		"a subnet, of many":      {reason: "SubnetDrift", running: running, want: plan.Input{From: "subnet-1", To: "subnet-2, subnet-3, subnet-4, subnet-5, subnet-6 and 1 more"}},
		"a reservation":          {reason: "CapacityReservationDrift", running: plan.Running{Reservation: "cr-1"}, want: plan.Input{From: "cr-1", To: "none"}},
		"a placement group":      {reason: "PlacementGroupDrift", want: plan.Input{From: "none", To: "another, which no object names"}},
		"the hash of its pool":   {reason: "NodePoolDrifted", pool: tainted("general"), want: plan.Input{From: "hash POOL", To: "hash NOTED (v3, of spec.template; a hash does not tell which field)"}},
		"another hash's version": {reason: "NodePoolDrifted", change: func(c *plan.NodeClaim) { c.Hashes = "v0 1\nv0 2" }, want: plan.Input{To: "the hash of NodePool/general is of another version, or missing"}},
		"the hash of its class":  {reason: "NodeClassDrift", change: func(c *plan.NodeClaim) { c.Hashes = "\nv5 2" }, want: plan.Input{From: "hash 2", To: "hash CLASS (v5, of the spec and the cluster's CA bundle; a hash does not tell which field)"}},
		"a hash that was taken":  {reason: "NodeClassDrift", change: func(c *plan.NodeClaim) { c.Hashes = "" }, want: plan.Input{To: "the NodeClaim has no hash"}},
		"requirements": {reason: "RequirementsDrifted", change: func(c *plan.NodeClaim) {
			c.Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "on-demand"})
		}, want: plan.Input{From: "karpenter.sh/capacity-type=on-demand", To: "karpenter.sh/capacity-type In [spot]"}},
		"requirements that fit": {reason: "RequirementsDrifted", want: plan.Input{To: "its labels fit by now"}},
		"a type that AWS dropped": {reason: "InstanceTypeNotFound", change: func(c *plan.NodeClaim) {
			c.Labels = plan.PackLabels(map[string]string{"node.kubernetes.io/instance-type": "m1.small", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "a"})
		}, want: plan.Input{From: "m1.small spot a", To: "not among what AWS offers"}},
		"a reason to come": {reason: "WeatherDrifted", want: plan.Input{To: "plumbline does not know what Karpenter compares for it"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			lives := []string{class("default"), pool("general", "default")}
			made, noted := map[string]string{}, map[string]string{}
			for _, text := range lives {
				for key, value := range c.notes(t, text) {
					made[key], noted[key] = value, value
				}
			}
			if test.pool != "" {
				lives[1] = test.pool
				for key, value := range c.notes(t, test.pool) {
					noted[key] = value
				}
			}
			c.have(t, owner, lives...)
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			for _, ref := range []render.Ref{classRef("default"), poolRef("general")} {
				c.Edit(t, ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(noted) })
			}
			c.resolve(t, "default", "ami-2=amd64")
			ids := func(all ...string) (list []any) {
				for _, id := range all {
					list = append(list, map[string]any{"id": id})
				}
				return list
			}
			c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) {
				status := o.Object["status"].(map[string]any)
				status["securityGroups"], status["subnets"] = ids("sg-3", "sg-1"), ids("subnet-7", "subnet-6", "subnet-5", "subnet-4", "subnet-3", "subnet-2")
			})
			for _, ref := range []render.Ref{classRef("default"), poolRef("general")} {
				live.Objects[ref] = plan.NewObject(c.Object(ref))
			}
			claim := plan.NodeClaim{
				Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Image: "ami-1", Hashes: plan.HashesOf(made),
				Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}),
			}
			if test.change != nil {
				test.change(&claim)
			}
			live.NodeClaims = []plan.NodeClaim{claim}
			m := plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: &plan.MatchMemory{}}
			m.Outdated([]*plan.Object{live.Objects[poolRef("general")]})
			got := m.Input(plan.Outdated{Claim: &live.NodeClaims[0], Reason: test.reason}, test.running, test.unknown)
			hashes := strings.NewReplacer("POOL", made["karpenter.sh/nodepool-hash"], "NOTED", noted["karpenter.sh/nodepool-hash"], "CLASS", noted["karpenter.k8s.aws/ec2nodeclass-hash"])
			test.want.From, test.want.To = hashes.Replace(test.want.From), hashes.Replace(test.want.To)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
