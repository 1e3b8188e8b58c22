package teardown

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Unrecord drops the records of removals that Git has taken back: what they had
// overwritten is as it was, and the next removal of the same object starts again.
// A write that another client overtook is an error like any other: the record is
// dropped by the pass after. It returns how many NodeClaims there were when each removal
// was recorded.
func Unrecord(ctx context.Context, w World, sync *v1alpha1.NodeSync, uids ...types.UID) (map[types.UID]int, error) {
	if len(uids) == 0 {
		return nil, nil
	}
	records, err := loadRecords(ctx, w.Live, sync)
	if err != nil {
		return nil, err
	}
	claims := map[types.UID]int{}
	for _, uid := range uids {
		claims[uid] = records.entries[uid].NodeClaims
		records.forget(uid)
	}
	return claims, records.save(ctx, w.Writer, sync)
}
