package reconcile

import (
	"errors"
	"strings"
	"testing"

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
