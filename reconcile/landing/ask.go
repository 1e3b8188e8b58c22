package landing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/whatif"
	"github.com/plumbline-dev/plumbline/render"
)

// largest is how many pods a cluster has at the most of which all nodes are taken: with its nodes that is what a child
// process simulates within its memory and its time.
const largest = 5000

// mostPods is how many pods of the nodes that end are taken of a larger one, so that it is done within a child's
// processor time: some of each workload, as those of one are alike.
const mostPods = 2000

// Simulator simulates, the same for all NodeSyncs.
type Simulator struct {
	// Reader reads past the cache.
	Reader client.Reader
	// Namespaces are those that Karpenter may be in; none: all.
	Namespaces []string
	// Catalogs are what EC2 offers.
	Catalogs *Catalogs
	// Confine simulates in child processes; nil in this one.
	Confine *confine.Runner
	Now     func() time.Time
}

// Ask is which pods of the pools that leave by a Plan find no place elsewhere, by pool. For what goes ahead, what is held
// stays. For what is held, it goes with all else that people may approve: one approval is of it all.
func (s *Simulator) Ask(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error) {
	found, err := s.askFor(ctx, made, live)
	if err != nil || len(made.Withheld()) == 0 && (len(found) == 0 || len(made.Approvals()) == 0) {
		return found, err
	}
	together, err := s.askFor(ctx, made.AsApproved(), live)
	if err != nil {
		return nil, err
	}
	begins := made.Begins()
	for pool, pods := range together {
		if !slices.Contains(begins, render.NodePool+"/"+pool) || len(found[pool]) > 0 {
			found[pool] = pods
		}
	}
	return found, nil
}

// askFor is the same for the removals that a Plan begins.
func (s *Simulator) askFor(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error) {
	if len(made.Begins()) == 0 {
		return map[string][]plan.Unschedulable{}, nil
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.simulate(ctx, made, live, pods > largest)
	if exceeded := (*confine.LimitError)(nil); errors.As(err, &exceeded) && pods <= largest {
		out, err = s.simulate(ctx, made, live, true)
	}
	switch {
	case err != nil:
		return nil, err
	case len(out.Unknown) > 0 && len(out.Nowhere) > 0:
		return nil, errors.New(out.Unknown[0])
	}
	return s.byPool(ctx, made, live, out.Nowhere, pods > largest)
}

// byPool are pods by the pool that begins to leave, whose nodes they run on or whose going takes their place: one of a pool
// that goes already counts where it has a place as long as no other begins.
func (s *Simulator) byPool(ctx context.Context, made *plan.Plan, live plan.Live, nowhere []whatif.Stranded, large bool) (map[string][]plan.Unschedulable, error) {
	found, begins := map[string][]plan.Unschedulable{}, map[string]bool{}
	for _, name := range made.Begins() {
		begins[strings.TrimPrefix(name, render.NodePool+"/")] = true
	}
	var others []whatif.Stranded
	for _, pod := range nowhere {
		if !begins[pod.Pool] {
			others = append(others, pod)
			continue
		}
		found[pod.Pool] = append(found[pod.Pool], plan.Unschedulable{Pod: pod.Pod, Workload: pod.Workload, Reason: pod.Reason})
	}
	if len(others) == 0 {
		return found, nil
	}
	before, err := s.simulate(ctx, made.WithoutBegins(), live, large)
	if err != nil {
		return nil, err
	}
	for _, pod := range others {
		if slices.ContainsFunc(before.Nowhere, func(b whatif.Stranded) bool { return b.Pod == pod.Pod }) {
			continue
		}
		for pool := range begins {
			found[pool] = append(found[pool], plan.Unschedulable{Pod: pod.Pod + " of NodePool/" + pod.Pool + ", which leaves as well", Workload: pod.Workload, Reason: pod.Reason})
		}
	}
	return found, nil
}

// simulate simulates the cluster, or only the nodes that end.
func (s *Simulator) simulate(ctx context.Context, made *plan.Plan, live plan.Live, large bool) (answered, error) {
	c, commit, err := s.read(ctx, made, live, large)
	if err != nil {
		return answered{}, err
	}
	catalog, err := s.Catalogs.of(ctx, c.Region(), s.Now())
	if err != nil {
		return answered{}, err
	}
	return simulate(ctx, s.Confine, c, catalog, commit)
}

// pods counts those of the cluster.
func (s *Simulator) pods(ctx context.Context) (int64, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := s.Reader.List(ctx, list, client.Limit(1)); err != nil {
		return 0, fmt.Errorf("count the pods: %w", err)
	}
	n := int64(len(list.Items))
	if more := list.RemainingItemCount; more != nil {
		n += *more
	}
	return n, nil
}

// read reads the cluster, or only the nodes that end, and makes of the Plan what is to be simulated.
func (s *Simulator) read(ctx context.Context, made *plan.Plan, live plan.Live, large bool) (*capture.Capture, whatif.Commit, error) {
	if !large {
		c, err := capture.Read(ctx, s.Reader, s.Now(), s.Namespaces...)
		if err != nil {
			return nil, whatif.Commit{}, err
		}
		return c, whatif.Ending(made, live, c.Definitions), nil
	}
	touched, ending := whatif.Ending(made, live, nil).Touched, map[string]bool{}
	for i := range live.NodeClaims {
		if n := &live.NodeClaims[i]; touched[n.UID] && n.Node != "" {
			ending[n.Node] = true
		}
	}
	c, err := capture.ReadNodes(ctx, s.Reader, s.Now(), func(node string) bool { return ending[node] }, s.Namespaces...)
	if err != nil {
		return nil, whatif.Commit{}, err
	}
	c.Pods = some(c.Pods, mostPods)
	return c, whatif.Ending(made, live, c.Definitions), nil
}
