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
	// ServerVersion is the cluster's version of Kubernetes.
	ServerVersion(ctx context.Context) (string, error)
	// Rehearse finds out whether both could be installed, and writes nothing.
	Rehearse(ctx context.Context, c *charts.Charts, want release.Request) error
	// Permitted asks want.Permit about what both render to, and the API server to try none of it.
	Permitted(ctx context.Context, c *charts.Charts, want release.Request) error
	// RollBack brings the main chart again as it was at a revision.
	RollBack(ctx context.Context, want release.Request, revision int) (release.Result, error)
	// Earlier is the revision of the main chart before those that are as the last one; its
	// Revision is 0 where there is none.
	Earlier(ctx context.Context, namespace string) (release.Result, error)
	// Survey looks for what another tool has installed of Karpenter.
	Survey(ctx context.Context, namespace string) (survey.Found, error)
	// State is what Helm knows of the two releases.
	State(ctx context.Context, namespace string) (release.State, error)
}

// Tools are what a Step works with, the same for all NodeSyncs.
type Tools struct {
	// Client rewrites objects whose stored version is to go.
	Client client.Client
	Helm   Helm
	// Logs reads the end of a container's log. Nil if none can be read.
	Logs Logs
	// Schemas are those that are compiled.
	Schemas *schema.Cache
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Wanted is what Git has of Karpenter.
type Wanted struct {
	Karpenter *render.Karpenter
	// Charts are nil if they are unavailable, or another tool's.
	Charts *charts.Charts
	Values charts.Values
	// Permit refuses objects of the charts that the NodeSync does not allow.
	Permit func(release.Rendered) error
	// Revision of the repository.
	Revision string
	// Set is what will be applied under the new controller.
	Set *render.Set
	// Serving is the version that stays in force, where the change is not made.
	Serving string
	// Frozen is why no change of the charts begins now, by spec.guard.windows and freeze; zero if it
	// may.
	Frozen plan.Frozen
	// Older reports whether Revision is, or may be, older than what was applied: no change begins for it.
	Older bool
}

// Step is the work on the charts of one reconcile of one NodeSync.
type Step struct {
	Tools
	Wanted
	finding.Findings

	// Sync is the NodeSync. Its status.karpenter is the record of the change: each step
	// is in it before it is taken. Nothing else of it is written.
	Sync *v1alpha1.NodeSync
	View *cluster.View
	// Live is what lives of the definitions.
	Live   plan.Live
	Memory *Memory

	Now time.Time
	// Timeout is how long a controller may take to come up, leastRollout at least, and Retry
	// how long what was refused is not tried again.
	Timeout, Retry time.Duration
	// Insist reports whether a person has asked for this reconcile.
	Insist bool
	// Confirm returns why the charts may not be changed, if AWS reports whose
	// cluster this is.
	Confirm func(context.Context) error
	// Hide takes what came out of Secrets from a message.
	Hide func(string) string

	out Installed
}

// leastRollout is how long a new controller has at least to come up and to lead: the lease
// of the one before lasts 15 s (client-go's default, which Karpenter leaves), so that a
// shorter time would roll every change back.
const leastRollout = 30 * time.Second

func (s *Step) rolloutTimeout() time.Duration { return max(s.Timeout, leastRollout) }

// Installed is the result of a Step.
type Installed struct {
	// CRDs and Controller say how far the first two Stages are.
	CRDs, Controller cluster.Readiness
	// Changing reports whether the charts are being changed: definitions wait until the new
	// controller is in force, so that nothing stands in the way back.
	Changing bool
	// Alive reports whether the controller has at least one ready replica.
	Alive bool
	// Fought is what the charts made and another client changes again and again.
	Fought []survey.Drift
	// Unkept is why what the charts made may not be corrected, where the reconcile goes on.
	Unkept error
}

// Memory is what one reconcile leaves to the next so that unchanged things are not done
// again. The zero value remembers nothing.
type Memory struct {
	// The change of the charts that was refused or held last.
	gated gated
	// The charts that are known to be installed, what stood of them then, and when
	// something of them was corrected last.
	installed, fingerprint string
	repairedAt             time.Time
	// releasesAskedAt is when Helm was asked last whether its releases are there.
	releasesAskedAt time.Time
	// downSince is since when no controller has been seen at work, if its Deployment does not report it.
	downSince time.Time
	// fought is what of them is left as another client goes on changing it.
	fought []survey.Drift
	// lost is the CRD whose nodes were reported lost with it.
	lost types.UID
	// What was found last of the CRDs that another tool has installed.
	external external
}

// k is how far the charts are.
func (s *Step) k() *v1alpha1.KarpenterStatus { return s.Sync.Status.Karpenter }

// WhyNot says why the charts are not changed to what Git has, by what is found without a
// write: the gates, and of the rehearsal what the NodeSync does not allow, which is found without
// having the API server try it. Nil if they are, or where there is nothing to change. It writes
// only to Sync.
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
	if held := s.goesBack(identity); held != nil || s.k().Identity == identity || s.inProgress(identity) {
		return held
	}
	frozen := s.frozen(ctx, identity)
	if frozen != nil && !IsFrozen(frozen) {
		return frozen
	}
	seen := Seen{}
	if err := s.weigh(ctx, &seen); err != nil {
		return err
	}
	if seen.NoWayBack != "" && !s.approved() {
		return fault.Held(errors.New(seen.NoWayBack))
	}
	if err := s.Helm.Permitted(ctx, s.Charts, s.installation()); err != nil {
		return err
	}
	return frozen
}

// Change says what is done with the charts of a commit, where nothing keeps it from being done;
// empty if they are as Git says.
func (s *Step) Change() (string, error) {
	if s.Karpenter.Management == render.External || s.Charts == nil {
		return "", nil
	}
	identity, err := s.Identity()
	k := s.k()
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

// inProgress reports whether a change to what Git has is past its gates.
func (s *Step) inProgress(identity string) bool {
	t := s.k().Target
	return t != nil && t.Identity == identity && t.Step != v1alpha1.ChartChecking
}

// installedAs reports whether the charts are known to be installed as Git says, and
// to stand. What another client changes again and again is corrected at the pace of
// retries: each time costs a revision of the release.
func (s *Step) installedAs(identity, fingerprint string) bool {
	if s.Memory.installed != identity || len(s.Memory.fought) > 0 && s.Insist {
		return false
	}
	if s.Memory.fingerprint == fingerprint {
		return true
	}
	if !s.Insist && !finding.Due(s.Now, s.Memory.repairedAt, s.Retry) {
		s.WakeBy(s.Memory.repairedAt.Add(s.Retry))
		return true
	}
	return false
}
