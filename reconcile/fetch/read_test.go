package fetch

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// host has commit "new".
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

// TestReadForAnother fetches and verifies what a suspended NodeSync follows, and leaves the
// NodeSync as it is.
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

// TestReadsEndWithTheirPass: a Snapshot is read no longer than the pass lasts that has it.
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

// TestWhatOpensTheSourceIsHidden whoever asks the Git host; a revert is pushed beside the passes, which hide theirs.
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
