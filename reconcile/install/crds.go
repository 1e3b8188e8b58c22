package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// liveCRDs are Karpenter's CRDs as they are in the cluster, whichever tool made them.
func (s *Step) liveCRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	target, err := s.Charts.CRDs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(target))
	for _, wanted := range target {
		names = append(names, wanted.Name)
	}
	return s.View.CRDs(ctx, names)
}

// changeOfCRDs are the CRDs that are there, those that the change leaves, and what
// has to be migrated between them. Left are those of the charts, or what is there
// where that is newer, because CRDs never go back.
func (s *Step) changeOfCRDs(ctx context.Context) (live, next []*apiextensionsv1.CustomResourceDefinition, migrations []karpenter.Migration, err error) {
	if live, err = s.liveCRDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	if upgrade.CRDsAhead(s.k(), s.Karpenter.Version) {
		next = live
	} else if next, err = s.Charts.CRDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	migrations, err = karpenter.Migrations(live, next)
	return live, next, migrations, err
}

// noWayBack says what would keep the controller that is in force from being
// installed again over the new CRDs: a version that objects are stored in, or a
// definition of this commit that it could not read.
func (s *Step) noWayBack(ctx context.Context, live, next []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	var reasons []string
	for _, blocker := range karpenter.WayBack(live, next, live) {
		reasons = append(reasons, blocker.String())
	}
	old, err := s.Schemas.Get(cluster.Generations(live), func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return live, nil })
	if err != nil {
		return "", err
	}
	reasons = append(reasons, s.unreadable(ctx, old)...)
	if len(reasons) == 0 {
		return "", nil
	}
	k := s.k()
	return fmt.Sprintf("no way back from Karpenter %s to %s: %s; make the upgrade and the change of the definitions two commits, or accept it: kubectl annotate nodesync %s -n %s %s=%s --overwrite",
		s.Charts.Version, k.Version, finding.Some(reasons), s.Sync.Name, s.Sync.Namespace, v1alpha1.NoWayBackAnnotation, s.Charts.Version), nil
}

// unreadable are the definitions of this commit that a schema does not accept.
func (s *Step) unreadable(ctx context.Context, old *schema.Validator) []string {
	var found []string
	for _, object := range s.Set.Objects {
		errs := old.Validate(ctx, object.Desired)
		if live := s.Live.Objects[object.Ref]; live != nil {
			errs = old.ValidateUpdate(ctx, object.Desired, live.Unstructured)
		}
		if len(errs) > 0 {
			found = append(found, fmt.Sprintf("%s: %s", object.Ref, strings.Join(strings.Fields(errs[0].Error()), " ")))
		}
	}
	slices.Sort(found)
	return found
}

// migrateStored rewrites the objects of CRDs that would lose a stored version.
func (s *Step) migrateStored(ctx context.Context, seen *upgrade.Seen) error {
	_, _, migrations, err := s.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, migration := range migrations {
		rewritten, err := upgrade.Rewrite(ctx, s.Client, s.View.Uncached, migration, s.StillLeader)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.Event(v1alpha1.ReasonStoredVersionsMigrated, fmt.Sprintf("crd %s: %d %s stored as %s, and %s is out of storedVersions",
			migration.CRD, rewritten, english.PluralWord(rewritten, "object is", "objects are"), migration.Storage, strings.Join(migration.Drop, ", ")))
	}
	seen.Migrated = failed == nil
	return failed
}
