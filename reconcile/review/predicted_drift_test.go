package review_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// prediction is what a Plan predicts for NodeClaims, by name.
type prediction struct {
	// exact are replaced, and some of upTo may be.
	exact, upTo []string
	// reasons are the predicted reasons of the Drifted condition of each.
	reasons map[string][]string
}

func (f *fleet) predict(t *testing.T) prediction {
	t.Helper()
	return f.predictFrom(t, f.live(t))
}

// live returns the live state.
func (f *fleet) live(t *testing.T) plan.Live {
	t.Helper()
	live, err := cluster.Live(t.Context(), f.client)
	if err != nil {
		t.Fatal(err)
	}
	live.Served = true
	return live
}

// predictFrom returns what a Plan predicts for the live NodeClaims, with AWS's answers.
func (f *fleet) predictFrom(t *testing.T, live plan.Live) prediction {
	t.Helper()
	names := map[types.UID]string{}
	for _, c := range live.NodeClaims {
		names[c.UID] = c.Name
	}
	policy := plan.Policy{Owner: owner, NewRevision: true, Now: time.Now()}
	p, err := plan.Make(t.Context(), f.set(t), live, policy, f.validator)
	if err == nil && len(p.Questions()) > 0 {
		policy.Answers = f.answers(t, p.Questions())
		p, err = plan.Make(t.Context(), f.set(t), live, policy, f.validator)
	}
	if err != nil {
		t.Fatal(err)
	}
	will := prediction{reasons: map[string][]string{}}
	for i := range p.Changes {
		change := &p.Changes[i]
		if change.Err != nil {
			t.Fatal(change.Err)
		}
		for _, uid := range change.NodeClaims() {
			name := names[uid]
			if change.UpTo {
				t.Logf("%s is on up to %d nodes: %s", change.Ref, change.Nodes, change.Unavailable)
				will.upTo = append(will.upTo, name)
			} else {
				will.exact = append(will.exact, name)
			}
			will.reasons[name] = append(will.reasons[name], change.DriftReasons...)
		}
	}
	will.exact, will.upTo = sorted(will.exact), sorted(will.upTo)
	return will
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// drifts waits until the NodeClaims with the Drifted condition are those of exact, and any of upTo, each for a
// predicted reason, and verifies that this does not change.
func (f *fleet) drifts(t *testing.T, will prediction) {
	t.Helper()
	differs := func(ctx context.Context) (string, error) {
		reasons, err := f.drifted(ctx)
		if err != nil {
			return "", err
		}
		for name, reason := range reasons {
			if !slices.Contains(will.reasons[name], reason) {
				return fmt.Sprintf("%s is Drifted for %s, and predicted for %q", name, reason, will.reasons[name]), nil
			}
		}
		found := slices.DeleteFunc(sorted(slices.Collect(maps.Keys(reasons))), func(name string) bool {
			return slices.Contains(will.upTo, name) && !slices.Contains(will.exact, name)
		})
		return cmp.Diff(will.exact, found, cmpopts.EquateEmpty()), nil
	}
	f.await(t, settles, "Karpenter to find the nodes Drifted that were predicted (-predicted +Drifted)", differs)
	ends := time.Now().Add(quiet)
	f.await(t, settles, "nothing", func(ctx context.Context) (string, error) {
		diff, err := differs(ctx)
		if err != nil || diff != "" {
			return "", fmt.Errorf("it changed later (-predicted +Drifted):\n%s %w", diff, err)
		}
		if time.Now().Before(ends) {
			return "quiet for a while", nil
		}
		return "", nil
	})
}

// drifted returns the NodeClaims that Karpenter finds outdated, and the reason.
func (f *fleet) drifted(ctx context.Context) (reasons map[string]string, err error) {
	all := &karpv1.NodeClaimList{}
	if err := f.client.List(ctx, all); err != nil {
		return nil, err
	}
	reasons = map[string]string{}
	for i := range all.Items {
		if c := all.Items[i].StatusConditions().Get(karpv1.ConditionTypeDrifted); c != nil && c.IsTrue() {
			reasons[all.Items[i].Name] = c.Reason
		}
	}
	return reasons, nil
}
