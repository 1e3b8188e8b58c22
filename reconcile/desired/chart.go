package desired

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Theirs says who brings what is not there with management External.
const Theirs = "management is External, so the tool that installs Karpenter has to provide it"

// ResolveSchema finds the charts, and the schema of the definitions: that of the charts' CRDs,
// or of what is in force where the change is known not to be made. refused says why that is
// known, or nothing; it is asked once the charts are there.
func (s *Step) ResolveSchema(ctx context.Context, refused func() (why, err error)) (notUpgraded, err error) {
	if err := s.Resolve(ctx); err != nil || s.Charts == nil {
		return nil, err
	}
	if notUpgraded, err = refused(); err != nil {
		return nil, err
	}
	if s.NotUpgraded = notUpgraded; notUpgraded != nil {
		return notUpgraded, s.TakeSchemaInForce(ctx)
	}
	return nil, s.TakeSchema(ctx)
}

// Resolve finds the charts of the version in Git. Where Git has no version, or the
// charts are unavailable over a release that is in force, it takes the schema of the
// CRDs in the cluster, and finds none.
func (s *Step) Resolve(ctx context.Context) error {
	if s.Karpenter.Version == "" {
		return s.resolveLive(ctx)
	}
	if err := s.MergeValues(ctx); err != nil {
		return s.withoutCharts(ctx, err)
	}
	s.warnOfEverything()
	unknown, err := CheckRequest(s.Sync, s.Karpenter, s.Values, s.CABundle)
	if err != nil {
		return s.withoutCharts(ctx, err)
	}
	resolved, err := s.Pull(ctx)
	if err == nil {
		err = s.checkFound(resolved, unknown)
	}
	if err == nil {
		err = s.checkCRDs(ctx, resolved)
	}
	if err != nil {
		return s.withoutCharts(ctx, err)
	}
	s.Charts = resolved
	return nil
}

// TakeSchema takes the schema that the charts' CRDs give.
func (s *Step) TakeSchema(ctx context.Context) error {
	var err error
	s.SchemaIdentity = s.Charts.CRDDigest
	s.Schema, err = s.Schemas.Get(s.SchemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return s.Charts.CRDs(ctx) })
	if err != nil || !upgrade.CRDsAhead(s.Sync.Status.Karpenter, s.Karpenter.Version) {
		return err
	}
	established, err := s.View.Established(ctx)
	if err != nil || !established.Ready {
		return err // one that is gone is reinstalled
	}
	// The API server goes by its own CRDs; an older controller knows less.
	s.Older = s.Schema
	return s.resolveLive(ctx)
}

