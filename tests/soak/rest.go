package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

// settled is the maximum time that a daemon takes to start all watches and caches.
const settled = 10 * time.Second

// rests are the times at which all was quiet.
type rests struct {
	count   int
	longest time.Duration
	at      time.Time
	// nodes are the instances that ran then, with their pools.
	nodes map[string]string
}

// rest ends all faults, repairs the repository, and checks that the cluster becomes in sync with Git, that no node was
// lost on the way and that nothing leaks.
func (s *soak) rest(ctx context.Context) error {
	if err := s.endFaults(ctx, time.Now().Add(longestFault)); err != nil {
		return err
	}
	if s.fleet.amiss() {
		what, err := s.mend(ctx)
		if err != nil {
			return err
		}
		s.journal.did("mend", what)
	}
	if s.setBack {
		what, err := s.writeNotes(ctx)
		if err != nil {
			return err
		}
		s.journal.did("notes", what)
	}
	began := time.Now()
	if err := s.until(ctx, s.restless); err != nil {
		return fmt.Errorf("%w: it does not come to rest: %w", errViolation, err)
	}
	took := time.Since(began)
	running := s.nodes()
	if err := lost(s.rests.nodes, running, func(pool string) bool { return s.history.kept(pool, s.rests.at, time.Now()) }); err != nil {
		return err
	}
	s.rests.count++
	s.rests.longest = max(s.rests.longest, took)
	s.rests.at, s.rests.nodes = time.Now(), running
	s.journal.say("at rest after %.1fs: pools %s, %d nodes", took.Seconds(), strings.Join(s.fleet.poolNames(), " "), len(running))
	return s.takeSamples(ctx)
}

// takeSamples compares each daemon's resource usage with that of earlier ones in the same role.
func (s *soak) takeSamples(ctx context.Context) error {
	leader := s.leader(ctx)
	for _, r := range s.replicas {
		taken, err := r.sample(ctx)
		if err != nil {
			return err
		}
		place := follows
		if r == leader {
			place = leads
		}
		s.journal.say("%s %s: %s", r.name, place, taken)
		if err := s.leaks.add(place, taken); err != nil {
			return err
		}
	}
	return nil
}

