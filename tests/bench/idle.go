package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// warm is how long a restarted daemon may settle before its memory is read, and stillFor how long it idles
	// without heartbeats: never longer than with them.
	warm     = 30 * time.Second
	stillFor = 2 * time.Minute
	// heartbeats is how many Nodes per second send a heartbeat: 10,000 kubelets do so once in five minutes each.
	heartbeats = 33
)

// Idle is the cost of an idle daemon.
type Idle struct {
	Objects, Nodes int
	// Empty, First, Full and Peopled are the daemon's memory in an empty cluster, with the first few objects in Git,
	// with all of them, and with as many NodeClaims as Nodes; each in bytes, and for a restarted process.
	Empty, First, Full, Peopled int64
	// Still is without heartbeats, Beating with them; End is the memory after that.
	Still, Beating       Row
	StillFor, BeatingFor time.Duration
	End                  int64
}

// idle leaves the daemon idle in an empty cluster, in one with a fleet, and in one with a fleet and its nodes. It
// leaves the nodes behind.
func (b *bench) idle(ctx context.Context) error {
	if b.options.Idle == 0 {
		return nil
	}
	b.table.Idle = &Idle{Objects: b.options.Objects, Nodes: b.options.Nodes, BeatingFor: b.options.Idle, StillFor: min(stillFor, b.options.Idle)}
	return b.inTurn(ctx,
		step{"without objects", b.idleEmpty},
		step{"with few objects", b.idleFirst},
		step{"with objects", b.idleFull},
		step{"NodeClaims and Nodes are made", b.people},
		step{"with nodes", b.idlePeopled},
		step{"idle", b.idleStill},
		step{"idle beside heartbeats", b.idleBeating},
	)
}

func (b *bench) idleEmpty(ctx context.Context) error {
	if err := errors.Join(b.plumbline.daemon.Stop(), b.plumbline.start(ctx)); err != nil {
		return err
	}
	return b.readMemory(ctx, "empty", &b.table.Idle.Empty)
}

// firstObjects is the number of the first few. They cause the compiled schemas, and code that nothing else runs: these
// costs are not per object.
const firstObjects = 20

func (b *bench) idleFirst(ctx context.Context) error {
	b.fleet = newFleet(folder, "", min(firstObjects, b.options.Objects))
	if _, err := b.meet(ctx, b.fleet, map[string]string{"interval": "1m"}); err != nil {
		return err
	}
	return b.again(ctx, "first", &b.table.Idle.First)
}

func (b *bench) idleFull(ctx context.Context) error {
	b.fleet.grow(b.options.Objects)
	if _, err := b.change(ctx, b.plumbline, b.fleet.all()...); err != nil {
		return err
	}
	return b.again(ctx, "full", &b.table.Idle.Full)
}

func (b *bench) idlePeopled(ctx context.Context) error {
	return b.again(ctx, "peopled", &b.table.Idle.Peopled)
}

// again restarts the daemon, waits until it is in sync, and reads its memory.
func (b *bench) again(ctx context.Context, state string, resident *int64) error {
	if err := b.plumbline.daemon.Stop(); err != nil {
		return err
	}
	token := time.Now().Format(time.RFC3339Nano)
	if err := errors.Join(b.plumbline.request(ctx, token), b.plumbline.start(ctx)); err != nil {
		return err
	}
	if err := b.plumbline.answered(ctx, token); err != nil {
		return err
	}
	return b.readMemory(ctx, state, resident)
}

// readMemory reads it before taking a profile, which collects garbage first.
func (b *bench) readMemory(ctx context.Context, state string, resident *int64) error {
	if err := pass(ctx, min(warm, b.options.Idle)); err != nil {
		return err
	}
	held, err := watched(b.plumbline.daemon.PID()).memory()
	if err != nil {
		return err
	}
	*resident = held.Resident
	return b.profileHeap(ctx, state)
}

// pass waits.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bench) idleStill(ctx context.Context) error {
	i := b.table.Idle
	return b.nothingFor(ctx, "idle", i.StillFor, &i.Still)
}