// Pull asks the store for the charts of the version in Git. What fails is
// not tried for a while: a registry can take as long as a pass may. What the try
// was made with makes another one due at once, and so does who asks for it.
func (s *Step) Pull(ctx context.Context) (*charts.Charts, error) {
	repository, inside, err := s.Karpenter.ChartRepository(s.Sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	try := pull{
		ref: charts.Ref{
			Repository: repository,
			Version:    s.Karpenter.Version,
			Digests:    charts.Digests{CRD: s.Karpenter.Digests.CRD, Controller: s.Karpenter.Digests.Controller},
			InForce:    inForce(s.Sync.Status.Karpenter, repository, s.Karpenter.Version),
		},
		by: s.Attempt,
	}
	if inside {
		try.revision = s.Snapshot.Revision // another may have the files
	}
	failed := &s.Memory.unpulled
	if failed.pull == try && !finding.Due(s.Now, failed.at, s.Retry) {
		s.WakeBy(failed.at.Add(s.Retry))
		return nil, failed.err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	access := charts.Access{Keys: s.openHost, Files: s.Files}
	resolved, err := s.Store.Resolve(ctx, try.ref, access)
	if err == nil {
		err = s.verifyCharts(ctx, try.ref, resolved, access)
	}
	*failed = unpulled{}
	if err != nil {
		*failed = unpulled{pull: try, at: s.Now, err: err}
	}
	return resolved, err
}

// inForce are the digests that a version of a repository has in the cluster, or in a change of the
// charts that has begun. They are empty for another version or repository: there a commit decides.
func inForce(k *v1alpha1.KarpenterStatus, repository, version string) charts.Digests {
	if k == nil {
		return charts.Digests{}
	}
	of := func(c *v1alpha1.ResolvedCharts) charts.Digests {
		return charts.Digests{CRD: c.CRDDigest, Controller: c.Digest}
	}
	if t := k.Target; t != nil && t.Charts != nil && t.Version == version && t.Charts.Repository == repository {
		return of(t.Charts)
	}
	if k.Charts != nil {
		if k.Version == version && k.Charts.Repository == repository {
			return of(k.Charts)
		}
		return charts.Digests{}
	}
	// A status from before charts were recorded: of an unknown repository.
	var found charts.Digests
	if k.CRDs != nil && k.CRDs.Version == version {
		found.CRD = k.CRDs.Digest
	}
	if k.Controller != nil && k.Controller.Version == version {
		found.Controller = k.Controller.Digest
	}
	return found
}

// pull is what a try to have the charts is made with.
type pull struct {
	ref charts.Ref
	// by is the NodeSync's generation, and who asked for a pass.
	by string
	// revision that has the charts in it; empty where they come from elsewhere.
	revision string
}

// unpulled is a pull that failed, and when.
type unpulled struct {
	pull
	at  time.Time
	err error
}

// withoutCharts goes on where the charts are unavailable and a release is in force:
// its CRDs in the cluster are the schema, and the releases stay as they are. That is
// the version in Git, with CRDs of it or newer ones, or the one that the change was
// to replace. Where none is, the error stands. Of another tool's charts only the CRDs
// are looked at.
func (s *Step) withoutCharts(ctx context.Context, err error) error {
	if s.Karpenter.Management == render.External {
		s.Unpulled = err
		return s.resolveLive(ctx)
	}
	k := s.Sync.Status.Karpenter
	if k == nil {
		return err
	}
	state, unread := s.Releases.State(ctx, s.Karpenter.Namespace)
	if unread != nil {
		return errors.Join(err, unread)
	}
	if releasedAs(state, s.Karpenter.Version) {
		s.Unpulled = err
		return s.resolveLive(ctx)
	}
	if version := upgrade.InForce(*k); version == "" || !releasedAs(state, version) {
		return err
	}
	s.Unpulled = err
	return s.TakeSchemaInForce(ctx)
}

// releasedAs says whether a version's release is deployed, over its CRDs or newer ones.
func releasedAs(state release.State, version string) bool {
	crds := state.CRDs.Installed(version) || state.CRDs.Ahead(version)
	return crds && state.Controller.Installed(version)
}

// resolveLive takes the schema of the live CRDs. The cache tells which they are
// and holds no schema, so that they are read from the API server once.
func (s *Step) resolveLive(ctx context.Context) error {
	cached, err := s.readCRDs(ctx, s.View.CachedCRDs)
	if err != nil {
		return err
	}
	s.SchemaIdentity = cluster.Generations(cached)
	s.Schema, err = s.Schemas.Get(s.SchemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		crds, err := s.readCRDs(ctx, s.View.CRDs)
		if err == nil && cluster.Generations(crds) != s.SchemaIdentity {
			err = fault.ReadAgain(errors.New("the CRDs have changed while they were read: they are read again"))
		}
		return crds, err
	})
	return err
}

// readCRDs reads the CRDs of the kinds that are ours. That there is none is no
// failure: the tool that manages the charts has not got to it yet.
func (s *Step) readCRDs(ctx context.Context, read func(context.Context, []string) ([]*apiextensionsv1.CustomResourceDefinition, error)) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var names []string
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	crds, err := read(ctx, names)
	if err != nil || len(crds) == len(names) {
		return crds, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == name }) {
			err = s.lacks(name)
			break
		}
	}
	return nil, fault.Waits(err)
}

// lacks says who brings a CRD that is not there.
func (s *Step) lacks(crd string) error {
	switch {
	case s.Karpenter.Management != render.Managed:
	case s.Unpulled != nil:
		return fmt.Errorf("waiting for the schema: crd %s is gone, and its chart installs it again: %w", crd, s.Unpulled)
	default:
		return fmt.Errorf("waiting for the schema: crd %s is gone, and is reinstalled with the next change of the charts that is made", crd)
	}
	return fmt.Errorf("waiting for the schema: crd %s is not installed yet; %s", crd, Theirs)
}
