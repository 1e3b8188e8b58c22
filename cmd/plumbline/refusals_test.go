package main

import (
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPlanSaysWhatTheDaemonRefuses as a whole, whatever the definitions are.
func TestPlanSaysWhatTheDaemonRefuses(t *testing.T) {
	const public = "oci://public.ecr.aws/karpenter"
	installed := v1alpha1.KarpenterStatus{Management: "Managed", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1", Version: "1.14.1", Identity: "i", ClusterARN: "arn"}
	unconfirmed := installed
	unconfirmed.ClusterARN = ""
	managing := v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "other", UID: "2"}}
	managing.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", CRDs: &v1alpha1.ReleaseStatus{Revision: 1}}
	for name, c := range map[string]struct {
		status  *v1alpha1.KarpenterStatus
		others  []v1alpha1.NodeSync
		change  func(*render.Karpenter)
		refused string
		warns   string
	}{
		"nothing":                  {status: &installed},
		"the cluster is renamed":   {status: &installed, change: func(k *render.Karpenter) { k.Cluster.Name = "prod-us" }, refused: `cluster.name is fixed at "prod-eu" by the first install, the commit says "prod-us"`},
		"a name to be confirmed":   {status: &unconfirmed, change: func(k *render.Karpenter) { k.Cluster.Name = "prod-us" }, warns: "unless AWS confirms the new name of the cluster"},
		"another manages them":     {others: []v1alpha1.NodeSync{managing}, refused: "NodeSync fleet/other installs Karpenter's charts already"},
		"External beside another":  {others: []v1alpha1.NodeSync{managing}, change: func(k *render.Karpenter) { k.Management = render.External }},
		"a repository":             {change: func(k *render.Karpenter) { k.Repository = "oci://evil.example.com/karpenter" }, refused: "repository oci://evil.example.com/karpenter"},
		"a value that is not open": {change: func(k *render.Karpenter) { k.Values = map[string]any{"hostNetwork": true} }, refused: "values.hostNetwork"},
		"a value of no chart":      {change: func(k *render.Karpenter) { k.Values, k.Repository = map[string]any{"replica": 3}, "./charts" }, refused: "repository ./charts"},
		"a values file":            {change: func(k *render.Karpenter) { k.ValuesFiles = []string{"./gone.yaml"} }, refused: "gone.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod", UID: "1"}}
			sync.Status.Karpenter = c.status
			k := &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system", Repository: public, Cluster: render.Cluster{Name: "prod-eu", Region: "eu-west-1"}}
			if c.change != nil {
				c.change(k)
			}
			refused, warnings := refusals(t.Context(), sync, c.others, commit{karpenter: k, path: "prod", files: &render.Snapshot{FS: fstest.MapFS{}}})
			if got := strings.Join(words(refused), "\n"); (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
				t.Errorf("refused %q, want %q", got, c.refused)
			}
			if got := strings.Join(warnings, "\n"); (got == "") != (c.warns == "") || !strings.Contains(got, c.warns) {
				t.Errorf("warnings %q, want %q", got, c.warns)
			}
			report := newPlanReport(&planned{Plan: &plan.Plan{}, refused: refused})
			if is := report.exit() != nil; is != (c.refused != "") {
				t.Errorf("exit %v", report.exit())
			}
		})
	}
}
