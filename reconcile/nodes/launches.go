package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// eventComes is how long after a NodeClaim's end Karpenter's event on it may
	// come: it is sent separately.
	eventComes = 5 * time.Second
	// eventsRead is how many launches one pass asks about, and eventsEvery how long
	// the others wait for the next.
	eventsRead  = 3
	eventsEvery = time.Second
)

// Launchless is a pool that gets no nodes, and why.
type Launchless struct {
	Pool string `redact:"-"`
	Why  string
}

// Launches looks for pools that get no nodes.
type Launches struct {
	// Known are the launches that failed, as far as NodeClaims tell.
	Known *observe.Launches
	// Events reads Karpenter's events past the cache.
	Events client.Reader
	Now    time.Time
	// Retry is how long an event that could not be read is not read again.
	Retry time.Duration
	// Claims are the NodeClaims, and Off says whether a feature gate of Karpenter is.
	Claims []plan.NodeClaim
	Off    func(ctx context.Context, gate string) (bool, error)
}

// See is Look without static pools that have all of their nodes, and finds those that Karpenter passes over. Events that could not
// be read are logged.
func (l Launches) See(ctx context.Context, pools []Pool, into *finding.Findings) ([]Launchless, error) {
	launchless, found, err := l.Look(ctx, pools)
	into.Join(found)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "see launches")
	}
	return PassedOver(ctx, lacking(launchless, pools, l.Claims), pools, l.Claims, l.Off)
}

// Look finds the pools that get no nodes, by name. That is reported and stops
// nothing: a NodePool is Ready without nodes, and its pods may fit elsewhere. The error
// is of events that could not be read: everything else is found all the same.
func (l Launches) Look(ctx context.Context, pools []Pool) ([]Launchless, finding.Findings, error) {
	var (
		found  finding.Findings
		errs   []error
		silent []silentLaunch
	)
	words := map[string]string{}
	for _, pool := range pools {
		if pool.Live != nil {
			words[pool.Name] = observe.Registers(pool.Live).Message
		}
		l.Known.Under(pool.Name, pool.definitions())
		failed, is := l.Known.Failed(pool.Name)
		if !is {
			continue
		}
		found.WakeBy(failed.At.Add(observe.FailedLaunchLasts))
		if failed.Words != "" {
			words[pool.Name] = failed.Words
			continue
		}
		silent = append(silent, silentLaunch{pool: pool.Name, failed: failed})
	}
	// Those that were not asked about for longest come first: one whose event cannot
	// be read keeps no other from its words.
	slices.SortStableFunc(silent, func(a, b silentLaunch) int { return a.failed.Asked.Compare(b.failed.Asked) })
	if len(silent) > eventsRead {
		found.WakeBy(l.Now.Add(eventsEvery))
		silent = silent[:eventsRead]
	}
	for _, s := range silent {
		why, again, err := l.why(ctx, s)
		errs = append(errs, err)
		if !again.IsZero() {
			found.WakeBy(again)
		}
		if why != "" {
			words[s.pool] = why
		}
	}
	return launchless(words), found, errors.Join(errs...)
}

// launchless are the pools of which there are words, by name.
func launchless(words map[string]string) []Launchless {
	var pools []Launchless
	for pool, why := range words {
		if why != "" {
			pools = append(pools, Launchless{Pool: pool, Why: why})
		}
	}
	slices.SortFunc(pools, func(a, b Launchless) int { return strings.Compare(a.Pool, b.Pool) })
	return pools
}

// silentLaunch is a failed launch of which nobody has read the event yet.
type silentLaunch struct {
	pool   string
	failed observe.FailedLaunch
}

// why asks for the event on a launch; empty where there is none, or none yet. again is
// when to look for it once more.
func (l Launches) why(ctx context.Context, s silentLaunch) (words string, again time.Time, err error) {
	l.Known.Ask(s.pool, s.failed, l.Now)
	words, err = observe.WhyNotLaunched(ctx, l.Events, s.failed.NodeClaim)
	switch {
	case err != nil:
		return "", l.Now.Add(l.Retry), err
	case words == "" && l.Now.Before(s.failed.At.Add(eventComes)):
		return "", l.Now.Add(time.Second), nil
	}
	l.Known.Explain(s.pool, s.failed, words)
	return words, time.Time{}, nil
}
