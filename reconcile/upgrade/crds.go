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

// liveCRDs returns Karpenter's CRDs in the cluster, whichever tool created them.
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

// changeOfCRDs returns the existing CRDs, those after the change, and the migrations that are needed between them. The
// latter CRDs are those of the charts, or the existing ones if they are newer, because CRDs are never downgraded, or if
// EKS keeps them.
func (s *Step) changeOfCRDs(ctx context.Context) (
	live, next []*apiextensionsv1.CustomResourceDefinition, migrations []karpenter.Migration, err error,
) {
	if live, err = s.liveCRDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	if CRDsAhead(s.karpenterStatus(), s.Karpenter.Version) {
		next = live
	} else if next, err = s.nextCRDs(ctx, live); err != nil {
		return nil, nil, nil, err
	}
	migrations, err = karpenter.Migrations(live, next)
	return live, next, migrations, err
}

// nextCRDs returns the CRDs of the charts, with those that EKS keeps as they are in the cluster.
func (s *Step) nextCRDs(
	ctx context.Context, live []*apiextensionsv1.CustomResourceDefinition,
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	chart, err := s.Charts.CRDs(ctx)
	if err != nil {
		return nil, err
	}
	served, err := s.View.ServedByEKS(ctx, live)
	return karpenter.WithServed(chart, served), err
}

// rollbackBlockers returns what would prevent a reinstallation of the controller in force with the new CRDs: a version
// that objects are stored in, or a definition of this commit that it could not read.
func (s *Step) rollbackBlockers(ctx context.Context, live, next []*apiextensionsv1.CustomResourceDefinition) (string, error) {
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
	k := s.karpenterStatus()
	return fmt.Sprintf("Karpenter %s cannot be rolled back to %s: %s; split the upgrade and the change of the definitions into two commits, or accept it: kubectl annotate nodesync %s -n %s %s=%s --overwrite",
		s.Charts.Version, k.Version, finding.Some(reasons), s.Sync.Name, s.Sync.Namespace, v1alpha1.NoWayBackAnnotation, s.Charts.Version), nil
}

// unreadable returns the definitions of this commit that a schema does not accept.
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

// reportLostNodes reports once which nodes are lost with a deleted CRD: those of every NodePool, if it is the CRD of
// NodePools or NodeClaims. A terminating CRD cannot be saved.
func (s *Step) reportLostNodes(ctx context.Context) error {
	pools, _ := render.KindOf(render.NodePool)
	for _, name := range []string{pools.CRD, cluster.NodeClaimCRD} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read crd %s: %w", name, err)
		}
		if crd.DeletionTimestamp == nil || s.Memory.reportedLost == crd.UID {
			continue
		}
		claims := &karpv1.NodeClaimList{}
		if err := s.View.Uncached.List(ctx, claims); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("find the nodes that are deleted with crd %s: %w", name, err)
		}
		s.Memory.reportedLost = crd.UID
		if len(claims.Items) > 0 {
			s.Warn(v1alpha1.ReasonNodesLost, fmt.Sprintf("crd %s was deleted, which terminates the nodes of %s: plumbline recreates the CRD and the definitions in Git once it is gone", name, byPool(claims.Items)))
		}
	}
	return nil
}

// byPool names NodeClaims with their nodes, by pool.
func byPool(claims []karpv1.NodeClaim) string {
	words := make([]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		words = append(words, fmt.Sprintf("NodePool/%s: %s (%s)", c.Labels[karpv1.NodePoolLabelKey], c.Name, c.Status.NodeName))
	}
	slices.Sort(words)
	return strings.ReplaceAll(finding.Some(words), " ()", "")
}

// external is the result of a check of the CRDs that another tool has installed: which CRDs were compared with which
// chart, when, and what differs from the chart.
type external struct {
	fingerprint, digest string
	at                  time.Time
	difference          string
}

// awaitCharts checks whether another tool has installed the charts and, if Git specifies a version, whether they have
// it. Definitions for that version wait for it.
func (s *Step) awaitCharts(ctx context.Context, seen Seen) error {
	s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	if !seen.Established.Ready {
		s.out.CRDs.Message += "; " + Theirs
		return nil
	}
	if s.Karpenter.Version == "" {
		return nil
	}
	unlike, err := s.differsFromChart(ctx)
	if err != nil {
		return err
	}
	if unlike != "" {
		s.out.CRDs = cluster.Readiness{Message: fmt.Sprintf("%s of Karpenter %s; %s", unlike, s.Karpenter.Version, Theirs)}
		return nil
	}
	k := s.karpenterStatus()
	if s.out.Controller.Ready {
		k.Version = s.Karpenter.Version
	}
	s.out.Changing = k.Version != s.Karpenter.Version
	return nil
}

