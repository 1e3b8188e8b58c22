package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/render"
)

func TestFixed(t *testing.T) {
	cases := map[string]struct {
		change func(*render.Karpenter)
		field  string
	}{
		"nothing":    {func(*render.Karpenter) {}, ""},
		"values":     {func(k *render.Karpenter) { k.Values = map[string]any{"replicas": 3} }, ""},
		"repository": {func(k *render.Karpenter) { k.Repository = "oci://mirror" }, ""},
		"name":       {func(k *render.Karpenter) { k.Cluster.Name = "prod-us" }, "cluster.name"},
		"region":     {func(k *render.Karpenter) { k.Cluster.Region = "us-east-1" }, "cluster.region"},
		"management": {func(k *render.Karpenter) { k.Management = render.External }, "management"},
		"namespace":  {func(k *render.Karpenter) { k.Namespace = "karpenter" }, "namespace"},
		"several":    {func(k *render.Karpenter) { k.Cluster.Name, k.Version = "prod-us", "1.15.0" }, "cluster.name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wanted := &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu", Region: "eu-west-1"}, Management: render.Managed, Version: "1.14.1", Namespace: "kube-system"}
			p := newBed(t, nodeSync(unchanged)).pass()
			p.want.Karpenter = wanted
			p.sync.Status.Karpenter = p.want.Fixed(p.sync.Status.Karpenter)
			p.sync.Status.Karpenter.Identity = "installed"
			p.sync.Status.Karpenter.ClusterARN = "arn:aws:eks:eu-west-1:111122223333:cluster/prod-eu"
			c.change(wanted)
			_, err := evaluate.CheckFixed(p.sync.Status.Karpenter, wanted)
			var moved *evaluate.FixedError
			switch {
			case c.field == "" && err != nil:
				t.Error(err)
			case c.field != "" && (!errors.As(err, &moved) || moved.Field != c.field || !strings.Contains(err.Error(), "refused: the first install fixed "+c.field)):
				t.Errorf("err = %v, want one about %s", err, c.field)
			}
			p.sync.Status.Karpenter = nil
			if _, err := evaluate.CheckFixed(nil, wanted); err != nil {
				t.Error("before the first install nothing is fixed")
			}
		})
	}
}

// TestFixIsWrittenOnce shows that a second reconcile does not fix what a commit has changed.
func TestFixIsWrittenOnce(t *testing.T) {
	p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "old", Identity: "i"}
	})).pass()
	p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "new"}}
	p.sync.Status.Karpenter = p.want.Fixed(p.sync.Status.Karpenter)
	if got := p.sync.Status.Karpenter.Cluster; got != "old" {
		t.Errorf("fixed again, at %q", got)
	}
}

// TestNothingIsFixedUntilChartsAreBrought shows that, before charts are installed, a commit may leave Karpenter to
// another tool, or correct where it is.
func TestNothingIsFixedUntilChartsAreBrought(t *testing.T) {
	at := func(step v1alpha1.ChartStep) *v1alpha1.ChartTarget { return &v1alpha1.ChartTarget{Step: step} }
	cases := map[string]struct {
		identity string
		target   *v1alpha1.ChartTarget
		fixed    bool
	}{
		"looked at alone":       {},
		"checked, and refused":  {target: at(v1alpha1.ChartChecking)},
		"objects are rewritten": {target: at(v1alpha1.ChartMigrating)},
		"the CRDs are written":  {target: at(v1alpha1.ChartCRDs), fixed: true},
		"gone back":             {target: at(v1alpha1.ChartRolledBack), fixed: true},
		"in force":              {identity: "i", fixed: true},
		"in force, and checked": {identity: "i", target: at(v1alpha1.ChartChecking), fixed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Namespace: "kube-system", Version: "1.8.6", Identity: c.identity, Target: c.target}
			})).pass()
			p.want.Karpenter = &render.Karpenter{Management: render.External, Namespace: "karpenter"}
			if _, err := evaluate.CheckFixed(p.sync.Status.Karpenter, p.want.Karpenter); c.fixed != (err != nil) {
				t.Errorf("fixed() = %v, want a refusal: %t", err, c.fixed)
			}
			p.sync.Status.Karpenter = p.want.Fixed(p.sync.Status.Karpenter)
			k := p.sync.Status.Karpenter
			if moved := k.Management == "External" && k.Namespace == "karpenter" && k.Target == nil && k.Version == ""; moved == c.fixed {
				t.Errorf("the status is %+v, want what was fixed to stay: %t", k, c.fixed)
			}
		})
	}
}
