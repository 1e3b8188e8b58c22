package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// flux is a Flux source.
type flux struct {
	host
	artifact source.Artifact
	err      error
	asked    []v1alpha1.SourceRef
}

func (f *flux) Artifact(_ context.Context, _ types.NamespacedName, ref v1alpha1.SourceRef) (*source.Artifact, error) {
	f.asked = append(f.asked, ref)
	return &f.artifact, f.err
}

func (f *flux) Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	snapshot, began, err := f.host.Fetch(ctx, req)
	return snapshot, began, errors.Join(err, req.Artifact.Unready)
}

// TestASourceOfFlux: its artifact is fetched without credentials; if Flux cannot make a newer one, the last one is
// used, and the reason is reported.
func TestASourceOfFlux(t *testing.T) {
	away := errors.New("host is away")
	for name, c := range map[string]struct {
		namespace string
		flux      flux
		fails     bool
		unfetched error
	}{
		"ready":                {flux: flux{artifact: source.Artifact{URL: "http://a"}}},
		"in another namespace": {namespace: "flux-system", flux: flux{artifact: source.Artifact{URL: "http://a"}}},
		"no longer ready":      {flux: flux{artifact: source.Artifact{URL: "http://a", Unready: away}}, unfetched: away},
		"absent":               {flux: flux{err: away}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"}}
			sync.Spec.Source.SourceRef = &v1alpha1.SourceRef{Kind: "GitRepository", Name: "fleet", Namespace: c.namespace}
			s := &Step{Tools: Tools{Source: &c.flux, Secret: noSecret}, Sync: sync, Memory: &Memory{}, Now: time.Unix(1000, 0)}
			found, err := s.Fetch(t.Context())
			if c.fails != (err != nil) {
				t.Fatalf("%+v, %v", found, err)
			}
			want := v1alpha1.SourceRef{Kind: "GitRepository", Name: "fleet", Namespace: "plumbline-system"}
			if c.namespace != "" {
				want.Namespace = c.namespace
			}
			if len(c.flux.asked) != 1 || c.flux.asked[0] != want {
				t.Errorf("asked for %v, want %v", c.flux.asked, want)
			}
			if c.fails {
				return
			}
			if !errors.Is(found.Unfetched, c.unfetched) || found.Snapshot == nil || len(c.flux.requests) != 1 || c.flux.requests[0].Artifact == nil || c.flux.requests[0].URL != "" {
				t.Errorf("%+v of %+v", found, c.flux.requests)
			}
			if err := s.Verify(t.Context(), found.Snapshot); err != nil || sync.Status.LastVerified != nil {
				t.Errorf("verified %v, %v", sync.Status.LastVerified, err)
			}
		})
	}
}

// TestWhenArtifactsWereMade is kept in the status, for the newest artifact and those that are, or may be, applied:
// another process reads it.
func TestWhenArtifactsWereMade(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	of := func(commit string) string { return "main@sha1:" + commit }
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"}}
	sync.Spec.Source.SourceRef = &v1alpha1.SourceRef{Kind: "GitRepository", Name: "fleet"}
	sync.Status.LastAppliedRevision, sync.Status.PartlyAppliedRevision = of("2"), of("3")
	sync.Status.Withheld = &v1alpha1.Withheld{From: of("1")}
	for i := range 5 {
		sync.Status.Artifacts = append(sync.Status.Artifacts, v1alpha1.Artifact{Revision: of(fmt.Sprint(i)), Updated: at(i)})
	}
	from := &flux{artifact: source.Artifact{URL: "http://a", Revision: of("5"), Updated: at(5).Time}}
	s := &Step{Tools: Tools{Source: from, Secret: noSecret}, Sync: sync, Memory: &Memory{}, Now: time.Unix(1000, 0)}
	if _, err := s.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.Artifact{{Revision: of("5"), Updated: at(5)}, {Revision: of("1"), Updated: at(1)}, {Revision: of("2"), Updated: at(2)}, {Revision: of("3"), Updated: at(3)}}
	if diff := cmp.Diff(want, sync.Status.Artifacts); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if before := from.requests[0].Artifact.Before; len(before) != 5 || !before["4"].Equal(at(4).Time) {
		t.Errorf("the source gets %v", before)
	}
	sync.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "http://a"}}
	if _, err := s.request(t.Context()); err != nil || len(sync.Status.Artifacts) > 0 {
		t.Errorf("of Git: %v, %v", sync.Status.Artifacts, err)
	}
}

// host has the commit "new".
type host struct {
	Source
	requests []source.Request
	order    source.Order
	files    fs.FS
}

func (h *host) Fetch(_ context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	h.requests = append(h.requests, req)
	return &render.Snapshot{Revision: "main@sha1:new", Commit: "new", FS: h.files}, req.NotBefore, nil
}

func (h *host) Verify(context.Context, source.Request, source.Signatures) (source.Verified, error) {
	return source.Verified{Signer: "alice"}, nil
}

func (h *host) FindSince(context.Context, source.Request, string, render.Read, int) ([]string, error) {
	return nil, nil
}

func (h *host) FindOrder(context.Context, source.Request, string) (source.Order, error) {
	return h.order, nil
}

func (h *host) Revert(context.Context, source.Request, source.Revert) (source.Reverted, error) {
	return source.Reverted{}, nil
}

func (h *host) Order(string, string) source.Order { return h.order }

