package stories_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// looksEvery is how often a witness looks, and believes how long a commit may be a success
	// while something contradicts it: passes and posts take their time.
	looksEvery = time.Second
	believes   = 15 * time.Second
	// leads is how old the lease of a daemon that can act may be.
	leads = 10 * time.Second
)

// witness watches a story for a commit that is a success on the Git host while something
// contradicts it. What the daemon cannot know or say, as while it does not run, is no lie.
type witness struct {
	story *story
	since map[string]time.Time // since when a lie stands, by its words
	stop  context.CancelFunc
	done  sync.WaitGroup
	lies  []string
}

// watchStatuses has a witness watch from now on.
func (s *story) watchStatuses() *witness {
	ctx, stop := context.WithCancel(s.ctx)
	w := &witness{story: s, since: map[string]time.Time{}, stop: stop}
	w.done.Go(func() {
		tick := time.NewTicker(looksEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(ctx, time.Now())
			}
		}
	})
	return w
}

// ended are the lies that were seen.
func (w *witness) ended() []string {
	w.stop()
	w.done.Wait()
	return w.lies
}

// look notes what contradicts a success now, and what has for too long.
func (w *witness) look(ctx context.Context, now time.Time) {
	seen := map[string]time.Time{}
	for _, lie := range w.contradicted(ctx) {
		since, known := w.since[lie]
		switch {
		case !known:
			since = now
		case !since.IsZero() && now.Sub(since) > believes:
			w.lies = append(w.lies, lie)
			since = time.Time{} // once is enough
		}
		seen[lie] = since
	}
	w.since = seen
}

// contradicted is what contradicts the successes of the story's NodeSyncs.
func (w *witness) contradicted(ctx context.Context) (lies []string) {
	s := w.story
	lease, err := s.c.Kube.Client.CoordinationV1().Leases(daemon.Namespace).Get(ctx, "plumbline", metav1.GetOptions{})
	if err != nil || lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > leads {
		return nil
	}
	var seen *fleet
	for _, sync := range s.c.list(ctx, "nodesync") {
		commit, reported := w.reported(ctx, &sync)
		if !reported {
			continue
		}
		if seen == nil {
			seen = w.fleet(ctx)
		}
		for _, words := range seen.contradicts(&sync) {
			lies = append(lies, fmt.Sprintf("commit %.8s is a success of NodeSync %s, but %s", commit, sync.GetName(), words))
		}
	}
	return lies
}

// reported says whether the Git host has a success on the commit that a NodeSync is at.
func (w *witness) reported(ctx context.Context, sync *unstructured.Unstructured) (commit string, success bool) {
	s := w.story
	if suspended, _, _ := unstructured.NestedBool(sync.Object, "spec", "suspend"); suspended || sync.GetDeletionTimestamp() != nil {
		return "", false
	}
	if observed, _, _ := unstructured.NestedInt64(sync.Object, "status", "observedGeneration"); observed != sync.GetGeneration() {
		return "", false
	}
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAttemptedRevision")
	_, commit, _ = strings.Cut(revision, "sha1:")
	if commit == "" {
		return "", false
	}
	all, err := s.repo.Statuses(ctx, commit)
	if err != nil {
		return "", false
	}
	last := ""
	for _, status := range githost.On("", all) {
		if strings.HasSuffix(status.Context, "/"+sync.GetName()) {
			last = status.State
		}
	}
	return commit, last == "success"
}

// fleet reads what there is.
func (w *witness) fleet(ctx context.Context) *fleet {
	c := w.story.c
	f := &fleet{pools: c.list(ctx, "nodepool"), classes: c.list(ctx, "ec2nodeclass"), claims: c.list(ctx, "nodeclaim"), billed: map[string]int{}}
	for _, i := range c.AWS.Instances() {
		if i.State == "pending" || i.State == "running" {
			f.billed[i.Tags["karpenter.sh/nodepool"]]++
		}
	}
	return f
}
