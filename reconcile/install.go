package reconcile

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
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// installCharts brings the first two Stages: the CRD chart, and once every CRD
// is Established the main chart, and sees whether its rollout is complete. With
// management External it looks whether somebody else has.
func (p *pass) installCharts(ctx context.Context) error {
	if p.karpenter.Management == render.External && p.sync.Status.Karpenter == nil {
		// Written before it is done: the next pass goes by it.
		p.fix()
		p.Wait("the first install", "what it fixes is recorded first")
		p.wakeNow()
		return nil
	}
	p.fix()
	p.noteCluster()
	p.stages.crds, p.stages.controller = unseen, unseen
	if err := p.sameClusterName(ctx); err != nil {
		return err
	}
	seen, err := p.seeCharts(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.karpenter.Management == render.External:
		return p.awaitCharts(ctx, seen)
	case p.charts == nil:
		// Without charts there is nothing to install from: what is there stays.
		p.stages.crds, p.stages.controller = seen.Established, seen.Rollout
		return nil
	case p.notUpgraded != nil:
		return p.serveInForce(ctx, seen)
	}
	if err = p.changeCharts(ctx, seen); err != nil && p.keepsInForce(err) {
		return p.goOnInForce(ctx, err)
	}
	return err
}

// unseen is what a pass says of a Stage that it has not come to.
var unseen = observe.Readiness{Message: "not looked at yet: what comes before it is not done"}

// seeCharts reads whether the CRDs are served and the controller is up, from the
// cache.
func (p *pass) seeCharts(ctx context.Context) (upgrade.Seen, error) {
	established, err := p.crdsEstablished(ctx)
	if err != nil {
		return upgrade.Seen{}, err
	}
	rollout, err := p.controllerRolledOut(ctx)
	return upgrade.Seen{
		Established: established,
		Rollout:     rollout,
		Approved:    p.approved(),
		Again:       p.insists(),
	}, err
}

// changeCharts does what upgrade.Next says until there is nothing more to do in
// this pass.
func (p *pass) changeCharts(ctx context.Context, seen upgrade.Seen) error {
	identity, err := p.installIdentity()
	if err != nil {
		return err
	}
	want := upgrade.Want{Version: p.karpenter.Version, Identity: identity}
	for {
		next, action := upgrade.Next(*p.sync.Status.Karpenter, want, seen, p.now, p.timeout())
		p.sync.Status.Karpenter = &next
		p.stages.crds = seen.Established
		p.stages.changing = next.Target != nil && next.Target.Step != v1alpha1.ChartSettling
		ctrl.LoggerFrom(ctx).V(1).Info("charts", "action", p.memory.hidden.hide(action.String()))
		if again, err := p.takeChartStep(ctx, action, &seen); err != nil || !again {
			return err
		}
	}
}

// takeChartStep does one Action. It says whether Next is to be asked again.
func (p *pass) takeChartStep(ctx context.Context, action upgrade.Action, seen *upgrade.Seen) (again bool, err error) {
	if changesCharts(action) {
		if err := p.mayChangeCharts(ctx); err != nil {
			return false, err
		}
	}
	switch a := action.(type) {
	case upgrade.Keep:
		return false, p.keepCharts(ctx, seen)
	case upgrade.Check:
		err = p.checkCharts(ctx, seen)
	case upgrade.Migrate:
		err = p.migrateStored(ctx, seen)
	case upgrade.BringCRDs:
		seen.CRDs, err = p.bringCRDs(ctx, seen)
	case upgrade.BringController:
		seen.Controller, err = p.bringController(ctx, seen)
	case upgrade.Diagnose:
		err = p.askPods(ctx, seen)
	case upgrade.RollBack:
		seen.RolledBack, err = p.rollBack(ctx, a.Revision, seen)
		if lost := (*release.NoRevisionError)(nil); errors.As(err, &lost) {
			seen.Lost, err = true, nil
			p.Warn("ReleaseLost", fmt.Sprintf("helm release %s has no revision %d to go back to: Karpenter %s is installed from the beginning", lost.Release, lost.Revision, p.karpenter.Version))
		}
	default:
		return false, p.pauseCharts(action)
	}
	return err == nil, err
}