// restless returns what is not quiet.
func (s *soak) restless(ctx context.Context) error {
	if err := errors.Join(s.revive(ctx), s.attended(ctx)); err != nil {
		return err
	}
	head, err := s.repo.Head(ctx)
	if err != nil {
		return err
	}
	sync, err := s.sync(ctx)
	if err != nil {
		return err
	}
	if c := claimOf(sync); c != (claim{commit: head, ready: true}) {
		return fmt.Errorf("HEAD is %s and the NodeSync says of %s: %v", head, c.commit, condition(sync, "Ready"))
	}
	live, err := s.live(ctx)
	if err != nil {
		return err
	}
	if what := difference(live, nil, s.fleet); what != "" {
		return errors.New(what)
	}
	if removals, _, _ := unstructured.NestedSlice(sync.Object, "status", "removals"); len(removals) > 0 {
		return fmt.Errorf("removals are open: %v", removals)
	}
	for _, look := range []func(context.Context) error{s.recorded, s.reported, s.strayed, s.replaced, s.pending} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// attended returns an error if a daemon does not run, has just started, or may be about to find out that it has lost
// the lease.
func (s *soak) attended(ctx context.Context) error {
	for _, r := range s.replicas {
		if !r.Running() || time.Since(r.started) < settled || time.Since(r.disturbed) < settled {
			return fmt.Errorf("daemon %s has only begun, or was disturbed", r.name)
		}
	}
	return s.leader(ctx).Leads(ctx)
}

// recorded returns an error if a removal is still recorded. For a completed one, the record may contain pods that no
// pool can run.
func (s *soak) recorded(ctx context.Context) error {
	const name = "plumbline-" + syncName
	record, err := s.sandbox.Kube.Client.CoreV1().ConfigMaps(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	open, err := daemon.OpenRemovals(record)
	if err != nil || len(open) > 0 || s.allPlaced() {
		return errors.Join(fmt.Errorf("configmap %s is left of a removal: %v", name, record.Data), err)
	}
	return nil
}

// allPlaced reports whether each workload has a pool to run in.
func (s *soak) allPlaced() bool {
	for _, l := range s.loads {
		if l.replicas > 0 && !l.placed(s.fleet) {
			return false
		}
	}
	return true
}

// reported returns an error if a commit's status is wrong.
func (s *soak) reported(ctx context.Context) error {
	head, err := s.repo.Head(ctx)
	if err != nil {
		return err
	}
	newest, err := s.newest(ctx, head)
	if err != nil {
		return err
	}
	if newest.State != "success" {
		return fmt.Errorf("commit %s is %q: %s", head, newest.State, newest.Description)
	}
	for _, commit := range s.history.amiss() {
		newest, err := s.newest(ctx, commit)
		if err == nil {
			err = praised(commit, newest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// superseded is the prefix of a commit's status that a later commit has caused.
const superseded = "superseded by "

// praised returns an error if a commit that must not be followed has the status success.
func praised(commit string, newest githost.Status) error {
	if newest.State == "success" && !strings.HasPrefix(newest.Description, superseded) {
		return fmt.Errorf("commit %s, which must not be followed, is %q: %s", commit, newest.State, newest.Description)
	}
	return nil
}

// newest returns the newest status of a commit.
func (s *soak) newest(ctx context.Context, commit string) (githost.Status, error) {
	all, err := s.repo.Statuses(ctx, commit)
	all = githost.On("", all)
	if err != nil || len(all) == 0 {
		return githost.Status{}, err
	}
	return all[len(all)-1], nil
}

// strayed returns an error if there is an unwanted instance.
func (s *soak) strayed(ctx context.Context) error {
	claims, err := s.objects.Resource(claimResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claimed := map[string]bool{}
	for _, claim := range claims.Items {
		id, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
		claimed[id[strings.LastIndex(id, "/")+1:]] = true
	}
	return stray(s.nodes(), claimed, s.fleet)
}

// stray returns an error if one of the instances, given with their pools, belongs to no pool in Git or to no NodeClaim.
func stray(running map[string]string, claimed map[string]bool, f fleet) error {
	for id, pool := range running {
		if !f.has(nodePools, pool) {
			return fmt.Errorf("instance %s is of pool %s, which Git does not have", id, pool)
		}
		if !claimed[id] {
			return fmt.Errorf("instance %s of pool %s has no NodeClaim", id, pool)
		}
	}
	return nil
}

// pending returns an error if pods do not run although they have a pool to run in.
func (s *soak) pending(ctx context.Context) error {
	for name, l := range s.loads {
		if !l.placed(s.fleet) {
			continue
		}
		d, err := s.sandbox.Kube.Client.AppsV1().Deployments(workload.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != l.replicas {
			return fmt.Errorf("%d pods of %s's %d are available in pool %q", d.Status.AvailableReplicas, name, l.replicas, l.pool)
		}
	}
	return nil
}

// lost returns an error if one of the instances that ran before, given with their pools, has terminated although Git
// has kept its pool unchanged.
func lost(before, running map[string]string, kept func(pool string) bool) error {
	for id, pool := range before {
		if _, runs := running[id]; !runs && kept(pool) {
			return fmt.Errorf("%w: instance %s runs no more, and each HEAD since the last rest had pool %s and its class as they are; those that run: %v", errViolation, id, pool, running)
		}
	}
	return nil
}

// nodes returns the instances that EC2 bills, with their pools.
func (s *soak) nodes() map[string]string {
	nodes := map[string]string{}
	for _, i := range s.sandbox.AWS.Instances() {
		if slices.Contains([]string{"pending", "running"}, i.State) {
			nodes[i.ID] = i.Tags[poolTag]
		}
	}
	return nodes
}

func (s *soak) summarize() {
	s.journal.say("did: %s", s.journal.counts())
	if s.checks != nil {
		s.journal.say("the daemon deleted: %v; at rest %d times, the longest wait %s; %s", s.checks.deletes, s.rests.count, s.rests.longest.Round(time.Second), s.leaks)
	}
}
