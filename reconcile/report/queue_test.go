package report

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// applied is the verdict of most tests.
func applied(head string, commits ...string) Update {
	return Update{Head: head, Commits: commits, State: Success, Description: "applied"}
}

func (w *world) object(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: w.sync.Namespace, Name: SubjectWhole.ObjectName(w.sync.Name)}
	if err := w.client.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoWritesForAStatus(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("c", "c", "b", "a")))
	if l, found := w.stored(); !found || len(l.Lanes[0].Waiting) != 3 || w.writes != 1 || len(w.posted) != 0 {
		t.Fatalf("after a put: %d writes, %d posts, stored %+v", w.writes, len(w.posted), l)
	}
	w.deliver()
	if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 0 || w.writes != 2 || len(w.posted) != 3 {
		t.Errorf("after the delivery: %d writes, %d posts, stored %+v", w.writes, len(w.posted), l)
	}
	must(t, w.say(applied("c")))
	w.deliver()
	if w.writes != 2 || len(w.posted) != 3 {
		t.Errorf("nothing is new: %d writes, %d posts", w.writes, len(w.posted))
	}
	want := Status{Commit: "c", Context: "plumbline/prod/x", State: Success, Description: "applied", TargetURL: onGitea.Page}
	if diff := cmp.Diff(want, w.posted[0]); diff != "" {
		t.Error(diff)
	}
}

func TestManyDeliveriesAreWrittenNowAndThen(t *testing.T) {
	w := newWorld(t)
	var commits []string
	for i := range 50 {
		commits = append(commits, strings.Repeat(string(rune('a'+i%26)), 5+i))
	}
	must(t, w.say(applied(commits[0], commits...)))
	w.deliver()
	if len(w.posted) != 50 || w.writes != 1+50/writeEvery {
		t.Errorf("%d posts, %d writes", len(w.posted), w.writes)
	}
}

func TestTheLedgerGoesWithItsNodeSync(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	object := w.object(t)
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.UID != w.sync.UID || ref.Kind != v1alpha1.NodeSyncKind || object.Labels[configmap.ManagedByLabel] != "plumbline" {
		t.Errorf("owner %+v, labels %v", ref, object.Labels)
	}
	w.queue.Forget(client.ObjectKeyFromObject(w.sync))
	if len(w.queue.Depths()) != 0 {
		t.Errorf("remembered: %v", w.queue.Depths())
	}
}

func TestNoReportNoObject(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	must(t, w.say(Update{Hosts: []Target{}, Head: "a"}))
	if _, found := w.stored(); found {
		t.Error("nobody is told, and the ConfigMap stays")
	}
	must(t, w.say(Update{Hosts: []Target{}, Head: "a"}))
	if w.writes != 2 {
		t.Errorf("%d writes", w.writes)
	}
}

func TestAStartPostsWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.start()
	w.deliver()
	if diff := cmp.Diff([]string{"a success applied"}, w.said(0)); diff != "" {
		t.Error(diff)
	}
	w.start()
	must(t, w.say(applied("a")))
	w.deliver()
	if len(w.posted) != 1 {
		t.Errorf("posted again: %v", w.said(1))
	}
}

// TestKilledBeforeTheStatusWasSaved: the ledger contains what was reported, even if the NodeSync's status does not.
func TestKilledBeforeTheStatusWasSaved(t *testing.T) {
	w := newWorld(t)
	w.fuse = 1
	if err := w.say(applied("a")); !errors.Is(err, errKilled) || w.sync.Status.Reported != nil {
		t.Fatalf("error %v, status %v", err, w.sync.Status.Reported)
	}
	w.start()
	w.deliver()
	must(t, w.say(applied("a")))
	w.deliver()
	if len(w.posted) != 1 || len(w.sync.Status.Reported) != 1 {
		t.Errorf("posted %v, status %v", w.said(0), w.sync.Status.Reported)
	}
}

// TestOneRoundOfALaneAtATime shows that the order is kept.
func TestOneRoundOfALaneAtATime(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	first, _ := w.deliverer.due()
	if second, _ := w.deliverer.due(); len(first) != 1 || len(second) != 0 {
		t.Errorf("%v, and while that is in progress %v", first, second)
	}
	w.deliverer.end(first[0])
	if again, _ := w.deliverer.due(); len(again) != 1 {
		t.Errorf("at its end %v", again)
	}
}

func TestASecretThatIsRefused(t *testing.T) {
	w := newWorld(t)
	tries := 0
	w.answer = func(string, Status) error { tries++; return &UnauthorizedError{Host: "git.example.com"} }
	must(t, w.say(applied("a")))
	w.deliver()
	for range 6 {
		w.now = w.now.Add(longestWait)
		w.deliver()
	}
	if tries != 1 || w.looks != 1 {
		t.Errorf("a refused secret is tried %d times, %d passes are asked for", tries, w.looks)
	}
	writes := w.writes
	w.now = w.now.Add(longestWait)
	w.deliver()
	if w.writes != writes {
		t.Error("a look at a secret is written down")
	}
	must(t, w.say(applied("a")))
	if got := w.sync.Status.Reported[0].Failure; !strings.Contains(got, "git.example.com") {
		t.Errorf("the status says %q", got)
	}

	secret := &corev1.Secret{}
	must(t, w.client.Get(t.Context(), types.NamespacedName{Namespace: w.sync.Namespace, Name: "token"}, secret))
	secret.Data["token"] = []byte("other")
	must(t, w.client.Update(t.Context(), secret))
	w.answer = nil
	w.now = w.now.Add(longestWait)
	w.deliver()
	if len(w.posted) != 1 || w.looks != 2 {
		t.Errorf("with another secret: posted %v, %d passes are asked for", w.said(0), w.looks)
	}
	must(t, w.say(applied("a")))
	if got := w.sync.Status.Reported[0].Failure; got != "" {
		t.Errorf("the status says %q", got)
	}
}

