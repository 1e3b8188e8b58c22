package fetch

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// flux is a source of Flux.
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

// TestASourceOfFlux: its artifact is what is fetched, by no credentials; where Flux cannot make a newer one the
// last one is gone by, and why is said.
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
