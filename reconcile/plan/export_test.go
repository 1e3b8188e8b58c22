package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The functions that compute hashes and read Karpenter's annotations.
var (
	ClassHash    = classHash
	ClassHashes  = classHashes
	NotedOfClass = notedOfClass
	NotedOfPool  = notedOfPool
)

// PoolHash returns the hash of a NodePool; empty if it cannot be read.
func PoolHash(object *unstructured.Unstructured) Hash {
	pool, err := typed[karpv1.NodePool](object)
	if err != nil {
		return ""
	}
	return poolHash(pool)
}

// Touched returns the NodeClaims that a Change affects.
func (c *Change) Touched() []types.UID { return c.touched }

// AllowedAt returns how many of this many nodes the budgets of a pool allow to be replaced for drift at a time.
func AllowedAt(pool *karpv1.NodePool, nodes int, t time.Time) (int, error) {
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	return b.allowedAt(t), err
}

// Turns returns how many times the budgets of a pool are evaluated; whole reports whether these are all.
func Turns(pool *karpv1.NodePool, now time.Time) (n int, whole bool) {
	b, err := readBudgets(pool, 10, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0, false
	}
	found, whole := b.changeTimes(now, horizon)
	return len(found), whole
}
