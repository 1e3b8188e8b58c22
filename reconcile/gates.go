package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// gated is what the gates said last of a change of the charts, and when.
type gated struct {
	change gatedChange
	at     time.Time
	// err refuses the change; noWayBack holds it.
	err       error
	noWayBack string
}

// gatedChange is what the gates have looked at: another one is looked at at once.
type gatedChange struct {
	identity, revision string
	// generation of the NodeSync: it may allow more by now.
	generation int64
}

// checkCharts finds out whether a change of the charts may be made, while nothing
// has moved. What is refused or held stands for a while: finding it out takes some
// hundred requests. A word that lets it go is heard at once.
func (p *pass) checkCharts(ctx context.Context, seen *upgrade.Seen) error {
	last := &p.memory.gated
	identity := p.sync.Status.Karpenter.Target.Identity
	if p.gatesStand(identity) {
		p.WakeBy(last.at.Add(p.retryInterval()))
		seen.Checked, seen.NoWayBack = last.err == nil, last.noWayBack
		return last.err
	}
	*last = gated{}
	err := p.passGates(ctx, seen)
	if err != nil || seen.NoWayBack != "" {
		*last = gated{change: p.changeGated(identity), at: p.now, err: err, noWayBack: seen.NoWayBack}
		p.WakeBy(p.now.Add(p.retryInterval()))
	}
	if err == nil {
		seen.Claims, err = p.claims(ctx)
	}
	seen.Checked = err == nil
	return err
}

// gatesStand says whether what the gates said last is of this change, and counts for
// a while longer.
func (p *pass) gatesStand(identity string) bool {
	last := &p.memory.gated
	released := p.insists() || last.noWayBack != "" && p.approved()
	return last.change == p.changeGated(identity) && !released && !due(p.now, last.at, p.retryInterval())
}

func (p *pass) changeGated(identity string) gatedChange {
	return gatedChange{identity: identity, revision: p.revision(), generation: p.sync.Generation}
}

// gatesRefused is why the gates have refused or held a change, for as long as that
// counts.
func (p *pass) gatesRefused(identity string) error {
	last := &p.memory.gated
	f := fault.Classify(last.err)
	switch {
	case !p.gatesStand(identity):
		return nil
	case last.noWayBack != "":
		p.WakeBy(last.at.Add(p.retryInterval()))
		return held(last.noWayBack)
	case f != nil && f.Class == fault.Terminal:
		p.WakeBy(last.at.Add(p.retryInterval()))
		return last.err
	}
	return nil
}

// approved says that a person has accepted that the version cannot be rolled back.
func (p *pass) approved() bool {
	return p.sync.Annotations[v1alpha1.NoWayBackAnnotation] == p.karpenter.Version
}

// passGates goes from what costs nothing to what costs most.
func (p *pass) passGates(ctx context.Context, seen *upgrade.Seen) error {
	if err := p.checkOwners(ctx); err != nil {
		return err
	}
	to := p.charts.Version
	from, err := p.inForce(ctx)
	if err != nil {
		return err
	}
	if err := p.checkVersions(ctx, from, to); err != nil {
		return err
	}
	if err := p.checkValues(from, to); err != nil {
		return err
	}
	live, next, migrations, err := p.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	seen.Migrated = len(migrations) == 0
	if back := p.sync.Status.Karpenter.Version; back != "" && back != to {
		if seen.NoWayBack, err = p.noWayBack(ctx, live, next); err != nil {
			return err
		}
		if err := p.foretell(seen, live, next); err != nil {
			return err
		}
	}
	return p.Install.Rehearse(ctx, p.charts, p.installation())
}

// inForce is the version that runs now: that of the last change or of what is taken
// over, and where no status tells, that of a controller that is there. Empty where none is.
func (p *pass) inForce(ctx context.Context) (string, error) {
	if version := p.sync.Status.Karpenter.Version; version != "" {
		return version, nil
	}
	deployments, err := p.controllers(ctx)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		version, err := p.versionOf(ctx, &deployments[i])
		if err != nil {
			return "", err
		}
		if _, err := karpenter.KubernetesOf(version); err == nil {
			return version, nil
		} // a tag of somebody's own is no version
	}
	return "", nil
}

// checkVersions checks that the cluster's Kubernetes is known to the version, that
// both are known here or accepted, and that no version is skipped which must not be.
func (p *pass) checkVersions(ctx context.Context, from, to string) error {
	kubernetes, err := p.Install.ServerVersion(ctx)
	if err != nil {
		return err
	}
	if err := karpenter.CheckKubernetes(kubernetes, to); err != nil {
		return err
	}
	if err := karpenter.CheckTested(kubernetes, to, p.karpenter.AcceptUntested); err != nil {
		if from != to {
			return err
		}
		p.Warn("Untested", err.Error()) // it runs there already
	}
	if from == "" {
		return nil
	}
	return karpenter.CheckHop(from, to)
}

