package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// Run carries out the first two Stages: it installs the CRD chart and, once every CRD is Established, the main chart,
// and checks whether its rollout is complete. With management External, it checks whether another tool has done so. If
// InForce is true for an error, a release stays in force, and the rest of the reconcile may continue with it.
func (s *Step) Run(ctx context.Context) (Installed, error) {
	s.out = Installed{CRDs: notReached, Controller: notReached}
	if err := s.sameClusterName(ctx); err != nil {
		return s.out, err
	}
	seen, err := s.readSeen(ctx)
	if err != nil {
		return s.out, err
	}
	switch {
	case s.Karpenter.Management == render.External:
		err = s.awaitCharts(ctx, seen)
	case s.Charts == nil:
		// Without charts nothing can be installed, so what exists stays.
		s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	default:
		err = s.change(ctx, seen)
	}
	if busy := (*release.BusyError)(nil); errors.As(err, &busy) {
		s.WakeBy(s.Now.Add(busyEvery))
	}
	s.awaitLive()
	return s.out, err
}

// awaitLive makes the definitions wait for the next reconcile if Karpenter's kinds are served only since this one has
// observed the cluster: in its plan every object would be new.
func (s *Step) awaitLive() {
	if s.out.CRDs.Ready && !s.Live.Served {
		s.out.CRDs = cluster.Readiness{Message: "Karpenter's CRDs are served; reading the existing NodePools and EC2NodeClasses next"}
		s.WakeBy(s.Now)
	}
}

// busyEvery is how often to check whether another Helm client has finished: its Secrets are not watched.
const busyEvery = 5 * time.Second

// Serve checks the state of the release in force without changing the charts.
func (s *Step) Serve(ctx context.Context) (Installed, error) {
	s.out = Installed{CRDs: notReached, Controller: notReached}
	if err := s.sameClusterName(ctx); err != nil {
		return s.out, err
	}
	seen, err := s.readSeen(ctx)
	if err != nil {
		return s.out, err
	}
	s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	err = s.reportLostNodes(ctx)
	s.awaitLive()
	return s.out, err
}

// Controller checks whether the rollout of the installed release is complete, and whether the controller is alive.
func (s *Step) Controller(ctx context.Context) (rollout cluster.Readiness, alive bool, err error) {
	if s.Sync.Status.Karpenter == nil {
		return rollout, false, nil // there was none
	}
	rollout, err = s.rolledOut(ctx)
	return rollout, s.out.Alive, err
}

// notReached is the state of a Stage that a reconcile has not reached.
var notReached = cluster.Readiness{Message: "not checked yet: an earlier stage is not done"}

// readSeen reads from the cache whether the CRDs are served and the controller is up.
func (s *Step) readSeen(ctx context.Context) (Seen, error) {
	established, err := s.View.Established(ctx)
	if err != nil {
		return Seen{}, err
	}
	rollout, err := s.rolledOut(ctx)
	return Seen{
		Established: established,
		Rollout:     rollout,
		Approved:    s.approved(),
		Again:       s.Requested,
	}, err
}

// change carries out the Actions of Next until nothing more can be done in this reconcile.
func (s *Step) change(ctx context.Context, seen Seen) error {
	identity, err := s.Identity()
	if err != nil {
		return err
	}
	want, held := Want{Version: s.Karpenter.Version, Identity: identity, Charts: s.resolved()}, s.refuseOlder(identity)
	if held == nil {
		held = s.frozen(ctx, identity)
	}
	if held != nil {
		t := s.karpenterStatus().Target
		if t == nil || !InProgress(*t) {
			return held
		}
		want = Want{Version: t.Version, Identity: t.Identity, Charts: t.Charts}
	}
	for {
		next, action := Next(*s.karpenterStatus(), want, seen, s.Now, s.rolloutTimeout())
		s.Sync.Status.Karpenter = &next
		s.out.CRDs = seen.Established
		s.out.Changing = next.Target != nil && next.Target.Step != v1alpha1.ChartSettling
		ctrl.LoggerFrom(ctx).V(1).Info("charts", "action", s.Hide(action.String()))
		take := s.doAction
		if held != nil {
			take = s.finishNewer(held)
		}
		again, err := take(ctx, action, &seen)
		if err != nil && seen.Established.Ready && !seen.Rollout.Ready {
			s.out.Controller = seen.Rollout // this is what fails
		}
		if err != nil || !again {
			return err
		}
	}
}

