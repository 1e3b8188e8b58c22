package observe_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// sent is a NodeClaim with every field that the cache keeps something of.
func sent() *karpv1.NodeClaim {
	n := claim()
	n.CreationTimestamp = metav1.Unix(1_600_000_000, 0)
	n.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = "2026-01-01T00:00:00Z"
	n.Annotations["karpenter.k8s.aws/ec2nodeclass-hash"] = "7"
	n.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
	n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = metav1.ConditionFalse, "no capacity"
	n.Status.Conditions = append(n.Status.Conditions, n.Status.Conditions[4])
	n.Status.Conditions[9].Type = karpv1.ConditionTypeDisruptionReason
	return n
}

// TestANodeClaimIsReadAsFarAsItIsKept: of a NodeClaim with some fields of all that there are, the
// cache keeps the same, whether all of it was read or only what is kept.
func TestANodeClaimIsReadAsFarAsItIsKept(t *testing.T) {
	whole, err := json.Marshal(sent())
	if err != nil {
		t.Fatal(err)
	}
	property.Check(t, func(t *rapid.T) {
		var fields map[string]any
		if err := json.Unmarshal(whole, &fields); err != nil {
			t.Fatal(err)
		}
		thin(t, fields)
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		full := &karpv1.NodeClaim{}
		if err := json.Unmarshal(raw, full); err != nil {
			t.Fatal(err)
		}
		read, err := observe.ReadNodeClaim(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trimmed(t, full), trimmed(t, read)); diff != "" {
			t.Errorf("%s\nkept (-of all +of what was read):\n%s", raw, diff)
		}
	})
}

// thin leaves some fields out.
func thin(t *rapid.T, fields map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if rapid.IntRange(0, 9).Draw(t, key) == 0 {
			delete(fields, key)
		} else if within, ok := fields[key].(map[string]any); ok {
			thin(t, within)
		}
	}
}

func trimmed(t *rapid.T, object runtime.Object) any {
	kept, err := observe.CacheOptions(&observe.Refusals{}, nil).DefaultTransform(object)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestWhatAReflectorAsksOfABookmark is read, too.
func TestWhatAReflectorAsksOfABookmark(t *testing.T) {
	read, err := observe.ReadNodeClaim([]byte(`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"creationTimestamp":null,"resourceVersion":"9"}}`))
	if err != nil {
		t.Fatal(err)
	}
	bookmark := read.(*karpv1.NodeClaim)
	if bookmark.ResourceVersion != "9" || bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || !bookmark.CreationTimestamp.Equal(&metav1.Time{Time: time.Time{}}) {
		t.Errorf("read as %+v", bookmark.ObjectMeta)
	}
}

// TestReadingANodeClaimMakesLittle: what is not kept is passed over, of which there is most where
// thousands of them change at once.
func TestReadingANodeClaimMakesLittle(t *testing.T) {
	raw, err := json.Marshal(sent())
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	whole := testing.AllocsPerRun(100, func() {
		failed = errors.Join(failed, json.Unmarshal(raw, &karpv1.NodeClaim{}))
	})
	kept := testing.AllocsPerRun(100, func() {
		_, err := observe.ReadNodeClaim(raw)
		failed = errors.Join(failed, err)
	})
	if failed != nil || kept > whole*4/5 {
		t.Errorf("%v allocations, %v for all of it; %v", kept, whole, failed)
	}
	t.Logf("%v allocations, %v for all of it", kept, whole)
}
