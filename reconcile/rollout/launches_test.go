package rollout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestANodeThatComesAsItsPoolIsWritten shows that the commit has outdated a node that was launched from the previous
// definition, and is no success before Karpenter has found that. What drifts later, or in a pool that had nodes, is not
// due to a commit.
func TestANodeThatComesAsItsPoolIsWritten(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ref := render.Ref{Kind: render.NodePool, Name: "a"}
	claim := func(name, hash string, created time.Time) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: "1", Pool: "a", Class: "c", ProviderID: "aws:///a/i-1", Created: created, Hashes: plan.HashesOf(map[string]string{
			karpv1.NodePoolHashAnnotationKey: hash, karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		})}
	}
	change := plan.Change{Ref: ref, Action: plan.Update}
	edit := change
	edit.Drift = true
	for name, c := range map[string]struct {
		change plan.Change
		before []plan.NodeClaim
		after  plan.NodeClaim
		at     time.Duration
		want   string
	}{
		"as it is written":      {change: change, after: claim("1", "old", now.Add(time.Second)), at: 2 * time.Second, want: "main@sha1:2"},
		"just before it":        {change: change, after: claim("1", "old", now.Add(-time.Second)), at: 2 * time.Second, want: "main@sha1:2"},
		"much later":            {change: change, after: claim("1", "old", now.Add(2*time.Minute)), at: 3 * time.Minute},
		"the pool had a node":   {change: change, before: []plan.NodeClaim{claim("0", "old", now.Add(-time.Hour))}, after: claim("1", "old", now.Add(time.Second)), at: 2 * time.Second, want: "not exact"},
		"an edit was corrected": {change: edit, after: claim("1", "old", now.Add(time.Second)), at: 2 * time.Second, want: "not exact"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &rollout.Memory{}
			look := func(at time.Time, changes []plan.Change, claims ...plan.NodeClaim) *v1alpha1.Rollout {
				of := pool("a")
				r := rollout.Rollouts{
					Live: plan.Live{Objects: map[render.Ref]*plan.Object{ref: of.Live}, NodeClaims: claims}, Pools: []rollout.Pool{of}, Changes: changes,
					Revision: "main@sha1:2", Applied: "main@sha1:1", Now: at, Memory: memory, Events: &spoken{},
				}
				return r.Look(t.Context()).Rollout
			}
			if got := look(now, []plan.Change{c.change}, c.before...); got != nil {
				t.Fatalf("no node is touched: %+v", got)
			}
			got := look(now.Add(c.at), nil, c.after)
			switch {
			case c.want == "not exact":
				if got != nil {
					t.Errorf("Karpenter has found nothing: %+v", got)
				}
			case got == nil || got.Outdated != 1 || got.Revision != c.want || c.want != "" && got.From != "main@sha1:1":
				t.Errorf("%+v", got)
			}
		})
	}
}

// managed returns who wrote an object when.
type managed struct {
	client.Reader

	by      []metav1.ManagedFieldsEntry
	created time.Time
	err     error
}

func (m *managed) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if key.Name == "a" && object.GetObjectKind().GroupVersionKind().Kind == render.NodePool {
		object.SetManagedFields(m.by)
		object.SetCreationTimestamp(metav1.Time{Time: m.created})
	}
	return m.err
}

// TestADaemonThatDiesAsItWrites shows that, after a kill, the next daemon does not report that no commit has outdated a
// node that was launched at that moment.
func TestADaemonThatDiesAsItWrites(t *testing.T) {
	began := time.Date(2026, 11, 24, 12, 0, 0, 500_000_000, time.UTC)
	written := func(manager string, at time.Time) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: began.Add(-10 * time.Second)}},
			{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at}},
		}
	}
	for name, c := range map[string]struct {
		reads   managed
		created time.Time
		want    string
	}{
		"it came as that was written":       {managed{by: written("plumbline", began.Add(-10*time.Second))}, began.Add(-9 * time.Second), "main@sha1:2"},
		"just before":                       {managed{by: written("plumbline", began.Add(-10*time.Second))}, began.Add(-11 * time.Second), "main@sha1:2"},
		"long before":                       {managed{by: written("plumbline", began.Add(-10*time.Second))}, began.Add(-2 * time.Minute), ""},
		"another wrote it":                  {managed{by: written("kubectl", began.Add(-10*time.Second))}, began.Add(-9 * time.Second), ""},
		"this daemon wrote it":              {managed{by: written("plumbline", began.Add(time.Second))}, began.Add(2 * time.Second), ""},
		"in the second in which it started": {managed{by: written("plumbline", began.Truncate(time.Second))}, began.Add(2 * time.Second), ""},
		"it was created so":                 {managed{by: written("plumbline", began.Add(-10*time.Second)), created: began.Add(-10 * time.Second)}, began.Add(-9 * time.Second), ""},
		"it is unknown who wrote it":        {managed{}, began.Add(-9 * time.Second), ""},
		"it cannot be read":                 {managed{by: written("plumbline", began.Add(-10*time.Second)), err: errors.New("refused")}, began.Add(-9 * time.Second), ""},
		"it was written, and long over":     {managed{by: written("plumbline", began.Add(-time.Hour))}, began.Add(-time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &rollout.Memory{}
			look := func(at time.Time, claims ...plan.NodeClaim) *v1alpha1.Rollout {
				of := pool("a")
				r := rollout.Rollouts{
					Live: plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "a"}: of.Live}, NodeClaims: claims}, Pools: []rollout.Pool{of},
					Revision: "main@sha1:2", Applied: "main@sha1:1", Now: at, Memory: memory, Events: &c.reads,
				}
				return r.Look(t.Context()).Rollout
			}
			if got := look(began); got != nil {
				t.Fatalf("no node is touched: %+v", got)
			}
			claim := drifted("1", "a", false)
			claim.Created = c.created
			got := look(began.Add(3*time.Second), claim)
			if got == nil || got.Outdated != 1 || got.Revision != c.want || (got.From != "") != (c.want != "") {
				t.Errorf("%+v, want it to be by %q", got, c.want)
			}
		})
	}
}
