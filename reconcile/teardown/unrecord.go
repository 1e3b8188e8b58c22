package teardown

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Unrecord drops the records of removals that Git has taken back: what they had
// overwritten is as it was, and the next removal of the same object starts again.
// A write that another client overtook is an error like any other: the record is
// dropped by the pass after.
func Unrecord(ctx context.Context, w World, sync *v1alpha1.NodeSync, uids ...types.UID) error {
	if len(uids) == 0 {
		return nil
	}
	records, err := loadRecords(ctx, w.Live, sync)
	if err != nil {
		return err
	}
	for _, uid := range uids {
		records.forget(uid)
	}
	return records.save(ctx, w.Writer, sync)
}
