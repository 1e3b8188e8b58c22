package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

// Simulate says what would become of pods. Within one simulation Karpenter counts each new node as the largest instance type
// that it may be against the limits of its pool, and leaves the pods beyond them for later. So it is repeated with the new nodes as the smallest
// that they may be, as Lands does, until every pod has a place, or a round launches no node.
func Simulate(ctx context.Context, c *capture.Capture, commit Commit, offers Offers) (*Outcome, error) {
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	before, err := newWorld(ctx, c, c.Definitions, offers, nil)
	if err != nil {
		return nil, fmt.Errorf("the cluster as it is: %w", err)
	}
	s := &simulation{capture: c, commit: commit, before: before, fresh: map[string]*NewNodes{}}
	if err := s.land(ctx, offers); err != nil {
		return nil, err
	}
	if err := s.repeat(ctx, offers); err != nil {
		return nil, err
	}
	s.unlaunchable(ctx, offers.Region())
	s.price(ctx, offers)
	s.note()
	return s.out, nil
}

// land simulates the cluster after the commit.
func (s *simulation) land(ctx context.Context, offers Offers) (err error) {
	definitions, unknown, notes := ready(s.capture.Definitions, s.commit.Definitions)
	if s.after, err = newWorld(ctx, s.capture, definitions, offers, s.commit.Touched); err != nil {
		return fmt.Errorf("the cluster after the commit: %w", err)
	}
	s.out = &Outcome{Unknown: unknown, Notes: append(unknown, notes...)}
	return s.take(ctx)
}

// simulation is one on its way.
type simulation struct {
	capture *capture.Capture
	commit  Commit
	// before is nil where nobody asks for it.
	before, after *world
	out           *Outcome
	// pools are those of nodes, by the node's name, and touched the nodes that the commit ends.
	pools   map[string]string
	touched map[string]bool
	results scheduling.Results
	// fresh are the nodes that earlier rounds have launched, by name.
	fresh map[string]*NewNodes
}

// repeat simulates on with the nodes that have been launched, and adds what later rounds find.
func (s *simulation) repeat(ctx context.Context, offers Offers) error {
	last := s
	for round := 1; len(last.out.Nowhere) > 0 && len(last.results.NewNodeClaims) > 0; round++ {
		if round == mostRounds {
			s.out.Notes = append(s.out.Notes, fmt.Sprintf("not determined in %d rounds: where %d more pods go", mostRounds, len(last.out.Nowhere)))
			s.out.Nowhere = nil
			break
		}
		next := &simulation{capture: last.launched(), commit: s.commit, before: s.before, fresh: s.fresh}
		if err := next.land(ctx, offers); err != nil {
			return err
		}
		s.out.Moves, s.out.Placed = append(s.out.Moves, next.out.Moves...), append(s.out.Placed, next.out.Placed...)
		s.out.Nowhere = next.out.Nowhere
		last = next
	}
	s.out.Moves = summed(s.out.Moves)
	s.sort()
	s.launches(last.results.NewNodeClaims)
	return nil
}

// summed has each way once.
func summed(moves []Move) []Move {
	counts := map[Move]int{}
	for _, move := range moves {
		pods := move.Pods
		move.Pods = 0
		counts[move] += pods
	}
	var all []Move
	for move, n := range counts {
		move.Pods = n
		all = append(all, move)
	}
	slices.SortFunc(all, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(fmt.Sprint(a.New), fmt.Sprint(b.New)))
	})
	return all
}

// take simulates, and sorts out what became of each pod.
func (s *simulation) take(ctx context.Context) error {
	s.nodes()
	leaving, err := s.leaving(ctx)
	if err != nil {
		return err
	}
	pending, err := s.pending(ctx)
	if err != nil {
		return err
	}
	results, err := s.after.schedule(ctx)
	switch {
	case errors.Is(err, provisioning.ErrNodePoolsNotFound):
		s.none(leaving, pending, err)
		return nil
	case err != nil:
		return fmt.Errorf("simulate the scheduling: %w", err)
	}
	s.results = results
	placed := s.moves()
	s.strand(ctx, leaving, pending, placed)
	return nil
}

