package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestEffect(t *testing.T) {
	const a, b = `{key: a, effect: NoSchedule}`, `{key: b, effect: NoSchedule}`
	withTaints := func(taints string) string {
		return `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
      taints: [` + taints + `]
`
	}
	tests := map[string]struct {
		before, after []string
		want          map[string]int
	}{
		"limits touch no node": {
			before: []string{class("default"), pool("general", "default")},
			after:  []string{class("default"), pool("general", "default", "limits: {cpu: 1}")},
			want:   map[string]int{"NodePool/general None": 0},
		},
		"a class that is replaced by another replaces the pool's nodes": {
			before: []string{class("default"), class("other"), pool("general", "default")},
			after:  []string{class("default"), class("other"), pool("general", "other")},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"taints": {
			before: []string{class("default"), withTaints(a)},
			after:  []string{class("default"), withTaints(a + "," + b)},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"taints in another order": {
			before: []string{class("default"), withTaints(a + "," + b)},
			after:  []string{class("default"), withTaints(b + "," + a)},
			want:   map[string]int{"NodePool/general None": 0},
		},
		"user data of a class replaces the nodes of all its pools": {
			before: []string{class("default")},
			after:  []string{class("default", "userData: hello")},
			want:   map[string]int{"EC2NodeClass/default Replace": 3},
		},
		"an instance profile of an unused class": {
			before: []string{class("unused")},
			after:  []string{class("unused", "userData: hello")},
			want:   map[string]int{"EC2NodeClass/unused None": 0},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, test.before...)
			c.live.NodeClaims = []plan.NodeClaim{
				{Name: "1", Pool: "general", Class: "default"},
				{Name: "2", Pool: "general", Class: "default"},
				{Name: "3", Pool: "batch", Class: "default"},
			}
			got := map[string]int{}
			for _, change := range c.plan(t, test.after...).Changes {
				got[change.Ref.String()+" "+string(change.Effect)] = change.Nodes
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}
