package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// HostClients creates the client of a Git host.
type HostClients interface {
	Host(provider, repository string, secret map[string][]byte) (Poster, error)
}

// Deliverer posts the statuses in a Queue. It runs only on the leader.
type Deliverer struct {
	Queue *Queue
	Hosts HostClients
	// Secrets reads without a cache: a token is read when a post is due, and is not kept.
	Secrets   client.Reader
	Namespace string
	// Grants reports whether a Secret must name the hosts that it may be used for.
	Grants grant.Policy
	// StillLeader returns an error if this process no longer holds the lease.
	StillLeader func(context.Context) error
	// Trouble is called when the problems with a NodeSync's hosts have changed.
	Trouble func(types.NamespacedName)
	Now     func() time.Time
	// Jitter returns a random number from 0 to 1.
	Jitter func() float64

	mu      sync.Mutex
	running map[laneOf]bool
}

// laneOf identifies a lane of a ledger.
type laneOf struct {
	name ledgerKey
	lane laneKey
}

const (
	// postTimeout limits one exchange with a host.
	postTimeout = 15 * time.Second
	// writeTimeout limits one write of a ledger.
	writeTimeout = 10 * time.Second
	// lookAgain is the delay before a failed read or write is retried.
	lookAgain = 5 * time.Second
	// shutdownTimeout is how long a post in progress may still take after the daemon is stopped, so that the next one
	// does not repeat it.
	shutdownTimeout = time.Second
)

// NeedLeaderElection makes the manager run it only on the leader.
func (*Deliverer) NeedLeaderElection() bool { return true }

// Start posts until the context ends.
func (d *Deliverer) Start(ctx context.Context) error {
	var rounds sync.WaitGroup
	defer rounds.Wait()
	loaded := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.Queue.woken:
		case <-timer.C:
		}
		if !loaded {
			if err := d.Queue.load(ctx, d.Namespace); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "commit statuses of before the start are posted later")
			} else {
				loaded = true
			}
		}
		due, wait := d.due()
		for _, lane := range due {
			rounds.Go(func() {
				defer d.Queue.wake()
				defer d.end(lane)
				d.round(ctx, lane)
			})
		}
		if !loaded {
			wait = lookAgain
		}
		timer.Reset(wait)
	}
}

// due takes the lanes that have something to post now, and returns how long the others must wait.
func (d *Deliverer) due() (lanes []laneOf, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = map[laneOf]bool{}
	}
	now := d.Now()
	wait = longestWait
	for _, b := range d.Queue.all() {
		for key, at := range b.due() {
			lane := laneOf{b.store.owner.ledgerKey, key}
			if d.running[lane] {
				continue // it wakes the Deliverer when it is done
			}
			if at.After(now) {
				wait = min(wait, at.Sub(now))
				continue
			}
			d.running[lane] = true
			lanes = append(lanes, lane)
		}
	}
	return lanes, wait
}

func (d *Deliverer) end(lane laneOf) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, lane)
}

// due returns when each lane has something to post.
func (b *openLedger) due() map[laneKey]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[laneKey]time.Time{}
	if !b.writeAt.IsZero() {
		all[laneKey{}] = b.writeAt // a round of no lane only writes
	}
	for i := range b.ledger.Lanes {
		if at, any := b.ledger.Lanes[i].due(); any {
			all[b.ledger.Lanes[i].key()] = at
		}
	}
	return all
}

// Host is where statuses are posted.
type Host struct {
	Provider string `json:"provider"`
	// URL is that of the repository, without user and password.
	URL string `json:"url"`
	// Secret is the name of the Secret with the token.
	Secret string `json:"secret"`
}

// HostOf returns where the statuses of a NodeSync are posted according to an entry of its spec.report.
func HostOf(sync *v1alpha1.NodeSync, to v1alpha1.Report) Host {
	return Host{Provider: to.Provider, URL: Clean(cmp.Or(to.URL, sync.Spec.Source.Repository())), Secret: to.SecretRef.Name}
}

// Lane leads to one host, for one context. Its entries are posted one at a time.
type Lane struct {
	Host
	Context string `json:"context"`
	// Waiting are the entries that the host has not received, at most one for a commit.
	Waiting []Entry `json:"waiting,omitempty"`
	// Posted is when the host last received a status, by commit, for as long as that delays another one.
	Posted map[string]Posted `json:"posted,omitempty"`
	// Moved are commits with a status in this context, which the ledger no longer uses. They get a final status that
	// releases them.
	Moved []Commit `json:"moved,omitempty"`
	// Heads are those of the open pull requests of this host, newest first, each with its own status; only for the
	// subject Plan.
	Heads []Commit `json:"heads,omitempty"`
	// Unlisted is why the open pull requests are unknown.
	Unlisted string `json:"unlisted,omitempty"`
	// Comments are those that were written on pull requests, by their numbers.
	Comments map[int]Comment `json:"comments,omitempty"`

	// Attempts counts the consecutive failures of the host as a whole, and Failure is the last one; nothing is posted
	// before NotBefore.
	Attempts  int       `json:"attempts,omitempty"`
	Failure   string    `json:"failure,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Silent is the only commit whose status the host has not answered since its last answer; empty if there is none.
	// The problem may be this commit only, so others are posted.
	Silent string `json:"silent,omitempty"`
	// Refused is the version of the Secret that the host rejects, since RefusedAt.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refusedAt,omitzero"`
	// Lost says which status was given up last, and why.
	Lost string `json:"lost,omitempty"`

	// fresh is true for a lane that has not received the known statuses yet.
	fresh bool
}

