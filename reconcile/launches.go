package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// eventComes is how long after a NodeClaim's end Karpenter's event on it may
	// come: it is sent beside.
	eventComes = 5 * time.Second
	// eventsRead is how many launches one pass asks about.
	eventsRead = 3
)

// seeLaunches finds the pools of Git that get no nodes. That is told and stops
// nothing: a NodePool is Ready without, and its pods may fit elsewhere.
func (p *pass) seeLaunches(ctx context.Context) error {
	p.looked = true
	reads := 0
	for _, object := range p.set.Objects {
		failed, is := p.Launches.Failed(object.Ref.Name)
		if object.Ref.Kind != render.NodePool || !is {
			continue
		}
		p.wakeAt(failed.At.Add(observe.FailedLaunchLasts))
		words := failed.Words
		if words == "" {
			if reads++; reads > eventsRead {
				p.wakeNow()
				break
			}
			words = p.whyNotLaunched(ctx, object.Ref.Name, failed)
		}
		if words != "" {
			p.launchless = append(p.launchless, fmt.Sprintf("%s gets no nodes: %s", object.Ref, words))
		}
	}
	slices.Sort(p.launchless)
	return nil
}

// whyNotLaunched asks for the event on a launch; empty where there is none, or
// none yet. What cannot be read is looked for again: nothing hangs on it.
func (p *pass) whyNotLaunched(ctx context.Context, pool string, failed observe.FailedLaunch) string {
	words, err := observe.WhyNotLaunched(ctx, p.Uncached, failed.NodeClaim)
	switch {
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "see launches")
		p.wakeAt(p.now.Add(p.retryInterval()))
	case words == "" && p.now.Before(failed.At.Add(eventComes)):
		p.wakeAt(p.now.Add(time.Second))
	default:
		p.Launches.Explain(pool, failed, words)
	}
	return words
}

// setLaunchFailing tells of pools that get no nodes, for as long as that is so.
func (p *pass) setLaunchFailing() {
	switch {
	case !p.looked:
	case len(p.launchless) == 0:
		conditions.Delete(p.sync, v1alpha1.LaunchFailingCondition)
	default:
		conditions.MarkTrue(p.sync, v1alpha1.LaunchFailingCondition, v1alpha1.ReasonLaunchFailed, "%s", strings.Join(p.launchless, "; "))
	}
	now, before := conditions.Get(p.sync, v1alpha1.LaunchFailingCondition), conditions.Get(p.before, v1alpha1.LaunchFailingCondition)
	if now != nil && !sameWords(before, now) {
		p.notes = append(p.notes, note{kind: corev1.EventTypeWarning, reason: now.Reason, message: now.Message})
	}
}
