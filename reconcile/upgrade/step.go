package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Helm installs charts.
type Helm interface {
	EnsureCRDs(ctx context.Context, c *charts.Charts, want release.Request) (release.Result, error)
	EnsureController(ctx context.Context, c *charts.Charts, want release.Request) (release.Result, error)
	// ServerVersion returns the cluster's version of Kubernetes.
	ServerVersion(ctx context.Context) (string, error)
	// Rehearse checks whether both could be installed, and writes nothing.
	Rehearse(ctx context.Context, c *charts.Charts, want release.Request) error
	// Permitted calls want.Permit with what both render to; unlike Rehearse, it does not send dry runs to the API
	// server.
	Permitted(ctx context.Context, c *charts.Charts, want release.Request) error
	// RollBack rolls the main chart back to a revision.
	RollBack(ctx context.Context, want release.Request, revision int) (release.Result, error)
	// Earlier returns the last revision of the main chart that differs from the current one; its Revision is 0 if there
	// is none.
	Earlier(ctx context.Context, namespace string) (release.Result, error)
	// Survey finds what another tool has installed of Karpenter.
	Survey(ctx context.Context, namespace string) (survey.Found, error)
	// State returns the state of the two releases in Helm.
	State(ctx context.Context, namespace string) (release.State, error)
}

// Tools are the dependencies of a Step; they are the same for all NodeSyncs.
type Tools struct {
	// Client rewrites objects whose stored version will be dropped.
	Client client.Client
	Helm   Helm
	// Logs reads the end of a container's log. If nil, no logs are read.
	Logs Logs
	// Grant reads the role of Karpenter's controller. If nil, AWS is not queried.
	Grant ReadGrant
	// Schemas are the compiled schemas.
	Schemas *schema.Cache
	// StillLeader returns an error if this process no longer holds the lease.
	StillLeader func(context.Context) error
}

// Wanted is what Git specifies for Karpenter.
type Wanted struct {
	Karpenter *render.Karpenter
	// Charts are nil if they are unavailable, or another tool installs them.
	Charts *charts.Charts
	Values charts.Values
	// Permit refuses objects of the charts that the NodeSync does not allow.
	Permit func(release.Rendered) error
	// Revision of the repository.
	Revision string
	// Set is what will be applied with the new controller.
	Set *render.Set
	// Serving is the version that stays in force if the change is not made.
	Serving string
	// Frozen is why no change of the charts may start now, because of spec.guard.windows and freeze; zero if it may.
	Frozen plan.Frozen
	// Older reports whether Revision is, or may be, older than what was applied: no change starts for it.
	Older bool
}

// Step is the work on the charts of one reconcile of one NodeSync.
type Step struct {
	Tools
	Wanted
	finding.Findings

	// Sync is the NodeSync. Only its status.karpenter, the record of the change, is written: each step is in it before
	// it is taken.
	Sync *v1alpha1.NodeSync
	View *cluster.View
	// Live contains the live definitions.
	Live   plan.Live
	Memory *Memory

	Now time.Time
	// Timeout is how long a controller may take to become ready, at least minRollout. Retry is how long a refused
	// change is not retried.
	Timeout, Retry time.Duration
	// Requested reports whether a person has requested this reconcile.
	Requested bool
	// Confirm returns why the charts may not be changed, if AWS reports whose cluster this is.
	Confirm func(context.Context) error
	// Hide removes the content of Secrets from a message.
	Hide func(string) string

	out Installed
}

// minRollout is the minimum time that a new controller gets to become ready and to lead: the lease of the previous
// one lasts 15 s (client-go's default, which Karpenter keeps), so a shorter time would roll every change back.
const minRollout = 30 * time.Second

func (s *Step) rolloutTimeout() time.Duration { return max(s.Timeout, minRollout) }

// Installed is the result of a Step.
type Installed struct {
	// CRDs and Controller are the state of the first two Stages.
	CRDs, Controller cluster.Readiness
	// Changing reports whether the charts are being changed: definitions wait until the new controller is in force, so
	// that nothing prevents a rollback.
	Changing bool
	// Alive reports whether the controller has at least one ready replica.
	Alive bool
	// Paused are the objects of the charts that another client changes repeatedly.
	Paused []survey.Drift
	// Unkept is why the objects of the charts may not be corrected, if the reconcile continues.
	Unkept error
}

