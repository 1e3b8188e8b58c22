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
	// eventsRead is how many launches one pass asks about, and eventsEvery how long
	// the others wait for the next.
	eventsRead  = 3
	eventsEvery = time.Second
)

// seeLaunches finds the pools of Git that get no nodes. That is told and stops
// nothing: a NodePool is Ready without, and its pods may fit elsewhere.
func (p *pass) seeLaunches(ctx context.Context) error {
	p.looked = true
	words := map[string]string{}
	var silent []silentLaunch
	for _, object := range p.set.Objects {
		if live := p.live.Objects[object.Ref]; live != nil && object.Ref.Kind == render.NodePool {
			words[object.Ref.Name] = observe.Registers(live).Message
		}
		failed, is := p.Launches.Failed(object.Ref.Name)
		if object.Ref.Kind != render.NodePool || !is {
			continue
		}
		p.wakeAt(failed.At.Add(observe.FailedLaunchLasts))
		if failed.Words != "" {
			words[object.Ref.Name] = failed.Words
		}
		if failed.Words == "" {
			silent = append(silent, silentLaunch{pool: object.Ref.Name, failed: failed})
		}
	}
	// Those that were not asked about for longest come first: one whose event cannot
	// be read keeps no other from its words.
	slices.SortStableFunc(silent, func(a, b silentLaunch) int { return a.failed.Asked.Compare(b.failed.Asked) })
	if len(silent) > eventsRead {
		p.wakeAt(p.now.Add(eventsEvery))
		silent = silent[:eventsRead]
	}
	for _, s := range silent {
		p.Launches.Ask(s.pool, s.failed, p.now)
		if why := p.whyNotLaunched(ctx, s.pool, s.failed); why != "" {
			words[s.pool] = why
		}
	}
	if err := p.seeStatic(ctx, words); err != nil {
		return err
	}
	for pool, why := range words {
		if why != "" {
			p.launchless = append(p.launchless, launchless{pool: pool, why: why})
		}
	}
	slices.SortFunc(p.launchless, func(a, b launchless) int { return strings.Compare(a.pool, b.pool) })
	return nil
}

// launchless is a pool that gets no nodes, and why.
type launchless struct{ pool, why string }

// silentLaunch is a failed launch of which nobody has read the event yet.
type silentLaunch struct {
	pool   string
	failed observe.FailedLaunch
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
		words := make([]string, 0, len(p.launchless))
		for _, l := range p.launchless {
			words = append(words, fmt.Sprintf("%s/%s gets no nodes: %s", render.NodePool, l.pool, l.why))
		}
		conditions.MarkTrue(p.sync, v1alpha1.LaunchFailingCondition, v1alpha1.ReasonLaunchFailed, "%s", bounded(fewOf(words, "; "), maxConditionMessage))
	}
	now, before := conditions.Get(p.sync, v1alpha1.LaunchFailingCondition), conditions.Get(p.before, v1alpha1.LaunchFailingCondition)
	if now != nil && !sameWords(before, now) {
		p.notes = append(p.notes, note{kind: corev1.EventTypeWarning, reason: now.Reason, message: now.Message})
	}
}
