package account

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// trailEvery is the time from a sign to the first query of CloudTrail, and between two: CloudTrail knows a call after
	// about five minutes. trailLasts is after how long a termination is no longer looked up.
	trailEvery, trailLasts = time.Minute, 20 * time.Minute
	// trailRequests is how many requests one query makes.
	trailRequests = 5
	// trailDenied is when a query is repeated that AWS has denied: the permission is optional.
	trailDenied = time.Hour
	// maxPrincipals limits the status.
	maxPrincipals = 5
)

// TrailCloud is the AWS client of a TrailReader.
type TrailCloud interface {
	Trail(ctx context.Context, action string, since, until time.Time, requests int) ([]cloud.TrailCall, error)
}

// TrailReader queries CloudTrail for who has terminated instances, in the background of reconciles, and only while the
// instances of a conflict have no answer yet. The zero value is ready to use.
type TrailReader struct {
	mu     sync.Mutex
	asking bool
	due    time.Time
	// by are the principals of instances that were terminated.
	by map[string]string
}

// Look returns the principals that have terminated these instances, when they are known, and when to look again; zero if there is
// nothing to look for. No reconcile waits for AWS: a later one gets the result.
func (t *TrailReader) Look(ctx context.Context, dial func(context.Context) (TrailCloud, error), all []Termination, now time.Time) (principals []string, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var open []Termination
	for _, one := range all {
		if who, known := t.by[one.Instance]; known {
			principals = append(principals, who)
		} else if now.Sub(one.At) < trailLasts {
			open = append(open, one)
		}
	}
	slices.Sort(principals)
	principals = slices.Compact(principals)
	if len(open) == 0 {
		return principals, time.Time{}
	}
	first, last := open[0].At, open[0].At
	for _, one := range open {
		if one.At.Before(first) {
			first = one.At
		}
		if one.At.After(last) {
			last = one.At
		}
	}
	if t.due.Before(last) && !t.asking {
		t.due = last.Add(trailEvery)
	}
	if !t.asking && !now.Before(t.due) {
		t.asking, t.due = true, now.Add(trailEvery)
		go t.query(context.WithoutCancel(ctx), dial, first.Add(-time.Minute), last.Add(trailEvery), now)
	}
	if t.asking {
		return principals, now.Add(checkResultAfter)
	}
	return principals, t.due
}

// query looks up the calls in CloudTrail, and keeps who has made them.
func (t *TrailReader) query(ctx context.Context, dial func(context.Context) (TrailCloud, error), since, until, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	aws, err := dial(ctx)
	var calls []cloud.TrailCall
	if err == nil {
		calls, err = aws.Trail(ctx, cloud.TerminateInstances, since, until, trailRequests)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
	if errors.As(err, new(*cloud.DeniedError)) {
		t.due = now.Add(trailDenied)
	}
	if t.by == nil || len(t.by) > maxKnownInstances {
		t.by = map[string]string{}
	}
	for _, call := range calls {
		for _, id := range call.Instances {
			t.by[id] = call.Principal
		}
	}
}

// NamePrincipals adds to an open conflict who has terminated instances, the first few, and reports whether it has changed.
func NamePrincipals(c *v1alpha1.IdentityConflict, principals []string) bool {
	changed := false
	for _, who := range principals {
		if c.Open() && who != "" && len(c.Principals) < maxPrincipals && !slices.Contains(c.Principals, who) {
			c.Principals, changed = append(c.Principals, who), true
		}
	}
	return changed
}