// doAction carries out one Action. It reports whether to call Next again.
func (s *Step) doAction(ctx context.Context, action Action, seen *Seen) (again bool, err error) {
	if changesCharts(action) {
		if err := s.Confirm(ctx); err != nil {
			return false, err
		}
	}
	switch a := action.(type) {
	case Keep:
		return false, s.keepCharts(ctx, seen)
	case Check:
		err = s.checkCharts(ctx, seen)
	case Migrate:
		err = s.migrateStored(ctx, seen)
	case InstallCRDs:
		seen.CRDs, err = s.installCRDs(ctx, seen)
	case InstallController:
		seen.Controller, err = s.installController(ctx, seen)
	case Diagnose:
		err = s.readPods(ctx, seen)
	case FindEarlier:
		seen.Searched = true
		seen.Earlier, err = s.findEarlier(ctx)
	case RollBack:
		seen.RolledBack, err = s.rollBack(ctx, a.Revision, seen)
		if lost := (*release.NoRevisionError)(nil); errors.As(err, &lost) {
			seen.Lost, err = true, nil
			s.Warn(v1alpha1.ReasonReleaseLost, fmt.Sprintf("Helm release %s has no revision %d to roll back to: plumbline reinstalls Karpenter %s",
				lost.Release, lost.Revision, s.Karpenter.Version))
		}
	default:
		return false, s.pauseCharts(action)
	}
	return err == nil, err
}

// pauseCharts handles an Action after which nothing more is done to the charts in this reconcile: one that waits for
// its record or for the cluster, or one that failed.
func (s *Step) pauseCharts(action Action) error {
	switch a := action.(type) {
	case Record:
		words := chartStepWords(s.karpenterStatus())
		s.out.Controller = cluster.Readiness{Message: words}
		s.Wait("charts", words)
		s.WakeBy(s.Now)
	case Wait:
		s.out.Controller = cluster.Readiness{Message: a.Message}
		if a.On == "Controller" {
			s.WakeBy(s.Now.Add(leaderInterval))
		}
	case Hold:
		return fault.Held(errors.New(a.Message))
	case Stall:
		s.WakeBy(s.Now.Add(s.Retry))
		return fault.Stalled(errors.New(a.Message))
	case Fail:
		if s.karpenterStatus().Target.Step != v1alpha1.ChartRolledBack {
			s.WakeBy(s.Now.Add(leaderInterval))
		}
		return fault.UpgradeFailed(errors.New(a.Message))
	}
	return nil
}

// leaderInterval is how often to check who leads while a new controller starts: its lease is not watched.
const leaderInterval = 2 * time.Second

// chartStepWords returns the next step of a change.
func chartStepWords(k *v1alpha1.KarpenterStatus) string {
	return fmt.Sprintf("Karpenter %s, next step: %s", k.Target.Version, k.Target.Step)
}

