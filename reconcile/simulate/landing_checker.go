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
	// Every is how long an answer is valid while what was simulated has not started.
	Every = 10 * time.Minute
	// repeatAfter is when a simulation is repeated that failed or found unschedulable pods; for the latter, the interval
	// then grows.
	repeatAfter = time.Minute
	// minInterval is how long after an answer it is simulated again if a pool has changed.
	minInterval = 20 * time.Second
	// simulationTimeout is the timeout of a simulation.
	simulationTimeout = 2 * time.Minute
)

// LandingChecker simulates for one NodeSync in the background of its reconciles, one question at a time, and keeps the
// last answer. The zero value is ready to use.
type LandingChecker struct {
	mu     sync.Mutex
	asking bool
	// about is the question of the answer, asked is when it was simulated, and pools are the pools that existed then.
	about, pools string
	asked        time.Time
	answer       plan.Landing
	// until is when it is simulated again, and waits the interval since the previous answer.
	until time.Time
	waits time.Duration
}

// For returns the function with which a Plan of a Set gets its answer from a Simulator; nil if there is no Simulator. A
// commit that changes no definition requires no new simulation. A new value of requested means that a person requests a
// new simulation. done is called when there is a new answer.
func (a *LandingChecker) For(
	s *Simulator, now time.Time, requested string, done func(),
) func(context.Context, *render.Set, *plan.Plan, plan.Live) (plan.Landing, time.Time) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, set *render.Set, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
		return a.answerTo(ctx, question{
			about: fmt.Sprint(set.Fingerprint(), made.StartIfSchedulable(), made.Approvals(), live.LeavingElsewhere),
			pools: requested + "\n" + poolsOf(made, live), done: done,
			ask: func(ctx context.Context) (map[string][]plan.Unschedulable, error) { return s.Ask(ctx, made, live) },
		}, now)
	}
}

// question is what to simulate.
type question struct {
	// about identifies the Plan, and which of its removals start: another value is another question. With other pools
	// it is the same question, but the answer may differ.
	about, pools string
	// ask returns the answer, and done is called when it has.
	ask  func(context.Context) (map[string][]plan.Unschedulable, error)
	done func()
}

// answerTo returns the known answer, and when to check again. It does not wait: an unknown answer is simulated in a
// goroutine, which terminates within two minutes.
func (a *LandingChecker) answerTo(ctx context.Context, q question, now time.Time) (plan.Landing, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, until := a.about == q.about && !a.until.IsZero(), a.until
	if changed := a.asked.Add(minInterval); q.pools != a.pools && changed.Before(until) {
		until = changed
	}
	if !a.asking && (!known || !now.Before(until)) {
		a.asking = true
		go a.simulate(context.WithoutCancel(ctx), q, now)
	}
	if a.asking {
		until = now.Add(simulationTimeout) // done is called before
	}
	if known {
		return a.answer, until
	}
	return plan.Landing{Asking: true}, until
}

// poolsOf returns the NodePools of the cluster that stay, each with the fields that show whether it takes pods.
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

func (a *LandingChecker) simulate(ctx context.Context, q question, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, simulationTimeout)
	defer cancel()
	found, err := q.ask(ctx)
	a.mu.Lock()
	switch {
	case len(found) == 0 && err == nil:
		a.waits = Every
	case err != nil || a.about != q.about || len(a.answer.Nowhere) == 0:
		a.waits = repeatAfter
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

// largestCluster is the maximum number of pods of a cluster that is simulated with all its nodes: more do not fit into
// a child process's memory and time.
const largestCluster = 5000

// maxPods is how many pods of the terminating nodes of a larger cluster are simulated, so that it fits into a child
// process's processor time: some of each workload, because the pods of a workload are alike.
const maxPods = 2000

// Simulator simulates; it is the same for all NodeSyncs.
type Simulator struct {
	// Reader reads past the cache.
	Reader client.Reader
	// Namespaces are those in which Karpenter may run; if empty, all.
	Namespaces []string
	// Catalogs are what EC2 offers.
	Catalogs *Catalogs
	// Confine simulates in child processes. If nil, the simulation runs in this process.
	Confine *confine.Runner
	Now     func() time.Time
}

// Ask returns, by pool, the pods of the pools that a Plan removes that cannot be scheduled elsewhere. For removals that
// are not held, it assumes that the held ones stay. For held ones, it assumes that they start together with everything
// else that people may approve, because one approval covers all of it.
func (s *Simulator) Ask(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error) {
	found, err := s.landingFor(ctx, made, live)
	if err != nil || len(made.Withheld()) == 0 && (len(found) == 0 || len(made.Approvals()) == 0) {
		return found, err
	}
	together, err := s.landingFor(ctx, made.AsApproved(), live)
	if err != nil {
		return nil, err
	}
	begins := made.StartIfSchedulable()
	for pool, pods := range together {
		if !slices.Contains(begins, render.NodePool+"/"+pool) || len(found[pool]) > 0 {
			found[pool] = pods
		}
	}
	return found, nil
}

// landingFor is like Ask, for the removals that a Plan starts.
func (s *Simulator) landingFor(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error) {
	if len(made.StartIfSchedulable()) == 0 {
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

// byPool groups pods by the pool whose removal starts and on whose nodes they run, or whose removal takes their place:
// a pod of a pool that is already being removed counts if it could be scheduled as long as no other removal starts.
func (s *Simulator) byPool(
	ctx context.Context, made *plan.Plan, live plan.Live, nowhere []Stranded, large bool,
) (map[string][]plan.Unschedulable, error) {
	found, begins := map[string][]plan.Unschedulable{}, map[string]bool{}
	for _, name := range made.StartIfSchedulable() {
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
	before, err := s.simulate(ctx, made.WithoutStarting(), live, large)
	if err != nil {
		return nil, err
	}
	for _, pod := range others {
		if slices.ContainsFunc(before.Nowhere, func(b Stranded) bool { return b.Pod == pod.Pod }) {
			continue
		}
		for pool := range begins {
			found[pool] = append(found[pool], plan.Unschedulable{
				Pod: pod.Pod + " of NodePool/" + pod.Pool + ", which is also being removed", Workload: pod.Workload, Reason: pod.Reason,
			})
		}
	}
	return found, nil
}

// simulate simulates the cluster, or only the nodes that are terminated.
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

// pods counts the pods of the cluster.
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

// read reads the cluster, or only the nodes that are terminated, and returns what to simulate for the Plan.
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
	c.Pods = some(c.Pods, maxPods)
	return c, Ending(made, live, c.Definitions), nil
}

// some returns at most a number of pods, about as many of each workload.
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
