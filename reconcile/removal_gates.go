package reconcile

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// What spec.removal says where it says nothing: the defaults of the CRD, for a
// NodeSync that is older than they are.
const (
	defaultStallAfter = 15 * time.Minute
	defaultGrace      = 30 * time.Second
	defaultPace       = "10%"
)

func (p *pass) stallAfter() time.Duration { return p.sync.GetStallAfter() }

// pace is how fast this NodeSync has NodeClaims ended.
func (p *pass) pace() teardown.Pace {
	policy := p.sync.Spec.Removal
	pace := teardown.Pace{
		Grace:          defaultGrace,
		AtOnce:         policy.Strategy == v1alpha1.RemovalAtOnce,
		MaxUnavailable: intstr.FromString(defaultPace),
		AwaitPods:      p.successorWanted(),
	}
	if policy.Grace != nil {
		pace.Grace = policy.Grace.Duration
	}
	if policy.MaxUnavailable != nil {
		pace.MaxUnavailable = *policy.MaxUnavailable
	}
	return pace
}

// controllerGate is open while Karpenter's controller has a ready replica: only
// it can end what is deleted.
func (p *pass) controllerGate() teardown.Gate {
	message := p.stages.Controller.Message
	if message == "" {
		message = "Karpenter's controller has no ready replica"
	}
	return teardown.Gate{Open: p.stages.Alive, Message: message}
}

// leaderGate is open while a pod of Karpenter's controller leads, as the API
// server itself says: a deletionTimestamp cannot be taken back, and a Deployment
// tells late that its pods are gone.
func (p *pass) leaderGate(ctx context.Context) teardown.Gate {
	deployments, err := p.view.Controllers(ctx, p.sync.Status.Karpenter.Namespace)
	if err != nil {
		return teardown.Gate{Message: err.Error()}
	}
	leads, err := upgrade.Alive(ctx, p.Uncached, p.sync.Status.Karpenter.Namespace, deployments, p.now)
	if err != nil {
		return teardown.Gate{Message: err.Error()}
	}
	return teardown.Gate{Open: leads.Ready, Message: leads.Message}
}

func (p *pass) cloudGate() teardown.Gate {
	verified := conditions.Get(p.sync, v1alpha1.CloudVerifiedCondition)
	if verified == nil {
		return teardown.Gate{Message: "EC2 was not asked yet"}
	}
	return teardown.Gate{Open: conditions.IsTrue(p.sync, v1alpha1.CloudVerifiedCondition), Message: verified.Message}
}

func (p *pass) arrivalsGate(r v1alpha1.Removal) teardown.Gate {
	done, waitingFor := p.arrivalsDone(r.RecordedAt.Time)
	return teardown.Gate{Open: done, Message: "waiting for " + waitingFor}
}
