package main

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPlanNamesPoolsThatNoInstanceTypeMeets by what EC2 offers in the region, also without a what-if. Where that is not known, so is
// this; EC2 is queried only if the plan writes a NodePool.
func TestAPlanNamesPoolsThatNoInstanceTypeMeets(t *testing.T) {
	c := &simulate.Capture{}
	withTypes(t)(c)
	class := func(name string, status map[string]any) *plan.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": name}, "spec": map[string]any{
			"amiSelectorTerms":    []any{map[string]any{"alias": "al2023@latest"}},
			"subnetSelectorTerms": []any{map[string]any{"tags": map[string]any{"of": name}}},
		}}}
		if status != nil {
			u.Object["status"] = status
		}
		return plan.NewObject(u)
	}
	change := func(action plan.Action, name, class, key, value string) plan.Change {
		ref := render.Ref{Kind: render.NodePool, Name: name}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "metadata": map[string]any{"name": name}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": render.EC2NodeClass, "name": class},
			"requirements": []any{map[string]any{"key": key, "operator": "In", "values": []any{value}}},
		}}}}}
		return plan.Change{Ref: ref, Action: action, Object: render.Object{Ref: ref, Desired: u, Defaulted: u}}
	}
	const size = "node.kubernetes.io/instance-type"
	for name, test := range map[string]struct {
		changes []plan.Change
		err     error
		asked   int
		want    []string
	}{
		"one fits":       {[]plan.Change{change(plan.Create, "web", "default", size, "m5.large")}, nil, 1, nil},
		"none fits":      {[]plan.Change{change(plan.Update, "web", "default", size, "m5.huge")}, nil, 1, []string{"no instance type of us-east-1 meets NodePool/web: it can launch no node"}},
		"a new class":    {[]plan.Change{change(plan.Create, "web", "new", size, "m5.large")}, nil, 1, []string{"unknown whether an instance type of us-east-1 meets NodePool/web: the zones of EC2NodeClass/new are not known before Karpenter has found its subnets"}},
		"EC2 is down":    {[]plan.Change{change(plan.Create, "web", "default", size, "m5.large")}, errors.New("EC2 is down"), 1, []string{"unknown whether an instance type of us-east-1 meets NodePool/web: EC2 is down"}},
		"nothing is new": {[]plan.Change{change(plan.None, "web", "default", size, "m5.huge")}, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			p := &planned{Plan: &plan.Plan{Changes: test.changes}}
			p.live.Objects = map[render.Ref]*plan.Object{
				{Kind: render.EC2NodeClass, Name: "default"}: class("default", map[string]any{"subnets": []any{map[string]any{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}}}),
				{Kind: render.EC2NodeClass, Name: "new"}:     class("new", nil),
			}
			p.seeInstanceTypes(t.Context(), "us-east-1", func(context.Context, string) (*offers.Catalog, error) {
				asked++
				return c.Catalog, test.err
			})
			if diff := cmp.Diff(test.want, p.Warnings); diff != "" || asked != test.asked {
				t.Errorf("asked %d times (-want +got):\n%s", asked, diff)
			}
		})
	}
}
