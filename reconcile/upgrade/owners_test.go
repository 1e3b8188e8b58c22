package upgrade

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestWhatIsTakenOverIsInForce checks that the gates and a rollback start from the adopted version and releases, and
// that what plumbline has installed itself is not affected.
func TestWhatIsTakenOverIsInForce(t *testing.T) {
	release := func(name, version string, revision int) survey.Release {
		return survey.Release{Name: name, Namespace: "kube-system", Chart: name, Version: version, Revision: revision}
	}
	found := survey.Found{Releases: []survey.Release{release(charts.CRDChart, "1.8.6", 3), release(charts.ControllerChart, "1.8.6", 4)}}
	cases := map[string]struct {
		found    survey.Found
		adopt    bool
		identity string
		refused  any
		want     v1alpha1.KarpenterStatus
	}{
		"nothing is there": {adopt: true},
		"unasked":          {found: found, refused: new(*survey.ForeignReleaseError)},
		"asked for": {found: found, adopt: true, want: v1alpha1.KarpenterStatus{
			Version: "1.8.6", CRDs: &v1alpha1.ReleaseStatus{Revision: 3, Version: "1.8.6"}, Controller: &v1alpha1.ReleaseStatus{Revision: 4, Version: "1.8.6"},
		}},
		"charts were brought": {found: found, adopt: true, identity: "i", want: v1alpha1.KarpenterStatus{Identity: "i"}},
		"a controller of no release": {
			found: survey.Found{Controllers: []survey.Object{{Kind: "Deployment", Namespace: "kube-system", Name: "karpenter", Version: "1.12.1"}}},
			adopt: true, want: v1alpha1.KarpenterStatus{Version: "1.12.1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, installtest.Installed()...)
			b.helm.Found = c.found
			s := b.step()
			s.Karpenter.Adopt = c.adopt
			s.Sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system", Identity: c.identity}
			err := s.checkOwners(t.Context())
			if c.refused == nil && err != nil || c.refused != nil && (err == nil || !errors.As(err, c.refused)) {
				t.Fatalf("checkOwners() = %v, want %T", err, c.refused)
			}
			c.want.Namespace = "kube-system"
			if diff := cmp.Diff(&c.want, s.Sync.Status.Karpenter); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnersAreTheFirstGate checks that objects of other tools are reported before anything about their version.
func TestOwnersAreTheFirstGate(t *testing.T) {
	b := newBed(t, installtest.Installed()...)
	b.helm.Found = survey.Found{CRDs: []survey.Object{{Kind: "CustomResourceDefinition", Name: "nodepools.karpenter.sh"}}}
	b.helm.Kubernetes = "v1.99.0" // no version supports it
	err := b.step().passGates(t.Context(), &Seen{})
	if foreign := (*survey.ForeignObjectsError)(nil); !errors.As(err, &foreign) {
		t.Errorf("passGates() = %v, want what is somebody else's", err)
	}
}