// idleBeating simulates the kubelets meanwhile.
func (b *bench) idleBeating(ctx context.Context) error {
	i := b.table.Idle
	group, ctx := errgroup.WithContext(ctx)
	over, end := context.WithCancel(ctx)
	group.Go(func() error { return b.beat(over) })
	group.Go(func() error {
		defer end()
		return b.nothingFor(ctx, "idle beside heartbeats", i.BeatingFor, &i.Beating)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	held, err := watched(b.plumbline.daemon.PID()).memory()
	i.End = held.Resident
	return err
}

// nothingFor measures the daemon for some time in which it sends no request to the API server.
func (b *bench) nothingFor(ctx context.Context, work string, d time.Duration, into *Row) error {
	row, err := b.measure(ctx, b.plumbline, func(context.Context) (time.Time, error) {
		return time.Now(), nil
	}, func(ctx context.Context) error {
		return pass(ctx, d)
	})
	if err != nil {
		return err
	}
	row.Work, row.Wall = work, d
	*into = row
	return exact(row, Counts{})
}

// beat updates the status of one Node after another until ctx is done.
func (b *bench) beat(ctx context.Context) error {
	if b.options.Nodes == 0 {
		return nil
	}
	ticker := time.NewTicker(time.Second / heartbeats)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			alive := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, now.UTC().Format(time.RFC3339))
			_, err := b.objects.Resource(nodes).Patch(ctx, nodeName(i%b.options.Nodes), types.StrategicMergePatchType, alive, metav1.PatchOptions{}, "status")
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("play a kubelet's heartbeat: %w", err)
			}
		}
	}
}

// answered waits until a request for a reconcile was handled, and everything is in sync.
func (p *plumbline) answered(ctx context.Context, token string) error {
	return p.until(ctx, nodeSyncs, daemon.Namespace, p.syncs, "answer a request", func(sync *unstructured.Unstructured) (bool, error) {
		handled, _, err := unstructured.NestedString(sync.Object, "status", "lastHandledReconcileAt")
		return handled == token && isReady(sync), err
	})
}

// rises returns the increase of memory for each of n.
func rises(from, to int64, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(to-from) / float64(n)
}

// slope returns the increase for each, if there are enough to distinguish it from a process's normal growth.
func slope(each, limit float64, n int) string {
	const enough = 400
	if n < enough {
		return fmt.Sprintf("%d are too few to tell", n)
	}
	return fmt.Sprintf("%.1f kB, bar %.0f kB %s", each/1e3, limit/1e3, verdict(each <= limit))
}

// lines returns the cost of idling, with the limits.
func (i *Idle) lines() []string {
	const objectLimit, claimLimit, limit = 10e3, 2e3, 200 << 20
	object, claim := rises(i.First, i.Full, i.Objects-firstObjects), rises(i.Full, i.Peopled, 2*i.Nodes)
	return []string{
		fmt.Sprintf("idle for %s with %d objects in Git, %d NodeClaims and %d Nodes: 0 writes but the Lease, 0 LISTs, %d GETs, %d fetches; CPU %s",
			i.StillFor, i.Objects, i.Nodes, i.Nodes, i.Still.Gets, i.Still.Fetches, seconds(i.Still.CPU)),
		fmt.Sprintf("the same for %s beside %d heartbeats a second: 0 writes, 0 LISTs, %d GETs, %d fetches; CPU %s",
			i.BeatingFor, heartbeats, i.Beating.Gets, i.Beating.Fetches, seconds(i.Beating.CPU)),
		fmt.Sprintf("memory: %d MB in an empty cluster, %d MB with the first %d objects, %d MB with all, %d MB with the nodes; %d MB at the end, bar %d MB %s",
			i.Empty>>20, i.First>>20, firstObjects, i.Full>>20, i.Peopled>>20, i.End>>20, limit>>20, verdict(i.End <= limit)),
		fmt.Sprintf("memory for each object in Git after the first %d: ", firstObjects) + slope(object, objectLimit, i.Objects) + "; for each NodeClaim or Node: " + slope(claim, claimLimit, 2*i.Nodes),
	}
}
