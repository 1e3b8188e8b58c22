package reconcile

import (
	"context"
	"encoding/pem"
	"errors"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

var errUnreachable = errors.New("no route")

// fakeCloud is an account, or the error that it answers with.
type fakeCloud struct {
	err     error
	cluster cloud.Cluster
	asked   int
	// patience is how long the callers would have waited, in the order of the
	// questions; 0: for ever.
	patience []time.Duration
	// silence is why EC2 gives no whole answer.
	silence error
	// running are the instances that are not ended.
	running []cloud.Instance
}

func (f *fakeCloud) Cluster(ctx context.Context, _ string) (cloud.Cluster, error) {
	f.asked++
	f.note(ctx)
	return f.cluster, f.err
}

func (f *fakeCloud) note(ctx context.Context) {
	patience := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	f.patience = append(f.patience, patience)
}

func (f *fakeCloud) Instances(ctx context.Context, _ cloud.Query) ([]cloud.Instance, error) {
	f.note(ctx)
	if f.silence != nil {
		return f.running, f.silence
	}
	return f.running, f.err
}

// pemOf is a certificate with something in it.
func pemOf(der string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})
}
