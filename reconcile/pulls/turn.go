package pulls

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// renewAfter is when a plan is renewed even if its basis is unchanged, because nodes come and go.
const renewAfter = 10 * time.Minute

func (r *repository) name() types.NamespacedName { return client.ObjectKeyFromObject(r.sync) }

// basisOf returns a hash of those inputs of a plan that are cheap to read: the head, the NodeSync, and the applied
// state.
func basisOf(p *pull) string {
	s := p.of.sync
	var removals []string
	for i := range s.Status.Removals {
		removals = append(removals, s.Status.Removals[i].Name+" "+string(s.Status.Removals[i].Phase))
	}
	version := ""
	if s.Status.Karpenter != nil {
		version = s.Status.Karpenter.Version + " " + s.Status.Karpenter.Identity
	}
	data, err := json.Marshal([]any{
		p.Head, p.Fork, s.UID, s.Generation, s.Status.LastAppliedRevision, outstanding(s), version, removals,
		s.Annotations[v1alpha1.RemoveAnnotation], p.of.comments,
	})
	if err != nil { // strings and numbers only
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// due returns when a plan is due, and whether it is new rather than a renewal. It is renewed before a refused comment is
// retried, which would be about nodes of before otherwise.
func (p *pull) due() (at time.Time, fresh bool) {
	if p.basis != basisOf(p) {
		return later(p.since, p.notBefore), true
	}
	at = p.plannedAt.Add(renewAfter)
	if !p.commentAt.IsZero() && p.commentAt.Before(at) {
		at = p.commentAt
	}
	return later(at, p.notBefore), false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// order is the priority of a pull request whose plan is due.
type order struct {
	fresh bool
	at    time.Time
}

// before reports whether a plan is made first: a new one before a renewal, and then the one that became due earlier.
func (o order) before(other order) bool {
	if o.fresh != other.fresh {
		return o.fresh
	}
	return o.at.Before(other.at)
}

// next returns the pull request to plan now within the limits, of those from forks or of the repository's own, or how
// long to wait for one.
func (f *Follower) next(forks bool) (one *pull, wait time.Duration) {
	now := f.Now()
	wait = longestSleep
	var first *pull
	var firstOrder order
	for _, r := range f.followed {
		wait = min(wait, max(r.listAt.Sub(now), 0))
		for _, p := range r.pulls {
			if p.Fork != forks || p.Number == 0 || p.waits || r.listedAt.IsZero() || r.failures > 0 {
				continue // of the other worker, from an earlier daemon, or it is unknown whether it is still open
			}
			at, fresh := p.due()
			if at.After(now) {
				wait = min(wait, at.Sub(now))
				continue
			}
			if delay := f.limits.delay(p, now); delay > 0 {
				wait = min(wait, delay)
				continue
			}
			if its := (order{fresh: fresh, at: at}); first == nil || its.before(firstOrder) {
				first, firstOrder = p, its
			}
		}
	}
	if first != nil {
		f.limits.take(first, now)
	}
	return first, max(wait, time.Second)
}

// The rate limits of plans: for the repository's own pull requests, for those from forks, and for those of one author.
const (
	ownEvery, ownBurst       = 6 * time.Second, 10
	forksEvery, forksBurst   = 15 * time.Second, 4
	authorEvery, authorBurst = 30 * time.Second, 2
	// maxAuthors limits the authors that are remembered.
	maxAuthors = 1000
)

// limits limit the rate of plans.
type limits struct {
	own, forks *rate.Limiter
	authors    map[author]*rate.Limiter
}

// author is a user on a host.
type author struct{ url, name string }

func newLimits() *limits {
	return &limits{
		own: rate.NewLimiter(rate.Every(ownEvery), ownBurst), forks: rate.NewLimiter(rate.Every(forksEvery), forksBurst),
		authors: map[author]*rate.Limiter{},
	}
}

func (l *limits) of(p *pull, now time.Time) *rate.Limiter {
	who := author{p.of.host.URL, p.Author}
	if l.authors[who] == nil {
		if len(l.authors) >= maxAuthors {
			maps.DeleteFunc(l.authors, func(_ author, known *rate.Limiter) bool { return known.TokensAt(now) >= authorBurst })
		}
		if len(l.authors) >= maxAuthors {
			clear(l.authors) // the limits for all authors together still apply
		}
		l.authors[who] = rate.NewLimiter(rate.Every(authorEvery), authorBurst)
	}
	return l.authors[who]
}

// total returns the limit that a pull request shares with others of its kind, so that forks do not use up the limit of
// the repository's own.
func (l *limits) total(p *pull) (limiter *rate.Limiter, every time.Duration) {
	if p.Fork {
		return l.forks, forksEvery
	}
	return l.own, ownEvery
}

// delay returns how long a plan must wait.
func (l *limits) delay(p *pull, now time.Time) time.Duration {
	total, every := l.total(p)
	return max(missing(total, now, every), missing(l.of(p, now), now, authorEvery))
}

func (l *limits) take(p *pull, now time.Time) {
	total, _ := l.total(p)
	total.AllowN(now, 1)
	l.of(p, now).AllowN(now, 1)
}

// missing returns how long it takes until a limiter has a token.
func missing(l *rate.Limiter, now time.Time, every time.Duration) time.Duration {
	if lacks := 1 - l.TokensAt(now); lacks > 0 {
		return time.Duration(lacks * float64(every))
	}
	return 0
}