// keepCharts checks whether the installed release is unchanged, and corrects it.
func (s *Step) keepCharts(ctx context.Context, seen *Seen) error {
	identity := s.karpenterStatus().Identity // the release in force is what is kept
	fingerprint, err := s.View.Fingerprint(ctx, s.karpenterStatus().Namespace, s.Karpenter.IgnoreDifferences)
	if err != nil {
		return err
	}
	if err := s.reportLostNodes(ctx); err != nil {
		return err
	}
	if err := s.readReleases(ctx); err != nil {
		return err
	}
	if s.installedAs(identity, fingerprint) {
		s.out.Paused = s.Memory.paused
	} else if s.out.Unkept = s.Confirm(ctx); s.out.Unkept == nil {
		s.out.Paused = nil // both charts are checked completely
		crds, err := s.installCRDs(ctx, seen)
		if err == nil {
			s.karpenterStatus().CRDs = crds
		}
		if err != nil || !seen.Established.Ready {
			s.out.CRDs = seen.Established
			return err
		}
		before := seen.Rollout
		if seen.Controller, err = s.installController(ctx, seen); err != nil {
			return err
		}
		if seen.Rollout != before {
			s.WakeBy(s.Now.Add(finding.Soon)) // the cache still contains the previous rollout
		}
		s.karpenterStatus().Controller = seen.Controller
		s.Memory.installed, s.Memory.fingerprint, s.Memory.paused = identity, fingerprint, s.out.Paused
		s.Memory.releasesAskedAt = s.Now
	}
	s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	return nil
}

func (s *Step) installation() release.Request {
	return release.Request{
		Installation: charts.Installation{
			Namespace:         s.Karpenter.Namespace,
			Cluster:           s.Karpenter.Cluster.Name,
			Region:            s.Karpenter.Cluster.Region,
			InterruptionQueue: s.Karpenter.Cluster.InterruptionQueue,
			ControllerRole:    s.Karpenter.Cluster.ControllerRole,
			Values:            s.Values.Merged,
			Sealed:            s.Values.Sealed,
		},
		Adopt:         s.Karpenter.Adopt,
		Ignored:       ignored(s.Karpenter.IgnoreDifferences),
		CorrectPaused: s.Requested,
		Permit:        s.Permit,
	}
}

func ignored(differences []render.IgnoreDifference) []survey.Ignore {
	var all []survey.Ignore
	for _, d := range differences {
		all = append(all, survey.Ignore{Kind: d.Kind, Name: d.Name, JSONPointers: d.JSONPointers, Managers: d.ManagedFieldsManagers})
	}
	return all
}

// resolved returns the charts for the status.
func (s *Step) resolved() *v1alpha1.ResolvedCharts {
	if s.Charts == nil {
		return nil
	}
	return &v1alpha1.ResolvedCharts{Repository: s.Charts.Repository, CRDDigest: s.Charts.CRDDigest, Digest: s.Charts.Digest}
}

