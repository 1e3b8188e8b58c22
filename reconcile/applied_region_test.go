package reconcile

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestTheRegionAfterAFailure shows in which region AWS is queried after a reconcile that has failed: that of what is in
// force; before the first installation that of HEAD. The account is not verified if HEAD cannot be read either.
func TestTheRegionAfterAFailure(t *testing.T) {
	head := &render.Karpenter{}
	head.Cluster.Name, head.Cluster.Region = "prod", "eu-west-1"
	for name, c := range map[string]struct {
		head  *render.Karpenter
		fixed *v1alpha1.KarpenterStatus
		want  []string
	}{
		"the first installation": {head: head, want: []string{"eu-west-1"}},
		"it is installed":        {head: head, fixed: &v1alpha1.KarpenterStatus{Cluster: "prod", Region: "us-east-1"}, want: []string{"us-east-1"}},
		"HEAD cannot be read":    {},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			var asked []string
			m.Cluster.Clouds = &account.Clouds{Dial: func(_ context.Context, region string) (account.Cloud, error) {
				asked = append(asked, region)
				return m.cloud, nil
			}}
			p := m.pass()
			p.memory, p.sync.Status.Karpenter = &remembered{}, c.fixed
			failed := done{}
			failed.evaluation.Desired.Karpenter = c.head
			got, err := p.checkAppliedState(t.Context(), failed, false)
			if err != nil {
				t.Fatal(err)
			}
			if verifies := got.Account != nil; verifies != (c.want != nil) {
				t.Errorf("the account is verified: %t", verifies)
			}
			if diff := cmp.Diff(c.want, asked); c.want != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}
