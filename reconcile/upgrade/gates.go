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
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// gated is the last result of the gates for a change of the charts, and its time.
type gated struct {
	change gatedChange
	at     time.Time
	// err refuses the change; rollbackBlockers holds it.
	err              error
	rollbackBlockers string
}

// gatedChange identifies the change that the gates have checked: another change is checked immediately.
type gatedChange struct {
	identity, revision string
	// generation is the NodeSync's generation: a later one may allow more.
	generation int64
}

// checkCharts checks whether a change of the charts may be made, before anything has changed. A refusal or a hold
// remains valid for a while, because the check takes some hundred requests. An approval takes effect immediately.
func (s *Step) checkCharts(ctx context.Context, seen *Seen) error {
	last := &s.Memory.gated
	identity := s.karpenterStatus().Target.Identity
	if s.gatesStand(identity) {
		s.WakeBy(last.at.Add(s.Retry))
		seen.Checked, seen.RollbackBlockers = last.err == nil, last.rollbackBlockers
		return last.err
	}
	*last = gated{}
	err := s.passGates(ctx, seen)
	if err != nil || seen.RollbackBlockers != "" {
		*last = gated{change: s.changeGated(identity), at: s.Now, err: err, rollbackBlockers: seen.RollbackBlockers}
		s.WakeBy(s.Now.Add(s.Retry))
	}
	if err == nil {
		seen.Claims, err = s.View.Claims(ctx)
	}
	seen.Checked = err == nil
	return err
}

// gatesStand reports whether the last result of the gates is for this change, and remains valid for
// a while.
func (s *Step) gatesStand(identity string) bool {
	last := &s.Memory.gated
	released := s.Requested || last.rollbackBlockers != "" && s.approved()
	return last.change == s.changeGated(identity) && !released && !finding.Due(s.Now, last.at, s.Retry)
}

func (s *Step) changeGated(identity string) gatedChange {
	return gatedChange{identity: identity, revision: s.Revision, generation: s.Sync.Generation}
}

// gatesRefused returns why the gates have refused or held a change, for as long as that
// result is valid.
func (s *Step) gatesRefused(identity string) error {
	last := &s.Memory.gated
	f := fault.Classify(last.err)
	switch {
	case !s.gatesStand(identity):
		return nil
	case last.rollbackBlockers != "":
		s.WakeBy(last.at.Add(s.Retry))
		return fault.Held(errors.New(last.rollbackBlockers))
	case f != nil && f.Class == fault.Terminal:
		s.WakeBy(last.at.Add(s.Retry))
		return last.err
	}
	return nil
}

// approved reports whether a person has accepted that the version cannot be rolled back.
func (s *Step) approved() bool {
	return s.Sync.Annotations[v1alpha1.NoWayBackAnnotation] == s.Karpenter.Version
}

// passGates runs the gates, the cheapest first.
func (s *Step) passGates(ctx context.Context, seen *Seen) error {
	if err := s.checkReadOnlyGates(ctx, seen); err != nil {
		return err
	}
	return s.Helm.Rehearse(ctx, s.Charts, s.rehearsal(ctx))
}

// rehearsal is the request to check before the controller is changed. In addition to what is never permitted, it
// refuses what would terminate nodes; the return to an earlier revision does not depend on that.
func (s *Step) rehearsal(ctx context.Context) release.Request {
	want := s.installation()
	want.Permit = func(r release.Rendered) error {
		if s.Permit != nil {
			if err := s.Permit(r); err != nil {
				return err
			}
		}
		return s.keepBuffers(ctx, r)
	}
	return want
}

// keepBuffers refuses a controller that ignores the CapacityBuffers in the cluster, if the present one does not:
// Karpenter would consolidate their nodes. The guard counts these nodes if the buffers are removed.
func (s *Step) keepBuffers(ctx context.Context, r release.Rendered) error {
	buffers := s.Live.OfKind(render.CapacityBuffer)
	kind, _ := render.KindOf(render.CapacityBuffer)
	if r.Chart != charts.ControllerChart || len(buffers) == 0 {
		return nil
	}
	if on, err := rendersGate(r.Objects, kind.Gate); err != nil || on {
		return err
	}
	if on, err := s.On(ctx, kind.Gate); err != nil || !on {
		return err
	}
	names := make([]string, 0, len(buffers))
	for _, buffer := range buffers {
		names = append(names, render.RefOf(buffer).String())
	}
	return fault.Refused(fmt.Errorf(
		"karpenter %s would run without its feature gate %s, and consolidate the nodes that %s %s: remove %s first, which the guard counts, or set values.%s: true",
		s.Charts.Version, kind.Gate, finding.Some(names), english.PluralWord(len(names), "keeps", "keep"), english.PluralWord(len(names), "it", "them"),
		strings.Join(kind.GateValue(), ".")))
}

