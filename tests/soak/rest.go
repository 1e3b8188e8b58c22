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

// rests are the moments at which all was quiet.
type rests struct {
	count   int
	longest time.Duration
	at      time.Time
	// nodes are the instances that ran then, with their pools.
	nodes map[string]string
}

// rest ends all faults, mends the repository, and holds that everything comes to
// be as Git says, that no node was lost on the way and that nothing leaks.
func (s *soak) rest(ctx context.Context) error {
	if err := s.endFaults(ctx, time.Now().Add(longestFault)); err != nil {
		return err
	}
	if s.fleet.broken {
		what, err := s.mend(ctx)
		if err != nil {
			return err
		}
		s.journal.did("mend", what)
	}
	began := time.Now()
	if err := s.until(ctx, s.restless); err != nil {
		return fmt.Errorf("violation: it does not come to rest %w", err)
	}
	took := time.Since(began)
	if err := s.lost(); err != nil {
		return err
	}
	sample, err := s.sample(ctx)
	if err != nil {
		return err
	}
	s.rests.count++
	s.rests.longest = max(s.rests.longest, took)
	s.rests.at, s.rests.nodes = time.Now(), s.nodes()
	s.journal.say("at rest after %.1fs: pools %s, %d nodes; %s", took.Seconds(), strings.Join(s.fleet.poolNames(), " "), len(s.rests.nodes), sample)
	return s.leaks.add(sample)
}

// restless says what is not at rest.
func (s *soak) restless(ctx context.Context) error {
	head, err := s.repo.Head(ctx)
	if err != nil {
		return err
	}
	sync, err := s.sync(ctx)
	if err != nil {
		return err
	}
	if commit, ready := readyAt(sync); !ready || commit != head {
		return fmt.Errorf("HEAD is %s and the NodeSync says of %s: %v", head, commit, condition(sync, "Ready"))
	}
	if untrue, err := s.unlike(ctx, s.fleet); err != nil || untrue != "" {
		return fmt.Errorf("%s: %w", untrue, err)
	}
	for _, look := range []func(context.Context, *unstructured.Unstructured) error{s.recorded, s.reported, s.stray, s.pending} {
		if err := look(ctx, sync); err != nil {
			return err
		}
	}
	return nil
}

// recorded says that a removal is still on record.
func (s *soak) recorded(ctx context.Context, sync *unstructured.Unstructured) error {
	if removals, _, _ := unstructured.NestedSlice(sync.Object, "status", "removals"); len(removals) > 0 {
		return fmt.Errorf("removals are open: %v", removals)
	}
	const name = "plumbline-" + syncName
	_, err := s.sandbox.Kube.Client.CoreV1().ConfigMaps(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("configmap %s is left of a removal", name), err)
}

// reported says that the commit's status is another than the NodeSync's, or that
// a commit that does not render was called good.
func (s *soak) reported(ctx context.Context, _ *unstructured.Unstructured) error {
	head, err := s.repo.Head(ctx)
	if err != nil {
		return err
	}
	if newest, err := s.newest(ctx, head); err != nil || newest.State != "success" {
		return fmt.Errorf("commit %s is %q: %w", head, newest.State, err)
	}
	for _, commit := range s.history.broken() {
		newest, err := s.newest(ctx, commit)
		if err != nil || newest.State == "success" && !strings.HasPrefix(newest.Description, superseded) {
			return fmt.Errorf("commit %s, which does not render, is %q: %s: %w", commit, newest.State, newest.Description, err)
		}
	}
	return nil
}

// superseded begins what is said of a commit for the sake of a later one.
const superseded = "superseded by "

// newest is the last that was said of a commit.
func (s *soak) newest(ctx context.Context, commit string) (githost.Status, error) {
	all, err := s.repo.Statuses(ctx, commit)
	if err != nil || len(all) == 0 {
		return githost.Status{}, err
	}
	return all[len(all)-1], nil
}

// stray says that there is an instance that nobody wants.
func (s *soak) stray(ctx context.Context, _ *unstructured.Unstructured) error {
	claims, err := s.objects.Resource(claimResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claimed := map[string]bool{}
	for _, claim := range claims.Items {
		id, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
		claimed[id[strings.LastIndex(id, "/")+1:]] = true
	}
	for id, pool := range s.nodes() {
		if !s.fleet.has(nodePools, pool) {
			return fmt.Errorf("instance %s is of pool %s, which Git does not have", id, pool)
		}
		if !claimed[id] {
			return fmt.Errorf("instance %s of pool %s has no NodeClaim", id, pool)
		}
	}
	return nil
}

// pending says that pods do not run that have a pool to run in.
func (s *soak) pending(ctx context.Context, _ *unstructured.Unstructured) error {
	for name, l := range s.loads {
		if l.replicas == 0 || l.pool != "" && !s.fleet.has(nodePools, l.pool) {
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

// lost says that an instance ended that Git has wanted since the last rest.
func (s *soak) lost() error {
	running := s.nodes()
	for id, pool := range s.rests.nodes {
		if _, runs := running[id]; !runs && s.history.kept(pool, s.rests.at, time.Now()) {
			return fmt.Errorf("violation: instance %s runs no more, and each HEAD since %s had pool %s and its class as they are; those that run: %v", id, s.rests.at.Format(time.TimeOnly), pool, running)
		}
	}
	return nil
}

// nodes are the instances that EC2 bills, with their pools.
func (s *soak) nodes() map[string]string {
	nodes := map[string]string{}
	for _, i := range s.sandbox.AWS.Instances() {
		if slices.Contains([]string{"pending", "running"}, i.State) {
			nodes[i.ID] = i.Tags["karpenter.sh/nodepool"]
		}
	}
	return nodes
}

func (s *soak) summarize() {
	s.journal.say("did: %s", s.journal.counts())
	if s.checks != nil {
		s.journal.say("the daemon deleted: %v; at rest %d times, the longest wait %s; %s", s.checks.deletes, s.rests.count, s.rests.longest.Round(time.Second), &s.leaks)
	}
}