// checkValues holds that the chart knows each value.
func (p *pass) checkValues(from, to string) error {
	chart, err := p.charts.Values()
	if err != nil {
		return err
	}
	var words []string
	for _, unknown := range karpenter.Unknown(p.values.Merged, chart) {
		words = append(words, unknown.String())
	}
	if len(words) == 0 && from != "" {
		gone, err := karpenter.Gone(p.values.Merged, from, to)
		if err != nil {
			return err
		}
		for _, setting := range gone {
			words = append(words, setting.String())
		}
	}
	if len(words) > 0 {
		return &karpenter.ValuesError{Version: to, Words: words}
	}
	return nil
}

// liveCRDs are Karpenter's CRDs as they are in the cluster, whoever made them,
// read past the cache, which has no schemas.
func (p *pass) liveCRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	target, err := p.charts.CRDs(ctx)
	if err != nil {
		return nil, err
	}
	var live []*apiextensionsv1.CustomResourceDefinition
	for _, wanted := range target {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := p.Uncached.Get(ctx, client.ObjectKeyFromObject(wanted), crd)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read crd %s: %w", wanted.Name, err)
		}
		live = append(live, crd)
	}
	return live, nil
}

// changeOfCRDs are the CRDs that are there, those that the change leaves, and what
// has to be migrated between them. Left are those of the charts, or what is there
// where that is newer, because CRDs never go back.
func (p *pass) changeOfCRDs(ctx context.Context) (live, next []*apiextensionsv1.CustomResourceDefinition, migrations []karpenter.Migration, err error) {
	if live, err = p.liveCRDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	if p.crdsAhead() {
		next = live
	} else if next, err = p.charts.CRDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	migrations, err = karpenter.Migrations(live, next)
	return live, next, migrations, err
}

// crdsAhead says that the CRDs in the cluster are newer than the version in Git:
// the controller has gone back, or is about to.
func (p *pass) crdsAhead() bool {
	k := p.sync.Status.Karpenter
	return k != nil && k.CRDs != nil && charts.Ahead(k.CRDs.Version, p.karpenter.Version)
}

// noWayBack says what would keep the controller that is in force from being
// brought again over the new CRDs: a version that objects are stored in, or a
// definition of this commit that it could not read.
func (p *pass) noWayBack(ctx context.Context, live, next []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	var reasons []string
	for _, blocker := range karpenter.WayBack(live, next, live) {
		reasons = append(reasons, blocker.String())
	}
	old, err := p.schemas.get(crdsIdentity(live), func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return live, nil })
	if err != nil {
		return "", err
	}
	reasons = append(reasons, p.unreadable(ctx, old)...)
	if len(reasons) == 0 {
		return "", nil
	}
	k := p.sync.Status.Karpenter
	return fmt.Sprintf("no way back from Karpenter %s to %s: %s; make the upgrade and the change of the definitions two commits, or accept it: kubectl annotate nodesync %s -n %s %s=%s --overwrite",
		p.charts.Version, k.Version, finding.Some(reasons), p.sync.Name, p.sync.Namespace, v1alpha1.NoWayBackAnnotation, p.charts.Version), nil
}

// unreadable are the definitions of this commit that a schema does not accept.
func (p *pass) unreadable(ctx context.Context, old *schema.Validator) []string {
	var found []string
	for _, object := range p.set.Objects {
		errs := old.Validate(ctx, object.Desired)
		if live := p.live.Objects[object.Ref]; live != nil {
			errs = old.ValidateUpdate(ctx, object.Desired, live)
		}
		if len(errs) > 0 {
			found = append(found, fmt.Sprintf("%s: %s", object.Ref, strings.Join(strings.Fields(errs[0].Error()), " ")))
		}
	}
	slices.Sort(found)
	return found
}

// migrateStored rewrites the objects of CRDs that would lose a stored version.
func (p *pass) migrateStored(ctx context.Context, seen *upgrade.Seen) error {
	_, _, migrations, err := p.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, migration := range migrations {
		rewritten, err := upgrade.Rewrite(ctx, p.Client, p.Uncached, migration, p.Settings.StillLeader)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		p.Event("StoredVersionsMigrated", fmt.Sprintf("crd %s: %d objects are stored as %s, and %s is out of storedVersions",
			migration.CRD, rewritten, migration.Storage, strings.Join(migration.Drop, ", ")))
	}
	seen.Migrated = failed == nil
	return failed
}
