package pulls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// world is a cluster with one NodeSync, and a Git host.
type world struct {
	t      *testing.T
	client client.Client
	now    time.Time
	sync   *v1alpha1.NodeSync

	// open are the pull requests on the host, and refuses is its error instead.
	open    []report.PullRequest
	refuses error
	// more reports whether there are others that are not listed.
	more     bool
	lists    int
	comments map[int][]report.Comment
	// searches counts lists of comments.
	searches int
	// writes counts written comments, attempts also those that were refused, and uncommented is the error when writing one.
	writes, attempts int
	uncommented      error
	// keeps is what the host makes of the text of a comment, at once and late.
	keeps, keepsLate func(string) string
	// mostListed is how many comments are listed.
	mostListed int
	// heads are those of the source, by reference; fetch is what it says instead.
	heads  map[string]string
	files  fs.FS
	fetch  error
	order  source.Order
	orders map[string]source.Order // of single commits
	// unordered is why the history shows no order.
	unordered error
	kept      map[string]bool
	latest    report.Heads
	// rings are the rings.yaml of commits of the branch.
	rings map[string][]byte
	looks int
	// plans are the commits that were planned, and makes returns their plan.
	plans []string
	makes func(*review.Step) (*review.Preview, error)

	follower *Follower
}

func newWorld(t *testing.T, pulls v1alpha1.PullRequests) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod", UID: "11", Generation: 1}}
	sync.Spec.Interval.Duration = time.Minute
	sync.Spec.Source.Git = &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}
	sync.Spec.Report = []v1alpha1.Report{{Provider: "gitea", SecretRef: v1alpha1.LocalReference{Name: "token"}, PullRequests: &pulls}}
	sync.Status.ObservedGeneration, sync.Status.LastAppliedRevision = 1, "main@sha1:0000"
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "eu"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "token", Annotations: map[string]string{v1alpha1.HostsAnnotation: "git.example.com"}}}
	w := &world{
		t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), sync: sync, heads: map[string]string{}, kept: map[string]bool{},
		comments: map[int][]report.Comment{}, order: source.OrderNewer,
	}
	w.keeps = func(text string) string { return text }
	w.keepsLate = w.keeps
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync, secret).Build()
	w.makes = func(*review.Step) (*review.Preview, error) { return &review.Preview{Plan: &plan.Plan{}}, nil }
	w.start()
	return w
}

// start starts a daemon without any memory.
func (w *world) start() {
	w.follower = New(Options{
		Cached: w.client, Secrets: w.client, Namespace: "ns", Hosts: host{w}, Source: git{w}, Queue: ledger{w}, Grants: grant.Policy{},
		StillLeader: func(context.Context) error { return nil }, Trouble: func(types.NamespacedName) { w.looks++ },
		Now: func() time.Time { return w.now },
	})
	w.follower.begin = func(work func()) { work() }
	w.follower.make = func(s *review.Step, _ context.Context) (*review.Preview, error) {
		w.plans = append(w.plans, s.Snapshot.Commit)
		return w.makes(s)
	}
}

// pull opens a pull request, or pushes another head to it.
func (w *world) pull(number int, head, author string, fork bool) {
	one := report.PullRequest{Number: number, Head: head, Ref: fmt.Sprintf("refs/pull/%d/head", number), Base: "main", Author: author, Fork: fork}
	w.heads[one.Ref] = head
	w.openOne(one)
}

// openOne opens a pull request, or replaces it.
func (w *world) openOne(one report.PullRequest) {
	w.close(one.Number)
	w.open = append([]report.PullRequest{one}, w.open...)
}

func (w *world) close(number int) {
	w.open = slices.DeleteFunc(w.open, func(p report.PullRequest) bool { return p.Number == number })
}

// after advances the time, in turns of a second.
func (w *world) after(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
		for n := 0; w.turn() == 0; n++ {
			if n > 1000 {
				w.t.Fatal("there is always another turn at once")
			}
		}
	}
}

// turn makes a turn, and reports the plan of a fork that it has made.
func (w *world) turn() time.Duration {
	wait := w.follower.turn(w.t.Context())
	select {
	case made := <-w.follower.forkPlanned:
		w.follower.concludeFork(w.t.Context(), made)
		return 0
	default:
		return wait
	}
}