// differsFromChart names a CRD that differs from the version in Git; empty if none does. CRDs do not name their
// version, so their content is compared, and again after a watch event. Without the chart they are assumed to be right.
func (s *Step) differsFromChart(ctx context.Context) (string, error) {
	if s.Charts == nil {
		return "", nil
	}
	fingerprint, err := s.View.CRDFingerprint(ctx)
	if err != nil {
		return "", err
	}
	last := &s.Memory.external
	known := last.fingerprint == fingerprint && last.digest == s.Charts.CRDDigest
	// Not all of them are watched, so missing ones are checked again.
	if known && last.difference == "" {
		return "", nil
	}
	if known && !finding.Due(s.Now, last.at, s.Retry) {
		s.WakeBy(last.at.Add(s.Retry))
		return last.difference, nil
	}
	live, err := s.liveCRDs(ctx)
	if err != nil {
		return "", err
	}
	wanted, err := s.nextCRDs(ctx, live)
	if err != nil {
		return "", err
	}
	*last = external{fingerprint: fingerprint, digest: s.Charts.CRDDigest, at: s.Now, difference: karpenter.Unlike(live, wanted)}
	if last.difference != "" {
		s.WakeBy(s.Now.Add(s.Retry))
	}
	return last.difference, nil
}

// hasVersionInGit reports whether a Deployment has the version that Git specifies.
func (s *Step) hasVersionInGit(ctx context.Context, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	if s.Karpenter == nil || s.Karpenter.Version == "" {
		return cluster.Readiness{Ready: true}, nil
	}
	version, err := s.versionOf(ctx, deployment)
	if err != nil || version == s.Karpenter.Version {
		return cluster.Readiness{Ready: err == nil}, err
	}
	return cluster.Readiness{Message: fmt.Sprintf("deployment/%s runs Karpenter %s, but plumbline.yaml requires %s; %s",
		deployment.Name, version, s.Karpenter.Version, Theirs)}, nil
}

// versionOf returns the version of Karpenter that a Deployment runs: from the labels of the chart or, if another client
// has removed these, from the tag of its image; "unknown" if neither contains it.
func (s *Step) versionOf(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	if version, ok := survey.VersionIn(deployment.Labels[survey.ChartLabel]); ok {
		return version, nil
	}
	if version := deployment.Labels["app.kubernetes.io/version"]; version != "" {
		return charts.FromLabel(version), nil
	}
	containers, err := s.View.Containers(ctx, deployment)
	if err != nil {
		return "", err
	}
	return Tag(containers), nil
}

// checkOwners checks what another tool has installed of Karpenter, and that plumbline may adopt it. An adopted
// installation is in force from then on: a change starts from its version, with every gate, and may be rolled back to
// its release.
func (s *Step) checkOwners(ctx context.Context) error {
	found, err := s.Helm.Survey(ctx, s.Karpenter.Namespace)
	if err != nil {
		return err
	}
	if err := found.Check(s.Karpenter.Namespace, s.Charts.Version, s.Karpenter.Adopt); err != nil {
		return err
	}
	k := s.karpenterStatus()
	if k.Identity != "" {
		return nil
	}
	if err := s.restartWithoutController(ctx); err != nil {
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

// restartWithoutController restarts a change if the controller that it was to adopt no longer exists.
func (s *Step) restartWithoutController(ctx context.Context) error {
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
	if err == nil && len(deployments) == 0 {
		k := s.karpenterStatus()
		k.Version, k.Controller = "", nil
	}
	return err
}

// sameClusterName refuses a controller that another tool has installed and that runs with a cluster name other than the
// one in Git. EC2 would be queried for the wrong instances, and an adopted controller would no longer find its nodes,
// which it finds by that name. A controller that plumbline has installed has the name in Git.
func (s *Step) sameClusterName(ctx context.Context) error {
	if s.Karpenter.Management == render.Managed && s.karpenterStatus().Controller != nil {
		return nil
	}
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
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