func noSecret(context.Context, string) (*corev1.Secret, error) { return nil, errors.New("not found") }

// TestReadForAnother fetches and verifies what a suspended NodeSync follows, and does not change the NodeSync.
func TestReadForAnother(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.NodeSync)
		host   host
		fails  bool
	}{
		"a newer commit":              {func(*v1alpha1.NodeSync) {}, host{order: source.OrderNewer}, false},
		"nobody knows how it stands":  {func(*v1alpha1.NodeSync) {}, host{order: source.OrderUnknown}, false},
		"older than what was applied": {func(*v1alpha1.NodeSync) {}, host{order: source.OrderOlder}, true},
		"its signers cannot be read": {func(n *v1alpha1.NodeSync) {
			n.Spec.Source.Git.Verify = &v1alpha1.GitVerification{Mode: v1alpha1.VerifyHEAD}
		}, host{}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{
				ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"},
				Spec:       v1alpha1.NodeSyncSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}}},
				Status:     v1alpha1.NodeSyncStatus{LastAppliedRevision: "main@sha1:old", LastAttemptedRevision: "main@sha1:old"},
			}
			c.change(sync)
			before := sync.DeepCopy()
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			s := &Step{Tools: Tools{Source: &c.host, Secret: noSecret}, Sync: sync, Memory: &Memory{}, Now: now}
			notBefore := now.Add(-time.Minute)
			snapshot, began, err := s.Read(t.Context(), notBefore)
			if c.fails != (err != nil) || !c.fails && (snapshot == nil || snapshot.Commit != "new" || !began.Equal(notBefore)) {
				t.Errorf("read %v, begun at %s: %v", snapshot, began, err)
			}
			if len(c.host.requests) != 1 || !c.host.requests[0].NotBefore.Equal(notBefore) || c.host.requests[0].Key != "plumbline-system/gpu" {
				t.Errorf("asked for %+v", c.host.requests)
			}
			if diff := cmp.Diff(before, sync); diff != "" {
				t.Errorf("the NodeSync has changed (-want +got):\n%s", diff)
			}
			if last, _, _ := s.Memory.Last(); last != nil || s.Memory.fetchedAt != (time.Time{}) {
				t.Error("its own passes remember what was read for another")
			}
		})
	}
}

// TestReadsEndWithTheirPass: a Snapshot can only be read during its reconcile.
func TestReadsEndWithTheirPass(t *testing.T) {
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}}}}
	step := func() *Step {
		return &Step{Tools: Tools{Source: &host{files: fstest.MapFS{"a.yaml": {}}}}, Sync: sync.DeepCopy(), Memory: &Memory{}, Now: time.Unix(1, 0)}
	}
	for name, take := range map[string]func(context.Context) (*render.Snapshot, error){
		"its own": func(ctx context.Context) (*render.Snapshot, error) {
			found, err := step().Fetch(ctx)
			return found.Snapshot, err
		},
		"for another": func(ctx context.Context) (*render.Snapshot, error) {
			snapshot, _, err := step().Read(ctx, time.Unix(1, 0))
			return snapshot, err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		snapshot, err := take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fs.ReadFile(snapshot.FS, "a.yaml"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if _, err := fs.ReadFile(snapshot.FS, "a.yaml"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s is read after its pass: %v", name, err)
		}
	}
}

// TestWhatOpensTheSourceIsHidden for every request to the Git host; a revert is pushed outside of reconciles, which
// hide theirs.
func TestWhatOpensTheSourceIsHidden(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(context.Context, *Step) error
		want []string
	}{
		"a fetch": {func(ctx context.Context, s *Step) error { _, err := s.Fetch(ctx); return err }, []string{"s3cret"}},
		"a look for another": {func(ctx context.Context, s *Step) error {
			_, _, err := s.Read(ctx, s.Now)
			return err
		}, []string{"s3cret"}},
		"the history": {func(ctx context.Context, s *Step) error {
			_, err := Branch{Step: s}.Ask(ctx, "old")
			return err
		}, []string{"s3cret"}},
		"how it stands to a commit": {func(ctx context.Context, s *Step) error { _, err := s.FindOrder(ctx, "old"); return err }, []string{"s3cret"}},
		"a revert":                  {func(ctx context.Context, s *Step) error { _, err := s.Revert()(ctx, source.Revert{}); return err }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var hidden []string
			secret := &corev1.Secret{Data: map[string][]byte{"bearerToken": []byte("s3cret")}}
			secret.Annotations = map[string]string{v1alpha1.HostsAnnotation: "git.example.com"}
			sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"}}
			sync.Spec.Source.Git = &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git", SecretRef: &v1alpha1.LocalReference{Name: "token"}}
			s := &Step{Sync: sync, Memory: &Memory{}, Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Tools: Tools{
				Source: &host{}, Secret: func(context.Context, string) (*corev1.Secret, error) { return secret, nil },
				HideCredential: func(secret string) {
					if secret != "" {
						hidden = append(hidden, secret)
					}
				},
			}}
			if err := c.ask(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, hidden); diff != "" {
				t.Errorf("hidden (-want +got):\n%s", diff)
			}
		})
	}
}

func (*host) Change(context.Context, source.Request, source.Change) (source.Changed, error) {
	return source.Changed{}, nil
}

func (*host) DeleteBranch(context.Context, source.Request, source.Change, string) error { return nil }

func (*host) CheckBranch(context.Context, source.Request, source.Change, string) error { return nil }