// nodes finds which pool each node is of, and which of them end.
func (s *simulation) nodes() {
	s.pools, s.touched = map[string]string{}, map[string]bool{}
	for i := range s.capture.Nodes {
		node := &s.capture.Nodes[i]
		s.pools[node.Name] = node.Labels[karpv1.NodePoolLabelKey]
	}
	for i := range s.capture.NodeClaims {
		claim := &s.capture.NodeClaims[i]
		if s.commit.Touched[claim.UID] {
			s.out.Ending++
			s.touched[claim.Status.NodeName] = claim.Status.NodeName != ""
		}
	}
}

// leaving are the pods of nodes that end which would be scheduled again now. Those that may not
// be evicted are noted.
func (s *simulation) leaving(ctx context.Context) (map[client.ObjectKey]*corev1.Pod, error) {
	limits, err := pdb.NewLimits(ctx, s.after.client)
	if err != nil {
		return nil, fmt.Errorf("read the PodDisruptionBudgets: %w", err)
	}
	found := map[client.ObjectKey]*corev1.Pod{}
	for i := range s.capture.Pods {
		pod := &s.capture.Pods[i]
		if !s.touched[pod.Spec.NodeName] || !podutil.IsReschedulable(pod) {
			continue
		}
		if limits.IsCurrentlyReschedulable(pod, s.after.clock, s.after.recorder) {
			found[client.ObjectKeyFromObject(pod)] = pod
			continue
		}
		why := "a PodDisruptionBudget never allows its eviction"
		if !podutil.IsDisruptable(pod, s.after.clock, s.after.recorder) {
			why = karpv1.DoNotDisruptAnnotationKey
		}
		s.out.Staying = append(s.out.Staying, Blocked{Pod: client.ObjectKeyFromObject(pod).String(), Node: pod.Spec.NodeName, Why: why})
	}
	s.out.Leaving = len(found)
	return found, nil
}

// pending are the pods that wait for a place today, with the reason for which none would come;
// empty for those that get one without the commit.
func (s *simulation) pending(ctx context.Context) (map[client.ObjectKey]string, error) {
	waiting := map[client.ObjectKey]string{}
	if s.before == nil {
		return waiting, nil
	}
	for i := range s.capture.Pods {
		if pod := &s.capture.Pods[i]; podutil.IsProvisionable(pod) {
			waiting[client.ObjectKeyFromObject(pod)] = ""
		}
	}
	if len(waiting) == 0 {
		return waiting, nil
	}
	results, err := s.before.schedule(ctx)
	if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
		for key := range waiting {
			waiting[key] = err.Error()
		}
		return waiting, nil
	}
	if err != nil {
		return nil, fmt.Errorf("simulate the scheduling of pending pods: %w", err)
	}
	for pod, why := range failures(results) {
		if _, ok := waiting[client.ObjectKeyFromObject(pod)]; ok {
			waiting[client.ObjectKeyFromObject(pod)] = why.Error()
		}
	}
	for key, why := range s.before.recorder.said {
		if _, ok := waiting[key]; ok && waiting[key] == "" {
			waiting[key] = why
		}
	}
	return waiting, nil
}

// failures are the pods that find no place. One that goes to a node which is on its way has one.
func failures(results scheduling.Results) map[*corev1.Pod]error {
	found := map[*corev1.Pod]error{}
	for pod, err := range results.PodErrors {
		var coming *disruption.UninitializedNodeError
		if !errors.As(err, &coming) {
			found[pod] = err
		}
	}
	return found
}

// none has every pod find no place, as there is no pool left.
func (s *simulation) none(leaving map[client.ObjectKey]*corev1.Pod, pending map[client.ObjectKey]string, err error) {
	for key, pod := range leaving {
		s.out.Nowhere = append(s.out.Nowhere, Stranded{Pod: key.String(), Workload: workloadOf(pod), Pool: s.pools[pod.Spec.NodeName], Node: pod.Spec.NodeName, Reason: err.Error()})
	}
	for key, why := range pending {
		s.out.Nowhere = append(s.out.Nowhere, Stranded{Pod: key.String(), Already: why != "", Reason: err.Error()})
	}
	s.out.Notes = append(s.out.Notes, "no NodePool is left that could launch a node: Karpenter does not simulate, and what fits on the nodes that stay is up to kube-scheduler")
	s.sort()
}

func (s *simulation) sort() {
	slices.SortFunc(s.out.Nowhere, func(a, b Stranded) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.Sort(s.out.Placed)
}