// pauseCharts notes an Action after which nothing more is done to the charts in
// this pass: one that waits for its record or for the cluster, or one that failed.
func (p *pass) pauseCharts(action upgrade.Action) error {
	switch a := action.(type) {
	case upgrade.Record:
		words := chartStepWords(p.sync.Status.Karpenter)
		p.stages.controller = observe.Readiness{Message: words}
		p.Wait("charts", words)
		p.wakeNow()
	case upgrade.Wait:
		p.stages.controller = observe.Readiness{Message: a.Message}
		if a.On == "Controller" {
			p.WakeBy(p.now.Add(asking))
		}
	case upgrade.Hold:
		return held(a.Message)
	case upgrade.Stall:
		p.WakeBy(p.now.Add(p.retryInterval()))
		return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonStalled, Err: errors.New(a.Message)}
	case upgrade.Fail:
		if p.sync.Status.Karpenter.Target.Step != v1alpha1.ChartRolledBack {
			p.WakeBy(p.now.Add(asking))
		}
		return upgradeFailed(a.Message)
	}
	return nil
}

// asking is how often it is asked who leads, while a new controller comes up:
// its lease is not watched.
const asking = 2 * time.Second

// chartStepWords say what comes next of a change.
func chartStepWords(k *v1alpha1.KarpenterStatus) string {
	return fmt.Sprintf("%s of Karpenter %s is recorded, and starts next", k.Target.Step, k.Target.Version)
}

// settleCharts ends a change of the charts once every definition is Ready under
// the new controller.
func (p *pass) settleCharts(context.Context) error {
	if !p.stages.controller.Ready {
		return nil
	}
	for _, kind := range []string{render.EC2NodeClass, render.NodePool} {
		if ready := p.stages.of(p.set, kind); !ready.Ready {
			return nil
		}
	}
	settled := upgrade.Settle(*p.sync.Status.Karpenter, observe.Readiness{Ready: true})
	p.sync.Status.Karpenter = &settled
	return nil
}

// keepCharts looks whether what is installed still stands, and puts it right.
func (p *pass) keepCharts(ctx context.Context, seen *upgrade.Seen) error {
	identity := p.sync.Status.Karpenter.Identity // what is kept is what is in force
	standing, err := p.standing(ctx)
	if err != nil {
		return err
	}
	if err := p.tellLost(ctx); err != nil {
		return err
	}
	if err := p.askReleases(ctx); err != nil {
		return err
	}
	if p.installedAs(identity, standing) {
		p.fought = p.memory.fought
	} else if p.unkept = p.mayChangeCharts(ctx); p.unkept == nil {
		p.fought = nil // all of both charts is looked at
		if _, err := p.bringCRDs(ctx, seen); err != nil || !seen.Established.Ready {
			p.stages.crds = seen.Established
			return err
		}
		before := seen.Rollout
		if seen.Controller, err = p.bringController(ctx, seen); err != nil {
			return err
		}
		if seen.Rollout != before {
			p.WakeBy(p.now.Add(soon)) // the cache still has the rollout of before
		}
		p.sync.Status.Karpenter.Controller = seen.Controller
		p.memory.installed, p.memory.standing, p.memory.fought = identity, standing, p.fought
		p.memory.releasesAskedAt = p.now
	}
	p.stages.crds, p.stages.controller = seen.Established, seen.Rollout
	return nil
}

func (p *pass) installation() release.Request {
	return release.Request{
		Installation: charts.Installation{
			Namespace:         p.karpenter.Namespace,
			Cluster:           p.karpenter.Cluster.Name,
			Region:            p.karpenter.Cluster.Region,
			InterruptionQueue: p.karpenter.Cluster.InterruptionQueue,
			ControllerRole:    p.karpenter.Cluster.ControllerRole,
			Values:            p.values.Merged,
			Sealed:            p.values.Sealed,
		},
		Adopt:         p.karpenter.Adopt,
		Ignored:       ignored(p.karpenter.IgnoreDifferences),
		CorrectPaused: p.insists(),
		Permit:        p.permit,
	}
}

func ignored(differences []render.IgnoreDifference) []survey.Ignore {
	var all []survey.Ignore
	for _, d := range differences {
		all = append(all, survey.Ignore{Kind: d.Kind, Name: d.Name, JSONPointers: d.JSONPointers, Managers: d.ManagedFieldsManagers})
	}
	return all
}

// installIdentity is equal for two passes that would install the same.
func (p *pass) installIdentity() (string, error) {
	if p.charts == nil {
		return "", nil
	}
	raw, err := json.Marshal([]any{p.charts.CRDDigest, p.charts.Digest, p.installation().Public()})
	if err != nil {
		return "", fmt.Errorf("encode the charts' values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