// rendersGate reports whether a rendered controller has a feature gate on.
func rendersGate(objects []*unstructured.Unstructured, gate string) (bool, error) {
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return false, fmt.Errorf("read deployment/%s of the chart: %w", object.GetName(), err)
		}
		if on, _ := FeatureGate(deployment.Spec.Template.Spec.Containers, gate); on {
			return true, nil
		}
	}
	return false, nil
}

// checkReadOnlyGates runs the gates that only read.
func (s *Step) checkReadOnlyGates(ctx context.Context, seen *Seen) error {
	if err := s.checkOwners(ctx); err != nil {
		return err
	}
	to := s.Charts.Version
	from, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	if err := s.checkVersions(ctx, from, to); err != nil {
		return err
	}
	if err := s.checkValues(from, to); err != nil {
		return err
	}
	if err := s.checkRights(ctx); err != nil {
		return err
	}
	live, next, migrations, err := s.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	seen.Migrated = len(migrations) == 0
	if back := s.karpenterStatus().Version; back != "" && back != to {
		if seen.RollbackBlockers, err = s.rollbackBlockers(ctx, live, next); err != nil {
			return err
		}
		return s.forecast(seen, live, next)
	}
	return nil
}

// inForce returns the version that runs now: the version of the last change or of the adopted installation,
// or, if the status contains none, that of an existing controller. Empty if there is none.
func (s *Step) inForce(ctx context.Context) (string, error) {
	if version := s.karpenterStatus().Version; version != "" {
		return version, nil
	}
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		version, err := s.versionOf(ctx, &deployments[i])
		if err != nil {
			return "", err
		}
		if _, err := karpenter.KubernetesOf(version); err == nil {
			return version, nil
		} // a custom tag is not a version
	}
	return "", nil
}

// checkVersions checks that the version supports the cluster's Kubernetes, that plumbline knows both or the user
// accepts them untested, and that no mandatory intermediate version is skipped.
func (s *Step) checkVersions(ctx context.Context, from, to string) error {
	kubernetes, err := s.Helm.ServerVersion(ctx)
	if err != nil {
		return err
	}
	if err := karpenter.CheckKubernetes(kubernetes, to); err != nil {
		return err
	}
	if err := karpenter.CheckTested(kubernetes, to, s.Karpenter.AcceptUntested); err != nil {
		if from != to {
			return err
		}
		s.Warn(v1alpha1.ReasonUntested, err.Error()) // it already runs there
	}
	if from == "" {
		return nil
	}
	return karpenter.CheckHop(from, to)
}

// checkValues checks that the chart defines each value.
func (s *Step) checkValues(from, to string) error {
	chart, err := s.Charts.Values()
	if err != nil {
		return err
	}
	return karpenter.CheckValues(s.Values.Merged, chart, from, to)
}

// forecast finds the pools whose nodes a change of the version may replace, while
// the CRDs of both versions are available.
func (s *Step) forecast(seen *Seen, live, next []*apiextensionsv1.CustomResourceDefinition) error {
	effects, err := karpenter.Effects(karpenter.Upgrade{
		From: s.karpenterStatus().Version, To: s.Charts.Version, Old: live, New: next,
		Classes: s.Live.OfKind(render.EC2NodeClass), Pools: s.Live.OfKind(render.NodePool),
	})
	if err != nil {
		return err
	}
	var words []string
	for _, effect := range effects {
		if effect.MayReplace() {
			seen.ExpectedPools = append(seen.ExpectedPools, effect.Pool)
			words = append(words, fmt.Sprintf("nodes of %s %s", effect.Pool, effect))
		}
	}
	if len(words) == 0 {
		words = []string{"no node is replaced"}
	}
	s.Event(v1alpha1.ReasonUpgradeForecast,
		fmt.Sprintf("Karpenter %s to %s: %s", s.karpenterStatus().Version, s.Charts.Version, finding.Some(words)))
	return nil
}

// Barrier returns why the charts may not be changed, given what AWS reports about the account; nil
// if they may. Karpenter's controller terminates every instance that has its
// cluster's tag but no NodeClaim here. Therefore no controller is installed or changed under
// the name of another cluster, and none is installed for the first time, or
// adopted, while AWS cannot confirm the name.
func Barrier(k v1alpha1.KarpenterStatus, verdict cloud.Verdict, allowUnverified bool) error {
	switch {
	case verdict.Reason == cloud.ReasonAuthorityDiffers:
		return fault.Refused(fmt.Errorf(
			"cluster.name %s is the name of another cluster, so plumbline does not change Karpenter's charts: %s; a controller with that name would terminate the other cluster's instances", k.Cluster, verdict.Message))
	case verdict.OK, verdict.Reason == cloud.ReasonInstancesInvisible:
		return nil // the certificate authority is that of the cluster
	case allowUnverified || !firstInstall(k):
		return nil
	}
	return fault.CloudUnverified(fmt.Errorf(
		"cannot verify that EKS cluster %s is this cluster: %s; plumbline installs or adopts Karpenter once it is verified, or with spec.guard.allowUnverifiedAccount: true", k.Cluster, verdict.Message))
}