func TestASecretThatIsMissing(t *testing.T) {
	w := newWorld(t)
	missing := applied("a")
	missing.Hosts = []Target{{Host: Host{Provider: "gitea", URL: onGitea.URL, Secret: "absent"}}}
	must(t, w.say(missing))
	w.deliver()
	must(t, w.say(missing))
	if got := w.sync.Status.Reported[0].Failure; !strings.Contains(got, "secret absent") {
		t.Errorf("the status says %q", got)
	}
	must(t, w.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.sync.Namespace, Name: "absent", Annotations: map[string]string{v1alpha1.HostsAnnotation: "git.example.com"}}, Data: map[string][]byte{"token": []byte("x")}}))
	w.now = w.now.Add(longestWait)
	w.deliver()
	if len(w.posted) != 1 {
		t.Errorf("posted %v", w.said(0))
	}
}

// TestHostsDoNotWaitForEachOther shows that a hanging host does not delay another.
func TestHostsDoNotWaitForEachOther(t *testing.T) {
	w := newWorld(t)
	mirror := onGitea
	mirror.URL = "https://mirror.example.com/acme/fleet"
	w.answer = func(host string, _ Status) error {
		if host == onGitea.URL {
			return &UnavailableError{Code: 503}
		}
		return nil
	}
	both := applied("a")
	both.Hosts = []Target{onGitea, mirror}
	must(t, w.say(both))
	w.deliver()
	if diff := cmp.Diff([]string{"a success applied"}, w.said(0)); diff != "" {
		t.Error(diff)
	}
	if depth := w.queue.Depths()[client.ObjectKeyFromObject(w.sync)]; depth.Length != 1 || !depth.Oldest.Equal(noon) {
		t.Errorf("depth %+v", depth)
	}
}

// TestTheHostIsAwayForAnHour loses nothing, and posts the remaining statuses.
func TestTheHostIsAwayForAnHour(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string, Status) error { return &UnavailableError{Err: errors.New("no route")} }
	var want []string
	for minute := range 60 {
		w.now = noon.Add(time.Duration(minute) * time.Minute)
		commit := string(rune('A' + minute))
		pending := applied(commit, commit)
		pending.State, pending.Description = Pending, "waiting"
		must(t, w.say(pending))
		w.deliver()
		must(t, w.say(applied(commit)))
		w.deliver()
		want = append(want, commit+" success applied")
	}
	w.answer = nil
	w.now = w.now.Add(longestWait)
	w.start()
	w.deliver()
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(w.said(0)))); diff != "" {
		t.Error(diff)
	}
}

// TestAPausedLeaderPostsNothing shows that nothing is posted without the lease.
func TestAPausedLeaderPostsNothing(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	lost := errors.New("the lease is another's")
	w.deliverer.StillLeader = func(context.Context) error { return lost }
	w.deliver()
	if len(w.posted) != 0 || w.writes != 1 {
		t.Errorf("posted %v, %d writes", w.said(0), w.writes)
	}
	lost = nil
	w.now = w.now.Add(lookAgain)
	w.deliver()
	if len(w.posted) != 1 {
		t.Errorf("posted %v", w.said(0))
	}
}

func TestNamesDoNotMeet(t *testing.T) {
	long := strings.Repeat("a.", 120) + "b"
	if a, b := SubjectWhole.ObjectName(long+"c"), SubjectWhole.ObjectName(long+"d"); a == b || len(a) > 253 {
		t.Errorf("%s, %s", a, b)
	}
}

// TestASecretThatIsForAnotherHost: the author of a NodeSync chooses the host, and the owner of the Secret decides
// whether that may get the token.
func TestASecretThatIsForAnotherHost(t *testing.T) {
	for _, provider := range []string{"github", "gitlab", "gitea", "forgejo", "bitbucket", "bitbucketserver", "azuredevops", "generic"} {
		w := newWorld(t)
		stolen := applied("a")
		stolen.Hosts = []Target{{Host: Host{Provider: provider, URL: "https://evil.example.com/acme/fleet", Secret: "token"}}}
		must(t, w.say(stolen))
		w.deliver()
		must(t, w.say(stolen))
		if got := w.sync.Status.Reported[0].Failure; len(w.posted) != 0 || !strings.Contains(got, "secret token is not used for evil.example.com") {
			t.Errorf("%s: posted %v, the status says %q", provider, w.said(0), got)
		}
	}
}
