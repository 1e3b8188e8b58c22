package cluster_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// TestWhatTheCacheTakes limits the memory of each watched object: the daemon's memory grows only with the NodeClaims
// and with what is in Git.
func TestWhatTheCacheTakes(t *testing.T) {
	node := claim()
	definition, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		watched func(i int) client.Object
		most    uint64
	}{
		"NodeClaims": {func(i int) client.Object {
			n := &karpv1.NodeClaim{}
			decode(t, node, n)
			n.Name, n.UID = fmt.Sprintf("general-%05d", i), types.UID(fmt.Sprintf("5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9%05d", i))
			n.DeletionTimestamp, n.Status.Conditions = nil, n.Status.Conditions[:3] // at work, not ending
			return n
		}, 1300},
		"definitions": {func(i int) client.Object {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(definition); err != nil {
				t.Fatal(err)
			}
			u.SetName(fmt.Sprintf("general-%05d", i))
			return u
		}, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			const objects = 2000
			transform := cluster.CacheOptions(&cluster.Refusals{}).DefaultTransform
			cached := make([]any, objects)
			before := heap()
			for i := range cached {
				if cached[i], err = transform(tc.watched(i)); err != nil {
					t.Fatal(err)
				}
			}
			each := (heap() - before) / objects
			runtime.KeepAlive(cached)
			t.Logf("%d bytes each", each)
			if each > tc.most {
				t.Errorf("each takes %d bytes, want at most %d", each, tc.most)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// decode makes a copy that shares no memory with the original, as a watch does.
func decode(t *testing.T, from, into any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}
