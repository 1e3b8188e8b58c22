package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
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
	if CRDsAhead(s.k(), s.Karpenter.Version) {
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
	return fmt.Sprintf("Karpenter %s cannot be rolled back to %s: %s; split the upgrade and the change of the definitions into two commits, or accept it: kubectl annotate nodesync %s -n %s %s=%s --overwrite",
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
func (s *Step) migrateStored(ctx context.Context, seen *Seen) error {
	_, _, migrations, err := s.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, migration := range migrations {
		rewritten, err := Rewrite(ctx, s.Client, s.View.Uncached, migration, s.StillLeader)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.Event(v1alpha1.ReasonStoredVersionsMigrated, fmt.Sprintf("crd %s: %d %s stored as %s; %s removed from storedVersions",
			migration.CRD, rewritten, english.PluralWord(rewritten, "object is", "objects are"), migration.Storage, strings.Join(migration.Drop, ", ")))
	}
	seen.Migrated = failed == nil
	return failed
}

// tellLost says which nodes go with a CRD that was deleted: those of every
// NodePool, where it is theirs or that of NodeClaims. A CRD that is being deleted
// cannot be saved. It says so once.
func (s *Step) tellLost(ctx context.Context) error {
	pools, _ := render.KindOf(render.NodePool)
	for _, name := range []string{pools.CRD, cluster.NodeClaimCRD} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read crd %s: %w", name, err)
		}
		if crd.DeletionTimestamp == nil || s.Memory.lost == crd.UID {
			continue
		}
		claims := &karpv1.NodeClaimList{}
		if err := s.View.Uncached.List(ctx, claims); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("find the nodes that are deleted with crd %s: %w", name, err)
		}
		s.Memory.lost = crd.UID
		if len(claims.Items) > 0 {
			s.Warn(v1alpha1.ReasonNodesLost, fmt.Sprintf("crd %s was deleted, which terminates the nodes of %s: plumbline recreates the CRD and the definitions in Git once it is gone", name, byPool(claims.Items)))
		}
	}
	return nil
}

// byPool names NodeClaims with their nodes, pool by pool.
func byPool(claims []karpv1.NodeClaim) string {
	words := make([]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		words = append(words, fmt.Sprintf("NodePool/%s: %s (%s)", c.Labels[karpv1.NodePoolLabelKey], c.Name, c.Status.NodeName))
	}
	slices.Sort(words)
	return strings.ReplaceAll(finding.Some(words), " ()", "")
}

// external is what was found of the CRDs that another tool has installed: of which
// CRDs, beside which chart, when, and what of them is not as in the chart.
type external struct {
	fingerprint, digest string
	at                  time.Time
	unlike              string
}

// awaitCharts looks whether another tool has installed the charts; where Git has a
// version, whether they are of that one. Definitions that are for it wait for it.
func (s *Step) awaitCharts(ctx context.Context, seen Seen) error {
	s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	if !seen.Established.Ready {
		s.out.CRDs.Message += "; " + Theirs
		return nil
	}
	if s.Karpenter.Version == "" {
		return nil
	}
	unlike, err := s.unlikeTheChart(ctx)
	if err != nil {
		return err
	}
	if unlike != "" {
		s.out.CRDs = cluster.Readiness{Message: fmt.Sprintf("%s of Karpenter %s; %s", unlike, s.Karpenter.Version, Theirs)}
		return nil
	}
	k := s.k()
	if s.out.Controller.Ready {
		k.Version = s.Karpenter.Version
	}
	s.out.Changing = k.Version != s.Karpenter.Version
	return nil
}

// unlikeTheChart says which CRD is not that of the version in Git; empty if all
// are. CRDs name no version, so that what they say is compared, and again when a
// watch tells of one. Without the chart they are taken for right.
func (s *Step) unlikeTheChart(ctx context.Context) (string, error) {
	if s.Charts == nil {
		return "", nil
	}
	fingerprint, err := s.View.CRDFingerprint(ctx)
	if err != nil {
		return "", err
	}
	last := &s.Memory.external
	known := last.fingerprint == fingerprint && last.digest == s.Charts.CRDDigest
	// Not each of them is watched: what lacks is looked for.
	if known && last.unlike == "" {
		return "", nil
	}
	if known && !finding.Due(s.Now, last.at, s.Retry) {
		s.WakeBy(last.at.Add(s.Retry))
		return last.unlike, nil
	}
	wanted, err := s.Charts.CRDs(ctx)
	if err != nil {
		return "", err
	}
	live, err := s.liveCRDs(ctx)
	if err != nil {
		return "", err
	}
	*last = external{fingerprint: fingerprint, digest: s.Charts.CRDDigest, at: s.Now, unlike: karpenter.Unlike(live, wanted)}
	if last.unlike != "" {
		s.WakeBy(s.Now.Add(s.Retry))
	}
	return last.unlike, nil
}

