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
			c.change(wanted)
			err := fixed(p.sync.Status.Karpenter, wanted)
			var moved *FixedError
			switch {
			case c.field == "" && err != nil:
				t.Error(err)
			case c.field != "" && (!errors.As(err, &moved) || moved.Field != c.field || !strings.Contains(err.Error(), "refused: "+c.field)):
				t.Errorf("err = %v, want one about %s", err, c.field)
			}
			if fixed(nil, wanted) != nil {
				t.Error("before the first install nothing is fixed")
			}
		})
	}
}

// TestFixIsWrittenOnce: a second pass must not fix what a commit has moved.
func TestFixIsWrittenOnce(t *testing.T) {
	p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "old"} })).pass()
	p.karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "new"}}
	p.fix()
	if got := p.sync.Status.Karpenter.Cluster; got != "old" {
		t.Errorf("fixed again, at %q", got)
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
		"an earlier one":              {other: other(unchanged), want: true},
		"a later one":                 {other: other(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(300, 0) })},
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