// Posted is when a host last received any status on a commit, and when a final one.
type Posted struct {
	At    time.Time `json:"at"`
	Final time.Time `json:"final,omitzero"`
}

// Entry is one status that waits.
type Entry struct {
	Commit string `json:"commit"`
	Word
	TargetURL string    `json:"targetURL,omitempty"`
	Since     time.Time `json:"since"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Attempts counts the host's failures on this status, and Failure is the last one.
	Attempts int    `json:"attempts,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

// same reports whether both entries would post the same.
func (e Entry) same(as Entry) bool {
	return e.Commit == as.Commit && e.Word == as.Word && e.TargetURL == as.TargetURL
}

// laneKey identifies a lane of a ledger.
type laneKey struct{ provider, url, context string }

func (l *Lane) key() laneKey { return laneKey{l.Provider, l.URL, l.Context} }

// postEvery is the minimum time between a status on a commit and a pending one that follows it, and between two final
// ones: hosts limit the number of statuses, and nobody reads one that lasts a second. A flapping verdict posts at most
// two in that time.
const postEvery = 5 * time.Second

// put queues a status, which replaces an older one on the same commit.
func (l *Lane) put(commit string, w Word, target string, now time.Time) {
	e := Entry{Commit: commit, Word: w, TargetURL: target, Since: now}
	if free := l.Posted[commit].free(w); now.Before(free) && !free.After(now.Add(postEvery)) {
		e.NotBefore = free // otherwise the clock was set back
	}
	if i := l.index(commit); i >= 0 {
		l.Waiting[i] = e
		return
	}
	l.Waiting = append(l.Waiting, e)
}

// free returns when a status may follow.
func (p Posted) free(w Word) time.Time {
	if w.final() {
		return p.Final.Add(postEvery)
	}
	return p.At.Add(postEvery)
}

func (l *Lane) index(commit string) int {
	return slices.IndexFunc(l.Waiting, func(e Entry) bool { return e.Commit == commit })
}

// next returns the first entry that may be posted now. Entries that have failed often come last, so that they do not
// delay the others.
func (l *Lane) next(now time.Time) (Entry, bool) {
	if now.Before(l.NotBefore) {
		return Entry{}, false
	}
	first := -1
	for i, e := range l.Waiting {
		if !now.Before(e.NotBefore) && (first < 0 || l.Waiting[first].Attempts >= reportAfter && e.Attempts < reportAfter) {
			first = i
		}
	}
	if first < 0 {
		return Entry{}, false
	}
	return l.Waiting[first], true
}

// due returns when the first entry may be posted; any is false if nothing waits.
func (l *Lane) due() (at time.Time, any bool) {
	for _, e := range l.Waiting {
		if may := latest(e.NotBefore, l.NotBefore); !any || may.Before(at) {
			at, any = may, true
		}
	}
	return at, any
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// delivered records that the host has an entry. If a newer one has replaced it in the meantime, that one stays.
func (l *Lane) delivered(e Entry, now time.Time) {
	if i := l.index(e.Commit); i >= 0 && l.Waiting[i].same(e) {
		l.Waiting = slices.Delete(l.Waiting, i, i+1)
	}
	l.resetFailures()
	l.posted(e, now)
	if i := l.index(e.Commit); i >= 0 {
		next := &l.Waiting[i]
		next.NotBefore = latest(next.NotBefore, l.Posted[e.Commit].free(next.Word))
	}
}

// posted records when the host received an entry, and forgets times that delay nothing any more.
func (l *Lane) posted(e Entry, now time.Time) {
	if l.Posted == nil {
		l.Posted = map[string]Posted{}
	}
	p := l.Posted[e.Commit]
	if p.At = now; e.final() {
		p.Final = now
	}
	l.Posted[e.Commit] = p
	maps.DeleteFunc(l.Posted, func(_ string, p Posted) bool { return now.Sub(p.At) >= postEvery })
}

// resetFailures resets the failures of the host.
func (l *Lane) resetFailures() {
	l.Attempts, l.Failure, l.NotBefore, l.Silent, l.Refused, l.RefusedAt = 0, "", time.Time{}, "", "", time.Time{}
}

// reportAfter is how many consecutive failures are needed to report them: the first ones often resolve before anybody
// has read about them.
const reportAfter = 3

// trouble returns why the host has not received its statuses. It changes only with the cause.
func (l *Lane) trouble() string {
	failure := ""
	if l.Refused != "" || l.Attempts >= reportAfter {
		failure = l.Failure
	}
	for _, e := range l.Waiting {
		if failure == "" && e.Attempts >= reportAfter {
			failure = e.Failure
		}
	}
	return cmp.Or(failure, l.Unlisted, l.Lost)
}

// ShortCommit returns the short form of a commit's hash.
func ShortCommit(commit string) string {
	const digits = 7
	return commit[:min(digits, len(commit))]
}

// round posts what is due in one lane until nothing is left or the host fails, and then writes once what the host has
// received.
func (d *Deliverer) round(ctx context.Context, of laneOf) {
	b := d.Queue.known(of.name)
	if b == nil {
		return
	}
	before := b.trouble(of.lane)
	for n := 1; ctx.Err() == nil && d.post(ctx, b, of); n++ {
		if n%writeEvery == 0 {
			d.write(ctx, b)
		}
	}
	d.write(ctx, b)
	if b.trouble(of.lane) != before {
		d.Trouble(of.name.NamespacedName)
	}
}

// writeEvery limits how many statuses the next daemon posts again after a kill. A round usually has fewer, so one write
// is enough.
const writeEvery = 10

// write writes what was posted, even while the daemon is stopping.
func (d *Deliverer) write(ctx context.Context, b *openLedger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := b.write(ctx, d.Now()); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot record which statuses were posted; retrying later", "nodesync", b.store.owner.NamespacedName)
	}
}

// post posts the first entry that is due. It reports whether there was one.
func (d *Deliverer) post(ctx context.Context, b *openLedger, of laneOf) bool {
	now := d.Now()
	host, entry, ok := b.next(of.lane, now)
	if !ok {
		return false
	}
	if err := d.StillLeader(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "commit statuses are not posted", "nodesync", of.name)
		b.hold(of.lane, now.Add(lookAgain))
		return false
	}
	a := attempt{entry: entry, at: now, jitter: d.Jitter()}
	err := d.send(ctx, b, host, &a)
	switch a.at = d.Now(); {
	case err != nil && ctx.Err() != nil:
		return false // the daemon is stopping; it is unknown whether the host has it
	case errors.Is(err, errRejectedSecret):
		b.hold(of.lane, a.at.Add(longestWait))
	case err != nil:
		b.noteOn(of.lane, func(l *Ledger, lane *Lane) { lane.failed(a, err, l.mustShow(lane, a.entry.Commit)) })
	default:
		b.noteOn(of.lane, func(_ *Ledger, lane *Lane) { lane.delivered(a.entry, a.at) })
	}
	return true
}