// ofTheAwaited reports whether a Deployment is of the version that Git waits for.
func (s *Step) ofTheAwaited(ctx context.Context, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	if s.Karpenter == nil || s.Karpenter.Version == "" {
		return cluster.Readiness{Ready: true}, nil
	}
	version, err := s.versionOf(ctx, deployment)
	if err != nil || version == s.Karpenter.Version {
		return cluster.Readiness{Ready: err == nil}, err
	}
	return cluster.Readiness{Message: fmt.Sprintf("deployment/%s runs Karpenter %s, but plumbline.yaml requires %s; %s", deployment.Name, version, s.Karpenter.Version, Theirs)}, nil
}

// versionOf is the version of Karpenter that a Deployment runs: by the labels of the
// chart, or where another client has taken those off, by the tag of its image; "unknown" where
// neither tells.
func (s *Step) versionOf(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	if version := deployment.Labels["app.kubernetes.io/version"]; version != "" {
		return version, nil
	}
	if version, ok := survey.VersionIn(deployment.Labels[survey.ChartLabel]); ok {
		return version, nil
	}
	containers, err := s.View.Containers(ctx, deployment)
	if err != nil {
		return "", err
	}
	return Tag(containers), nil
}

// checkOwners looks for what another tool has installed of Karpenter, and holds
// that it may be adopted. What is adopted is in force from then on: a change
// begins at its version, with every gate, and may go back to its release.
func (s *Step) checkOwners(ctx context.Context) error {
	found, err := s.Helm.Survey(ctx, s.Karpenter.Namespace)
	if err != nil {
		return err
	}
	if err := found.Check(s.Karpenter.Namespace, s.Charts.Version, s.Karpenter.Adopt); err != nil {
		return err
	}
	k := s.k()
	if k.Identity != "" {
		return nil
	}
	if err := s.forgetWhatIsGone(ctx); err != nil {
		return err
	}
	if version := found.Version(k.Namespace); version != "" {
		k.Version = version
	}
	for name, status := range map[string]**v1alpha1.ReleaseStatus{charts.CRDChart: &k.CRDs, charts.ControllerChart: &k.Controller} {
		if release, ok := found.Release(name, k.Namespace); ok {
			*status = &v1alpha1.ReleaseStatus{Revision: int32(release.Revision), Version: release.Version}
		}
	}
	return nil
}

// forgetWhatIsGone has a change begin again where the controller that it was to adopt
// is there no more.
func (s *Step) forgetWhatIsGone(ctx context.Context) error {
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err == nil && len(deployments) == 0 {
		k := s.k()
		k.Version, k.Controller = "", nil
	}
	return err
}

// sameClusterName refuses a controller that another tool has installed and that runs under
// another cluster's name than the one in Git. EC2 would be asked for the wrong instances, and
// to adopt it would have it lose sight of its nodes, which it knows by that name. What
// plumbline has installed has the name in Git.
func (s *Step) sameClusterName(ctx context.Context) error {
	if s.Karpenter.Management == render.Managed && s.k().Controller != nil {
		return nil
	}
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil {
		return err
	}
	for i := range deployments {
		deployment := &deployments[i]
		containers, err := s.View.Containers(ctx, deployment)
		if err != nil {
			return err
		}
		cluster := contradiction.Cluster{Name: s.Karpenter.Cluster.Name}
		what := fmt.Sprintf("CLUSTER_NAME of deployment/%s in %s", deployment.Name, deployment.Namespace)
		if err := contradiction.Running(cluster, what, ClusterName(containers)); err != nil {
			return fault.Conflict(err)
		}
	}
	return nil
}