// firstInstall reports whether plumbline never installed a controller.
func firstInstall(k v1alpha1.KarpenterStatus) bool {
	if k.Identity != "" {
		return false
	}
	if k.Target == nil {
		return true
	}
	switch k.Target.Step {
	case v1alpha1.ChartChecking, v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController:
		return true
	case v1alpha1.ChartRollingOut, v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack:
	}
	return false
}

// changesCharts reports whether an action changes the charts, or prepares a change.
func changesCharts(action Action) bool {
	switch action.(type) {
	case Check, Migrate, InstallCRDs, InstallController, RollBack:
		return true
	}
	return false
}

// Off reports whether the controller's environment disables one of Karpenter's feature
// gates.
func (s *Step) Off(ctx context.Context, gate string) (bool, error) {
	return s.switches(ctx, gate, false)
}

// On reports whether the controller's environment enables a feature gate.
func (s *Step) On(ctx context.Context, gate string) (bool, error) {
	return s.switches(ctx, gate, true)
}

// switches reports whether the controller's environment sets a feature gate to a value.
func (s *Step) switches(ctx context.Context, gate string, to bool) (bool, error) {
	if s.Sync.Status.Karpenter == nil {
		return false, nil
	}
	deployments, err := s.View.Controllers(ctx, s.Sync.Status.Karpenter.Namespace)
	if err != nil {
		return false, err
	}
	for i := range deployments {
		containers, err := s.View.Containers(ctx, &deployments[i])
		if err != nil {
			return false, err
		}
		if on, known := FeatureGate(containers, gate); known && on == to {
			return true, nil
		}
	}
	return false, nil
}

// frozenError reports a change of the charts that waits for a window of spec.guard.
type frozenError struct{ change, until string }

// Error returns which change waits, and until when.
func (e *frozenError) Error() string { return e.change + "; waiting: " + e.until }

// frozen returns why a change of the charts waits for a window of spec.guard; nil if it does not. A new controller may
// consider every node drifted. A change that restores a controller does not wait: an install, the return to the
// installed version, the rest of a change that has started, and any change while no controller runs.
func (s *Step) frozen(ctx context.Context, identity string) error {
	k := s.karpenterStatus()
	if s.Frozen.Message == "" || identity == k.Identity || !Begins(*k, identity) {
		return nil
	}
	if k.Target != nil && InProgress(*k.Target) {
		return nil // a partial change must not remain: its correction continues
	}
	if down, err := s.isDown(ctx); err != nil || down {
		return err
	}
	change, err := s.Change()
	if err != nil {
		return err
	}
	frozen := &frozenError{change: change, until: s.Frozen.Message}
	s.Wait("charts", fmt.Sprintf("%s; definitions are still applied under Karpenter %s, which is in force", frozen, k.Version))
	if until := s.Frozen.Until; !until.IsZero() {
		s.WakeBy(until)
	}
	return fault.Waits(frozen)
}

// isDown reports whether no controller has run for as long as a new one may take to start.
func (s *Step) isDown(ctx context.Context) (bool, error) {
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
	if err != nil || len(deployments) == 0 {
		return err == nil, err
	}
	if slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool { return cluster.Alive(&d) }) {
		s.Memory.downSince = time.Time{}
		return false, nil
	}
	since := unavailableSince(deployments)
	if since.IsZero() {
		// With one replica and maxUnavailable 1, a Deployment without a pod is available.
		if s.Memory.downSince.IsZero() {
			s.Memory.downSince = s.Now
		}
		since = s.Memory.downSince
	}
	until := since.Add(s.rolloutTimeout())
	if s.Now.Before(until) {
		s.WakeBy(until)
		return false, nil
	}
	return true, nil
}

// unavailableSince returns since when all Deployments have had too few replicas; zero if one of them does not report it.
func unavailableSince(deployments []appsv1.Deployment) (last time.Time) {
	for i := range deployments {
		conditions := deployments[i].Status.Conditions
		at := slices.IndexFunc(conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse
		})
		if at < 0 {
			return time.Time{}
		}
		if since := conditions[at].LastTransitionTime.Time; since.After(last) {
			last = since
		}
	}
	return last
}
