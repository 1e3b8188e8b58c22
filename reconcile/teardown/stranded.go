package teardown

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// Stranded is an instance that is to end, and that Karpenter does not end as things are.
type Stranded struct {
	// ID is that of the instance, Claim and Node are its NodeClaim and its Node; empty where it has none.
	ID, Claim, Node string
	// Drained says that Karpenter has drained the node.
	Drained bool
	// Why is what Karpenter has not done, in words.
	Why string
}

// Standing is what NodeClaims are judged by.
type Standing struct {
	// Pools are the NodePools whose nodes are to end, each with whether that goes on: it does not where it is held.
	Pools map[string]bool
	// Ready are the Nodes that are Ready.
	Ready map[string]bool
	// Noted are the provider IDs in the records of removals.
	Noted []string
	// Runs says that Karpenter's controller does.
	Runs bool
}

// Strands are the instances of some pools that Karpenter does not end as things are, by their IDs, and how many of
// their NodeClaims it is still at: those whose pods it evicts, those that nobody has deleted while it runs, and those
// whose removal does not go on. Only an instance that a NodeClaim names or that was noted counts.
func Strands(claims []karpv1.NodeClaim, by Standing) (found []Stranded, busy int) {
	named := map[string]bool{}
	for i := range claims {
		claim := &claims[i]
		_, id, err := cloud.ParseProviderID(claim.Status.ProviderID)
		named[id] = true
		goesOn, ours := by.Pools[claim.Labels[karpv1.NodePoolLabelKey]]
		if !ours {
			continue
		}
		why := ""
		if goesOn || claim.DeletionTimestamp != nil {
			why = leaves(claim, by)
		}
		if why == "" || err != nil {
			busy++
			continue
		}
		isDrained := conditionOf(claim, karpv1.ConditionTypeDrained) == metav1.ConditionTrue
		found = append(found, Stranded{ID: id, Claim: claim.Name, Node: claim.Status.NodeName, Drained: isDrained, Why: why})
	}
	for _, providerID := range by.Noted {
		if _, id, err := cloud.ParseProviderID(providerID); err == nil && !named[id] {
			named[id] = true
			found = append(found, Stranded{ID: id, Why: "its NodeClaim is gone"})
		}
	}
	slices.SortFunc(found, func(a, b Stranded) int { return strings.Compare(a.ID, b.ID) })
	return found, busy
}

// leaves says why Karpenter does not end a NodeClaim's instance; empty where it is at it. It asks EC2 for the instance
// of a node that is not Ready, or has not registered, before it drains, and of any other one after that: where it may
// not ask, nothing but the conditions says so (sigs.k8s.io/karpenter pkg/controllers/node/termination/controller.go).
// Before 1.1 none says that it drains: a node that is Ready it is at.
func leaves(claim *karpv1.NodeClaim, by Standing) string {
	if !by.Runs {
		return "Karpenter's controller does not run"
	}
	drains := conditionOf(claim, karpv1.ConditionTypeDrained)
	switch {
	case claim.DeletionTimestamp == nil:
		return ""
	case conditionOf(claim, karpv1.ConditionTypeInstanceTerminating) == metav1.ConditionTrue:
		return ""
	case drains == "" && by.Ready[claim.Status.NodeName]:
		return ""
	case drains == "":
		return "its NodeClaim is deleted, and Karpenter does not drain it"
	case !blocker.Drained(claim).IsZero():
		return "Karpenter has drained it, and does not end it"
	}
	return ""
}

// conditionOf is the status of one of its conditions; empty where it has none of that type.
func conditionOf(claim *karpv1.NodeClaim, kind string) metav1.ConditionStatus {
	for _, condition := range claim.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

// Noted are the provider IDs in the records of a NodeSync's removals.
func Noted(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) ([]string, error) {
	kept, err := loadRecords(ctx, reader, sync)
	if err != nil {
		return nil, fmt.Errorf("find the instances of open removals: %w", err)
	}
	noted := map[string]bool{}
	for _, entry := range kept.entries {
		for id := range entry.Instances {
			noted[id] = true
		}
	}
	return slices.Sorted(maps.Keys(noted)), nil
}