// errRejectedSecret reports a Secret that the host has already rejected.
var errRejectedSecret = errors.New("the secret is still the one that was refused")

// send makes the request.
func (d *Deliverer) send(ctx context.Context, b *openLedger, host Lane, a *attempt) error {
	ctx, cancel := outlive(ctx)
	defer cancel()
	secret := &corev1.Secret{}
	err := d.Secrets.Get(ctx, client.ObjectKey{Namespace: b.store.owner.Namespace, Name: host.Secret}, secret)
	if err != nil {
		if apierrors.IsNotFound(err) {
			a.secret = "absent"
		}
		return fmt.Errorf("read secret %s, which the report names: %w", host.Secret, err)
	}
	a.secret = string(secret.UID) + "/" + secret.ResourceVersion
	if host.rejectsSecret(a.secret, a.at) {
		return errRejectedSecret
	}
	if err := d.Grants.Check(secret, grant.Use{NodeSync: b.store.owner.Name, Address: host.URL}); err != nil {
		return err
	}
	poster, err := d.Hosts.Host(host.Provider, host.URL, secret.Data)
	if err != nil {
		return err
	}
	return poster.Post(ctx, Status{
		Commit: a.entry.Commit, Context: host.Context, State: a.entry.State, Description: a.entry.Description, TargetURL: a.entry.TargetURL,
	})
}

// outlive returns a context that outlives the other by shutdownTimeout.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(shutdownTimeout, cancel)
	})
	return longer, func() { stop(); cancel() }
}

// next returns a copy of the lane, and the first entry that may be posted in it now.
func (b *openLedger) next(key laneKey, now time.Time) (Lane, Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lane := b.ledger.lane(key)
	if lane == nil {
		return Lane{}, Entry{}, false
	}
	e, ok := lane.next(now)
	return *lane, e, ok
}

// noteOn records a change to a lane, if it still exists.
func (b *openLedger) noteOn(key laneKey, change func(*Ledger, *Lane)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(func(l *Ledger) {
		if lane := l.lane(key); lane != nil {
			change(l, lane)
		}
	})
}

// hold makes a lane wait, for a reason that is not worth a write.
func (b *openLedger) hold(key laneKey, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		lane.NotBefore = latest(lane.NotBefore, until)
	}
}

func (b *openLedger) trouble(key laneKey) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		return lane.trouble()
	}
	return ""
}

// write writes the recorded changes. If that fails, the Deliverer retries.
func (b *openLedger) write(ctx context.Context, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.flush(ctx)
	b.writeAt = time.Time{}
	if err != nil {
		b.writeAt = now.Add(lookAgain)
	}
	return err
}
