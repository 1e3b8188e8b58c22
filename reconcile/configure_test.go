package reconcile

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
			p.karpenter = wanted
			p.fix()
			p.sync.Status.Karpenter.Identity = "installed"
			p.sync.Status.Karpenter.ClusterARN = "arn:aws:eks:eu-west-1:111122223333:cluster/prod-eu"
			c.change(wanted)
			err := p.checkFixed(wanted)
			var moved *FixedError
			switch {
			case c.field == "" && err != nil:
				t.Error(err)
			case c.field != "" && (!errors.As(err, &moved) || moved.Field != c.field || !strings.Contains(err.Error(), "refused: "+c.field)):
				t.Errorf("err = %v, want one about %s", err, c.field)
			}
			p.sync.Status.Karpenter = nil
			if p.checkFixed(wanted) != nil {
				t.Error("before the first install nothing is fixed")
			}
		})
	}
}

// TestFixIsWrittenOnce: a second pass must not fix what a commit has moved.
func TestFixIsWrittenOnce(t *testing.T) {
	p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "old", Identity: "i"}
	})).pass()
	p.karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "new"}}
	p.fix()
	if got := p.sync.Status.Karpenter.Cluster; got != "old" {
		t.Errorf("fixed again, at %q", got)
	}
}

// TestNothingIsFixedUntilChartsAreBrought: who is told that Karpenter is there
// already can leave it to others, or say where it is.
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
			p.karpenter = &render.Karpenter{Management: render.External, Namespace: "karpenter"}
			if err := p.checkFixed(p.karpenter); c.fixed != (err != nil) {
				t.Errorf("fixed() = %v, want a refusal: %t", err, c.fixed)
			}
			p.fix()
			k := p.sync.Status.Karpenter
			if moved := k.Management == "External" && k.Namespace == "karpenter" && k.Target == nil && k.Version == ""; moved == c.fixed {
				t.Errorf("the status is %+v, want what was fixed to stay: %t", k, c.fixed)
			}
		})
	}
}

// TestTwoFirstInstallsInOneInstant: what the other one has recorded may not be in the cache yet.
func TestTwoFirstInstallsInOneInstant(t *testing.T) {
	younger := nodeSync(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) })
	older := nodeSync(func(n *v1alpha1.NodeSync) {
		n.Name, n.UID, n.CreationTimestamp = "other", "22", metav1.Unix(100, 0)
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed"}
	})
	b := newBed(t, younger, older)
	b.Client = newBed(t, younger.DeepCopy()).client
	if err := b.pass().soleManager(t.Context()); err == nil || !strings.Contains(err.Error(), "/other installs") {
		t.Errorf("before the first install: %v", err)
	}
	p := b.pass()
	p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", CRDs: &v1alpha1.ReleaseStatus{Revision: 1}}
	if err := p.soleManager(t.Context()); err != nil {
		t.Errorf("the one that has installed them: %v", err)
	}
}

// TestOneNodeSyncManagesTheCharts: the later one is refused, by the name of the
// earlier.
func TestOneNodeSyncManagesTheCharts(t *testing.T) {
	other := func(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
		return nodeSync(func(n *v1alpha1.NodeSync) {
			n.Name, n.UID, n.CreationTimestamp = "other", "22", metav1.Unix(100, 0)
			n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed"}
			change(n)
		})
	}
	for name, c := range map[string]struct {
		other *v1alpha1.NodeSync
		want  bool
	}{
		"an earlier one": {other: other(unchanged), want: true},
		"a later one":    {other: other(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(300, 0) })},
		"a later one that has installed them": {other: other(func(n *v1alpha1.NodeSync) {
			n.CreationTimestamp, n.Status.Karpenter.CRDs = metav1.Unix(300, 0), &v1alpha1.ReleaseStatus{Revision: 1}
		}), want: true},
		"of the same second, by name": {other: other(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) }), want: true},
		"one that leaves them alone":  {other: other(func(n *v1alpha1.NodeSync) { n.Status.Karpenter.Management = "External" })},
		"one that has not begun":      {other: other(func(n *v1alpha1.NodeSync) { n.Status.Karpenter = nil })},
		"one of another namespace":    {other: other(func(n *v1alpha1.NodeSync) { n.Namespace = "elsewhere" })},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) }), c.other)
			err := b.pass().soleManager(t.Context())
			if c.want != (err != nil) || err != nil && !strings.Contains(err.Error(), "/other installs") {
				t.Errorf("soleManager() = %v, want a refusal: %t", err, c.want)
			}
		})
	}
}