// said returns the statuses in the ledger.
func (w *world) said() []string {
	var all []string
	for _, of := range w.latest.Of {
		for _, h := range of.Heads {
			all = append(all, fmt.Sprintf("%s %s %s", h.Commit, h.State, h.Description))
		}
		if of.Unlisted != "" {
			all = append(all, "unlisted: "+of.Unlisted)
		}
	}
	return all
}

func (w *world) change(change func(*v1alpha1.NodeSync)) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(w.sync), w.sync); err != nil {
		w.t.Fatal(err)
	}
	change(w.sync)
	if err := w.client.Update(w.t.Context(), w.sync); err != nil {
		w.t.Fatal(err)
	}
}

type host struct{ w *world }

func (h host) Reviewer(string, string, map[string][]byte, bool) (report.Reviewer, error) {
	return h, nil
}

func (h host) PullRequests(_ context.Context, base string) ([]report.PullRequest, bool, error) {
	h.w.lists++
	var found []report.PullRequest
	for _, p := range h.w.open {
		if p.Base == base {
			found = append(found, p)
		}
	}
	return found, h.w.more, h.w.refuses
}

func (h host) OwnComments(_ context.Context, number int) ([]report.Comment, error) {
	h.w.searches++
	all := slices.Clone(h.w.comments[number])
	return all[:min(len(all), cmp.Or(h.w.mostListed, len(all)))], nil
}

func (h host) OwnComment(_ context.Context, number int, of report.Comment) (report.Comment, error) {
	for _, one := range h.w.comments[number] {
		if one.ID == of.ID {
			one.Body = h.w.keepsLate(one.Body)
			return one, nil
		}
	}
	return report.Comment{}, nil
}

func (h host) Comment(_ context.Context, number int, of report.Comment, text string) (report.Comment, error) {
	h.w.attempts++
	if h.w.uncommented != nil {
		return report.Comment{}, h.w.uncommented
	}
	h.w.writes++
	text = h.w.keeps(text)
	for i := range h.w.comments[number] {
		if c := &h.w.comments[number][i]; c.ID == of.ID {
			if c.Version != of.Version {
				return report.Comment{}, &report.RejectedError{Code: 409}
			}
			c.Body, c.Version = text, c.Version+1
			return *c, nil
		}
	}
	if of.ID != 0 {
		return report.Comment{}, &report.NotFoundError{}
	}
	made := report.Comment{ID: int64(100 + h.w.writes), Body: text}
	h.w.comments[number] = append(h.w.comments[number], made)
	return made, nil
}

type git struct{ w *world }

func (g git) Fetch(_ context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	g.w.kept[req.Key] = true
	commit, there := g.w.heads[req.Ref.Name+req.Ref.Commit]
	switch {
	case g.w.fetch != nil:
		return nil, g.w.now, g.w.fetch
	case !there:
		return nil, g.w.now, &source.NotFoundError{URL: req.URL, What: req.Ref.Name}
	}
	return &render.Snapshot{Commit: commit, Revision: commit, FS: g.w.files}, g.w.now, nil
}

func (g git) FindOrder(_ context.Context, _ source.Request, commit string) (source.Order, error) {
	if g.w.unordered != nil {
		return source.OrderUnknown, g.w.unordered
	}
	return cmp.Or(g.w.orders[commit], g.w.order), nil
}

// At has rings.yaml of the commit that was taken, and Records has the record of one cluster.
func (g git) At(key, commit string) (*render.Snapshot, error) {
	if key != "ns/prod" || g.w.rings[commit] == nil {
		return nil, errors.New("the commit is not in the store")
	}
	return &render.Snapshot{Commit: commit, FS: fstest.MapFS{promotion.File: {Data: g.w.rings[commit]}}}, nil
}

func (git) Records(string) source.Records { return source.Records{} }

func (g git) Forget(key string) error {
	delete(g.w.kept, key)
	return nil
}

type ledger struct{ w *world }

func (l ledger) RecordHeads(_ context.Context, _ *v1alpha1.NodeSync, h report.Heads) (bool, error) {
	l.w.latest = h
	return false, nil
}

func (l ledger) Heads(context.Context, *v1alpha1.NodeSync, report.Host) ([]report.Commit, map[int]report.Comment, error) {
	var known []report.Commit
	ours := map[int]report.Comment{}
	for _, of := range l.w.latest.Of {
		for number, one := range of.Comments {
			ours[number] = report.Comment{ID: one.ID, Thread: one.Thread}
		}
		for _, h := range of.Heads {
			known = append(known, report.Commit{ID: h.Commit, Word: h.Word})
		}
	}
	return known, ours, nil
}
