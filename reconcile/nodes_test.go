package reconcile

import (
	"context"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
)

// TestNoInstanceIsMissingInAnotherAccount: EC2 is queried for nodes only once the account is known to be the cluster's.
func TestNoInstanceIsMissingInAnotherAccount(t *testing.T) {
	for name, c := range map[string]struct {
		verdict *cloud.Verdict
		dials   bool
	}{
		"no verdict":      {},
		"another account": {verdict: &cloud.Verdict{}},
		"verified":        {verdict: &cloud.Verdict{OK: true}, dials: true},
	} {
		dialed := false
		dial := verifiedCloud(c.verdict, func(context.Context, string) (account.Cloud, error) { dialed = true; return nil, nil })
		if _, err := dial(t.Context(), "eu-west-1"); dialed != c.dials || (err == nil) != c.dials {
			t.Errorf("%s: EC2 is queried: %v, error %v", name, dialed, err)
		}
	}
}