// Identity returns the same text for two reconciles that would install the same.
func (s *Step) Identity() (string, error) {
	if s.Charts == nil {
		return "", nil
	}
	raw, err := json.Marshal([]any{s.Charts.CRDDigest, s.Charts.Digest, s.installation().Public()})
	if err != nil {
		return "", fmt.Errorf("encode the charts' values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Refused returns why an earlier reconcile refused the change in Git; nil if that must be checked.
func (s *Step) Refused() (why, err error) {
	k := s.karpenterStatus()
	if k == nil || k.Target == nil || s.Requested || InForce(*k) == "" {
		return nil, nil
	}
	identity, err := s.Identity()
	if err != nil || k.Target.Identity != identity {
		return nil, err
	}
	switch k.Target.Step {
	case v1alpha1.ChartRolledBack:
		return fault.UpgradeFailed(errors.New(k.Target.Message)), nil
	case v1alpha1.ChartChecking:
		return s.gatesRefused(identity), nil
	default:
		return nil, nil
	}
}

// StaysInForce reports whether a release stays in force after a change that failed, so the rest of the reconcile
// continues with it.
func StaysInForce(k *v1alpha1.KarpenterStatus, failed error) bool {
	f := fault.Classify(failed)
	return f != nil && (f.Class == fault.Terminal || IsFrozen(failed)) && InForce(*k) != ""
}

// IsFrozen reports whether an error means that a change of the charts waits for a window of spec.guard.
func IsFrozen(err error) bool {
	var frozen *frozenError
	return errors.As(err, &frozen)
}

// Changes reports whether a change of the charts would start.
func (s *Step) Changes() bool {
	if s.Karpenter.Management == render.External || s.Charts == nil || s.karpenterStatus() == nil {
		return false
	}
	identity, err := s.Identity()
	return err == nil && Begins(*s.karpenterStatus(), identity)
}

// refuseOlder returns why no change of the charts starts for a revision that is, or may be, older than what was
// applied; nil if it is not, or if there is no change to start. With two replicas of a mirror, one of which lags
// behind, charts would be changed back and forth, until Helm's history contains no release to roll back to.
func (s *Step) refuseOlder(identity string) error {
	k := s.karpenterStatus()
	if !s.Older || !Begins(*k, identity) {
		return nil
	}
	known := "Karpenter " + k.Version + " stays in force"
	if t := k.Target; t != nil && InProgress(*t) {
		known = fmt.Sprintf("a change to Karpenter %s is in progress", t.Version)
	}
	return fault.Held(fmt.Errorf("HEAD is, or may be, older than the applied revision (the branch was reset, or a mirror lags behind), and its charts differ: %s; push a newer commit", known))
}

// finishNewer takes the steps of a change that a newer revision started, if they are possible without its charts: it
// waits for the controller, or rolls back to the previous release. It returns held if nothing else failed.
func (s *Step) finishNewer(held error) func(context.Context, Action, *Seen) (bool, error) {
	return func(ctx context.Context, action Action, seen *Seen) (again bool, err error) {
		switch action.(type) {
		case Diagnose, FindEarlier, RollBack:
			return s.doAction(ctx, action, seen)
		case InstallController:
			if seen.Controller, err = s.rolledOutAs(ctx, *s.karpenterStatus().Target); err != nil || seen.Controller != nil {
				return err == nil, err
			}
		case Record, Wait, Stall, Fail:
			if err := s.pauseCharts(action); err != nil {
				return false, err
			}
		}
		return false, held
	}
}

// rolledOutAs returns the release of a change that was written; nil if the release is another one.
func (s *Step) rolledOutAs(ctx context.Context, t v1alpha1.ChartTarget) (*v1alpha1.ReleaseStatus, error) {
	state, err := s.Helm.State(ctx, s.karpenterStatus().Namespace)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the Helm release %s", charts.ControllerChart), err)
	}
	if t.Step != v1alpha1.ChartRollingOut || !state.Controller.Installed(t.Version) {
		return nil, nil
	}
	return &v1alpha1.ReleaseStatus{Revision: int32(state.Controller.Revision), Version: t.Version}, nil
}

// releasesEvery is the minimum interval between two queries to Helm that no person requested.
const releasesEvery = time.Minute

// readReleases queries Helm whether both releases are as plumbline has left them; if not, they no longer count as
// installed. Nothing reports changes of a release: the CRDs outlive theirs, because of helm.sh/resource-policy, and its
// Secrets are not watched. It queries when a person requests a reconcile, and once per interval.
func (s *Step) readReleases(ctx context.Context) error {
	every := max(s.Sync.Spec.Interval.Duration, releasesEvery)
	if s.Memory.installed == "" || !s.Requested && !finding.Due(s.Now, s.Memory.releasesAskedAt, every) {
		return nil
	}
	state, err := s.Helm.State(ctx, s.Karpenter.Namespace)
	if err != nil {
		return err
	}
	s.Memory.releasesAskedAt = s.Now
	if !state.CRDs.Intact() || !state.Controller.Intact() {
		s.Memory.installed = ""
	}
	return nil
}

// reinstalled reports whether a step has installed a release that existed before.
func (s *Step) reinstalled(chart string, result release.Result) bool {
	if result.Step != release.Install || !result.Changed {
		return false
	}
	k := s.karpenterStatus()
	if chart == charts.CRDChart {
		return k.CRDs != nil
	}
	return k.Controller != nil
}
