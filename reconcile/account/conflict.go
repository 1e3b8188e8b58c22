package account

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// burst is how many instances that another client terminates within burstWithin are a conflict: a person terminates
	// one by hand.
	burst, burstWithin = 2, 5 * time.Minute
	// SignsLast is how long a sign counts, and after how long without a new one a conflict is over. Karpenter looks for
	// instances without a NodeClaim every two minutes (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/garbagecollection).
	SignsLast = 30 * time.Minute
	// maxEvidence and maxEndpoints limit the status.
	maxEvidence, maxEndpoints = 10, 5
)

// Termination is an instance of this cluster that a client terminated through EC2's API while its NodeClaim existed: not
// this cluster's Karpenter, which deletes the NodeClaim first, and not EC2 itself, which gives another reason for a
// spot interruption or a failure.
type Termination = recorder.InstanceTermination

// Stranger is an instance with the tags of this cluster's Karpenter that no NodeClaim of this cluster has or had.
type Stranger struct {
	Instance, Pool string
	Launched       time.Time
	// Alive reports whether EC2 has not terminated it, or is not about to.
	Alive bool
	// Endpoint is the API server in its user data; empty if it is unknown. Foreign reports whether that is not this
	// cluster's.
	Endpoint string
	Foreign  bool
}

// Resource is a launch template or an instance profile with this cluster's name that no EC2NodeClass of this cluster
// explains.
type Resource struct {
	// What names it: launch template lt-1 (EC2NodeClass/web).
	What    string
	Created time.Time
}

// Signs are what suggests that another controller uses this cluster's name, all since the daemon began to watch.
type Signs struct {
	// Cluster is the name.
	Cluster      string
	Terminations []Termination
	Strangers    []Stranger
	Resources    []Resource
	// Ours and Theirs are how many running instances NodeClaims of this cluster have, and how many others there are.
	Ours, Theirs int32
	// Unknown reports whether EC2 did not answer: a conflict is then not over.
	Unknown bool
	// Resolved is when a person has resolved a conflict; zero if none has. Earlier signs do not count.
	Resolved time.Time
	// Hidden reports whether plumbline's response keeps new signs from appearing: only a person knows when the conflict
	// is over.
	Hidden bool
}

// Conflict returns the conflict that the signs show, given the recorded one, which may be nil; nil if there is none and
// nothing is left of a response.
//
// One of these is a conflict: an instance that was launched under this cluster's name for another API server; two
// terminations within five minutes; one termination, and an instance, launch template or instance profile whose origin
// is unknown. Each also has harmless causes if it is the only sign, such as an instance that was terminated by hand, or
// what an earlier cluster of the same name has left.
func Conflict(before *v1alpha1.IdentityConflict, s Signs, now time.Time) *v1alpha1.IdentityConflict {
	s = s.counting(now)
	if before.Open() && !before.LastSign.After(s.Resolved) && !s.Resolved.IsZero() {
		before = remains(before)
	}
	proofs := s.proofs()
	found := len(proofs) > 0 || s.bursts() || len(s.Terminations) > 0 && len(s.unexplained())+len(s.Resources) > 0
	switch {
	case !before.Open() && !found:
		return remains(before)
	case before.Open() && !found && !s.Hidden && !s.Unknown && now.Sub(before.LastSign.Time) >= SignsLast:
		return remains(before)
	}
	next := before.DeepCopy()
	if next == nil {
		next = &v1alpha1.IdentityConflict{}
	}
	s.note(next, proofs, now)
	return next
}

// remains returns what is left of a conflict that is over: a response that is not undone yet.
func remains(before *v1alpha1.IdentityConflict) *v1alpha1.IdentityConflict {
	if r := before.GetResponse(); len(r.Protected) == 0 && r.Stopped == nil {
		return nil
	}
	return &v1alpha1.IdentityConflict{Response: before.Response.DeepCopy()}
}

// counting returns the signs that count, in their order: recent ones, newer than the resolution. A resolution in the
// future is a mistake, and ignored.
func (s Signs) counting(now time.Time) Signs {
	if s.Resolved.After(now.Add(time.Minute)) {
		s.Resolved = time.Time{}
	}
	old := func(at time.Time) bool { return now.Sub(at) > SignsLast || !at.After(s.Resolved) }
	s.Terminations = without(s.Terminations, func(t Termination) bool { return old(t.At) })
	s.Strangers = without(s.Strangers, func(i Stranger) bool { return old(i.Launched) })
	s.Resources = without(s.Resources, func(r Resource) bool { return old(r.Created) })
	slices.SortStableFunc(s.Terminations, func(a, b Termination) int { return a.At.Compare(b.At) })
	return s
}

func without[T any](all []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), drop)
}

// proofs returns the instances that were launched for another API server.
func (s Signs) proofs() []Stranger {
	return without(s.Strangers, func(i Stranger) bool { return !i.Foreign })
}

// unexplained returns the running instances whose API server is unknown. One for this API server is a copy that a
// person has launched, or from before a backup of this cluster was restored.
func (s Signs) unexplained() []Stranger {
	return without(s.Strangers, func(i Stranger) bool { return i.Endpoint != "" || !i.Alive })
}

// bursts reports whether there were several terminations within a few minutes.
func (s Signs) bursts() bool {
	for i := burst - 1; i < len(s.Terminations); i++ {
		if s.Terminations[i].At.Sub(s.Terminations[i-burst+1].At) <= burstWithin {
			return true
		}
	}
	return false
}

// note adds the signs to a conflict.
func (s Signs) note(c *v1alpha1.IdentityConflict, proofs []Stranger, now time.Time) {
	first, last := now, time.Time{}
	sign := func(at time.Time, format string, args ...any) {
		first = earlier(first, at)
		if at.After(last) {
			last = at
		}
		words := finding.Bounded(fmt.Sprintf(format, args...), maxMessage)
		if len(c.Evidence) < maxEvidence && !slices.Contains(c.Evidence, words) {
			c.Evidence = append(c.Evidence, words)
		}
	}
	for _, i := range proofs {
		if !slices.Contains(c.Endpoints, i.Endpoint) && len(c.Endpoints) < maxEndpoints {
			c.Endpoints = append(c.Endpoints, i.Endpoint)
		}
		sign(i.Launched, "instance %s of NodePool %s was launched under the name %s at %s for API server %s", i.Instance, i.Pool, s.Cluster, clock(i.Launched), i.Endpoint)
	}
	for _, t := range s.Terminations {
		sign(t.At, "instance %s of %s/%s was terminated in EC2 at %s by a client other than this cluster's Karpenter", t.Instance, render.NodePool, t.Pool, clock(t.At))
	}
	for _, i := range s.unexplained() {
		sign(i.Launched, "instance %s of NodePool %s was launched under the name %s at %s, and no NodeClaim of this cluster has it", i.Instance, i.Pool, s.Cluster, clock(i.Launched))
	}
	for _, r := range s.Resources {
		sign(r.Created, "%s was created under the name %s at %s, for no EC2NodeClass of this cluster", r.What, s.Cluster, clock(r.Created))
	}
	if c.Since.IsZero() {
		c.Since = metav1.NewTime(first.Truncate(time.Second))
	}
	if at := metav1.NewTime(last.Truncate(time.Second)); c.LastSign.Before(&at) {
		c.LastSign = at
	}
	c.Proven = c.Proven || len(proofs) > 0
	c.Terminated = max(c.Terminated, int32(len(s.Terminations)))
	c.Ours, c.Theirs = s.Ours, s.Theirs
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05 UTC") }
