package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// Every is how long an answer counts, as long as what was asked about has not begun.
	Every = 10 * time.Minute
	// again is when what could not be found out is asked again, and what has no place; that then at longer and
	// longer intervals.
	again = time.Minute
	// soon is how long after an answer a pool that has changed is asked about.
	soon = 20 * time.Second
	// patience is how long an answer is waited for.
	patience = 2 * time.Minute
)

// LandingAsker asks for one NodeSync beside its reconciles, one question at a time, and keeps the last answer. The
// zero value has asked nothing.
type LandingAsker struct {
	mu     sync.Mutex
	asking bool
	// about is what the answer is to, which was asked for at a time, and pools are those that there were then.
	about, pools string
	asked        time.Time
	answer       plan.Landing
	// until is when it is asked again, and waits how long was waited since the answer before.
	until time.Time
	waits time.Duration
}

// For returns what answers for a Plan of a Set by a Simulator, which is the Plan's without an answer; nil if there is no
// Simulator. A commit that changes no definition asks nothing new.
// requested is another one if a person wants another look, and done is called when there is a new answer.
func (a *LandingAsker) For(s *Simulator, now time.Time, requested string, done func()) func(context.Context, *render.Set, *plan.Plan, plan.Live) (plan.Landing, time.Time) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, set *render.Set, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
		return a.answerTo(ctx, question{
			about: fmt.Sprint(set.Fingerprint(), made.Begins(), made.Approvals(), live.LeavingElsewhere), pools: requested + "\n" + poolsOf(made, live), done: done,
			ask: func(ctx context.Context) (map[string][]plan.Unschedulable, error) { return s.Ask(ctx, made, live) },
		}, now)
	}
}

// question is what is asked.
type question struct {
	// about names the Plan, and what of it begins: another name is another question. With other pools it is the same one,
	// whose answer may be another.
	about, pools string
	// ask answers, and done is called when it has.
	ask  func(context.Context) (map[string][]plan.Unschedulable, error)
	done func()
}

// answerTo is what is known, and when to look again. It does not wait: what is not known is asked in a goroutine,
// which ends within two minutes.
func (a *LandingAsker) answerTo(ctx context.Context, q question, now time.Time) (plan.Landing, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, until := a.about == q.about && !a.until.IsZero(), a.until
	if changed := a.asked.Add(soon); q.pools != a.pools && changed.Before(until) {
		until = changed
	}
	if !a.asking && (!known || !now.Before(until)) {
		a.asking = true
		go a.ask(context.WithoutCancel(ctx), q, now)
	}
	if a.asking {
		until = now.Add(patience) // done comes before
	}
	if known {
		return a.answer, until
	}
	return plan.Landing{Asking: true}, until
}

// poolsOf are the NodePools of the cluster that stay, each with what of it reports whether it takes pods.
func poolsOf(made *plan.Plan, live plan.Live) string {
	leaving := made.Leaving(live)
	var pools []string
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool && !slices.Contains(leaving, ref) {
			pools = append(pools, fmt.Sprint(ref.Name, " ", object.GetGeneration(), " ", cluster.Ready(object).Ready))
		}
	}
	slices.Sort(pools)
	return strings.Join(pools, "\n")
}

func (a *LandingAsker) ask(ctx context.Context, q question, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := q.ask(ctx)
	a.mu.Lock()
	switch {
	case len(found) == 0 && err == nil:
		a.waits = Every
	case err != nil || a.about != q.about || len(a.answer.Nowhere) == 0:
		a.waits = again
	default:
		a.waits = min(2*a.waits, Every)
	}
	a.asked, a.pools = now, q.pools
	a.asking, a.about, a.answer, a.until = false, q.about, plan.Landing{Known: true, Nowhere: found}, now.Add(a.waits)
	if err != nil {
		a.answer = plan.Landing{Unknown: err.Error()}
	}
	a.mu.Unlock()
	q.done()
}

// largest is how many pods a cluster has at the most of which all nodes are taken: with its nodes that is what a child
// process simulates within its memory and its time.
const largestCluster = 5000

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
	out, err := s.simulate(ctx, made, live, pods > largestCluster)
	if exceeded := (*confine.LimitError)(nil); errors.As(err, &exceeded) && pods <= largestCluster {
		out, err = s.simulate(ctx, made, live, true)
	}
	switch {
	case err != nil:
		return nil, err
	case len(out.Unknown) > 0 && len(out.Nowhere) > 0:
		return nil, errors.New(out.Unknown[0])
	}
	return s.byPool(ctx, made, live, out.Nowhere, pods > largestCluster)
}

// byPool are pods by the pool that begins to leave, whose nodes they run on or whose going takes their place: one of a pool
// that goes already counts where it has a place as long as no other begins.
func (s *Simulator) byPool(ctx context.Context, made *plan.Plan, live plan.Live, nowhere []Stranded, large bool) (map[string][]plan.Unschedulable, error) {
	found, begins := map[string][]plan.Unschedulable{}, map[string]bool{}
	for _, name := range made.Begins() {
		begins[strings.TrimPrefix(name, render.NodePool+"/")] = true
	}
	var others []Stranded
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
		if slices.ContainsFunc(before.Nowhere, func(b Stranded) bool { return b.Pod == pod.Pod }) {
			continue
		}
		for pool := range begins {
			found[pool] = append(found[pool], plan.Unschedulable{Pod: pod.Pod + " of NodePool/" + pod.Pool + ", which is also being removed", Workload: pod.Workload, Reason: pod.Reason})
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
func (s *Simulator) read(ctx context.Context, made *plan.Plan, live plan.Live, large bool) (*Capture, Commit, error) {
	if !large {
		c, err := ReadCapture(ctx, s.Reader, s.Now(), s.Namespaces...)
		if err != nil {
			return nil, Commit{}, err
		}
		return c, Ending(made, live, c.Definitions), nil
	}
	touched, ending := Ending(made, live, nil).Touched, map[string]bool{}
	for i := range live.NodeClaims {
		if n := &live.NodeClaims[i]; touched[n.UID] && n.Node != "" {
			ending[n.Node] = true
		}
	}
	c, err := ReadNodes(ctx, s.Reader, s.Now(), func(node string) bool { return ending[node] }, s.Namespaces...)
	if err != nil {
		return nil, Commit{}, err
	}
	c.Pods = some(c.Pods, mostPods)
	return c, Ending(made, live, c.Definitions), nil
}

// some are at most so many pods, of each workload about as many.
func some(pods []corev1.Pod, most int) []corev1.Pod {
	if len(pods) <= most {
		return pods
	}
	var workloads []types.UID
	of := map[types.UID][]corev1.Pod{}
	for i := range pods {
		owner := pods[i].UID
		if controller := metav1.GetControllerOf(&pods[i]); controller != nil {
			owner = cmp.Or(controller.UID, owner)
		}
		if of[owner] == nil {
			workloads = append(workloads, owner)
		}
		of[owner] = append(of[owner], pods[i])
	}
	found := make([]corev1.Pod, 0, most)
	for round := 0; len(found) < most; round++ {
		for _, owner := range workloads {
			if round < len(of[owner]) && len(found) < most {
				found = append(found, of[owner][round])
			}
		}
	}
	return found
}
