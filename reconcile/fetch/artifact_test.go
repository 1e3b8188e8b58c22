package fetch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestWhenArtifactsWereMade is kept in the status, of the newest and of those that are, or may be, in force: another
// process reads it.
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
