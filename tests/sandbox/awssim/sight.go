package awssim

import (
	"maps"
	"slices"
	"time"
)

// moment is the state of an instance from a time on.
type moment struct {
	at            time.Time
	state, reason string
	tags          map[string]string
}

// keptMoments limits an instance's recorded past.
const keptMoments = 16

// remember records a change of i's state or tags, for lagging responses.
func (a *account) remember(i *instance) { i.remember(a.now) }

func (i *instance) remember(at time.Time) {
	if len(i.past) == keptMoments {
		i.past = slices.Delete(i.past, 0, 1)
	}
	i.past = append(i.past, moment{at: at, state: i.state, reason: i.reason, tags: maps.Clone(i.Tags)})
}

// settled reports whether i has not changed for so long that all responses agree on it.
func (a *account) settled(i *instance) bool {
	settle := time.Duration(a.answers.Settle)
	return settle > 0 && len(i.past) > 0 && a.now.Sub(i.past[len(i.past)-1].at) >= settle
}

// see returns i as one response to a caller shows it; nil if the response omits it.
func (a *account) see(accessKey string, i *instance) *instance {
	if !i.visible(a.now) {
		return nil
	}
	if whose := a.answers.AccessKey; whose != "" && whose != accessKey || a.settled(i) {
		return i
	}
	if a.flaps(accessKey, i.ID) {
		return nil
	}
	if a.answers.Lag <= 0 {
		return i
	}
	return i.asOf(a.now.Add(-time.Duration(a.random.Int64N(int64(a.answers.Lag)))))
}

// flaps reports whether this response to a caller omits an instance. It never does if the last one did.
func (a *account) flaps(accessKey, id string) bool {
	if a.answers.Flap == 0 {
		return false
	}
	key := accessKey + "/" + id
	missing := !a.missed[key] && a.random.Float64() < a.answers.Flap
	a.missed[key] = missing
	return missing
}

// asOf returns i as it was at a time; nil before its launch.
func (i *instance) asOf(at time.Time) *instance {
	for _, m := range slices.Backward(i.past) {
		if m.at.After(at) {
			continue
		}
		then := *i
		then.state, then.reason, then.Tags = m.state, m.reason, m.tags
		return &then
	}
	return nil
}