// Memory is what one reconcile passes to the next, to avoid repeated work. The zero value is ready to use.
type Memory struct {
	// gated is the change of the charts that was last refused or held.
	gated gated
	// rights are the last answer about the role of Karpenter's controller.
	rights readRights
	// installed is the identity of the charts that are known to be installed, fingerprint their state then, and
	// repairedAt when any of it was last corrected.
	installed, fingerprint string
	repairedAt             time.Time
	// releasesAskedAt is when Helm was last queried whether its releases exist.
	releasesAskedAt time.Time
	// downSince is since when no working controller was observed, if its Deployment does not report it.
	downSince time.Time
	// paused is what is not corrected because another client keeps changing it.
	paused []survey.Drift
	// reportedLost is the CRD that was reported as deleted together with its nodes.
	reportedLost types.UID
	// external is the last check of the CRDs that another tool has installed.
	external external
}

// karpenterStatus returns the status of the charts.
func (s *Step) karpenterStatus() *v1alpha1.KarpenterStatus { return s.Sync.Status.Karpenter }

// WhyNot returns why the charts are not changed to what is in Git, as far as that can be found without a write: it
// checks the gates and, from the rehearsal, what the NodeSync does not allow, without a dry run by the API server. It
// is nil if they are changed, or there is nothing to change. It writes only to Sync.
func (s *Step) WhyNot(ctx context.Context) error {
	if s.Karpenter.Management == render.External {
		_, err := s.Run(ctx)
		return err
	}
	if err := s.sameClusterName(ctx); err != nil || s.Charts == nil {
		return err
	}
	identity, err := s.Identity()
	if err != nil {
		return err
	}
	if held := s.refuseOlder(identity); held != nil || s.karpenterStatus().Identity == identity || s.inProgress(identity) {
		return held
	}
	frozen := s.frozen(ctx, identity)
	if frozen != nil && !IsFrozen(frozen) {
		return frozen
	}
	seen := Seen{}
	if err := s.checkReadOnlyGates(ctx, &seen); err != nil {
		return err
	}
	if seen.RollbackBlockers != "" && !s.approved() {
		return fault.Held(errors.New(seen.RollbackBlockers))
	}
	if err := s.Helm.Permitted(ctx, s.Charts, s.rehearsal(ctx)); err != nil {
		return err
	}
	return frozen
}

// Change returns what is done with the charts of a commit if nothing prevents it; empty if they match Git.
func (s *Step) Change() (string, error) {
	if s.Karpenter.Management == render.External || s.Charts == nil {
		return "", nil
	}
	identity, err := s.Identity()
	k := s.karpenterStatus()
	switch {
	case err != nil || k.Identity == identity:
		return "", err
	case k.Identity == "":
		return fmt.Sprintf("Karpenter %s is installed: chart karpenter-crd, then chart karpenter", s.Karpenter.Version), nil
	case k.Version != s.Karpenter.Version:
		return fmt.Sprintf("Karpenter %s is upgraded to %s: chart karpenter-crd, then chart karpenter", k.Version, s.Karpenter.Version), nil
	}
	return fmt.Sprintf("the charts of Karpenter %s are upgraded: their values or content differ from the installed release, and the controller may be rolled out again", k.Version), nil
}

// inProgress reports whether a change to what is in Git has passed its gates.
func (s *Step) inProgress(identity string) bool {
	t := s.karpenterStatus().Target
	return t != nil && t.Identity == identity && t.Step != v1alpha1.ChartChecking
}

// installedAs reports whether the charts are known to be installed as in Git, and unchanged. What another client
// changes repeatedly is corrected at the retry interval, because each correction adds a revision of the release.
func (s *Step) installedAs(identity, fingerprint string) bool {
	if s.Memory.installed != identity || len(s.Memory.paused) > 0 && s.Requested {
		return false
	}
	if s.Memory.fingerprint == fingerprint {
		return true
	}
	if !s.Requested && !finding.Due(s.Now, s.Memory.repairedAt, s.Retry) {
		s.WakeBy(s.Memory.repairedAt.Add(s.Retry))
		return true
	}
	return false
}
