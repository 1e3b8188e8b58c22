package account

import (
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// maxProviderIDs bounds the question whether live instances can be seen: a few
// tell an account as well as all.
const maxProviderIDs = 50

// providerIDs are some of those that live. A cache lists in no order; the same
// world makes the same question, and the same words about its answer.
func providerIDs(claims []plan.NodeClaim) []string {
	var ids []string
	for _, claim := range claims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil && !claim.Deleting {
			ids = append(ids, claim.ProviderID)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxProviderIDs)]
}

// tellForeign reports, once, which NodeClaims EC2 cannot be asked about.
func (s *Step) tellForeign() {
	var fresh []string
	foreign := map[string]bool{}
	for _, claim := range s.Claims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil || claim.ProviderID == "" {
			continue
		}
		foreign[claim.Name] = true
		if !s.Memory.foreign[claim.Name] {
			fresh = append(fresh, fmt.Sprintf("NodeClaim/%s of NodePool/%s (%s)", claim.Name, claim.Pool, claim.ProviderID))
		}
	}
	s.Memory.foreign = foreign
	if len(fresh) == 0 {
		return
	}
	slices.Sort(fresh)
	s.Warn(v1alpha1.ReasonUnknownProviderID, finding.Some(fresh)+": not an instance of EC2, which cannot say whether it has ended: a removal of its pool is not verified by itself")
}
