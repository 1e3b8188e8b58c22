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

// HostClients makes the client of a Git host.
type HostClients interface {
	Host(provider, repository string, secret map[string][]byte) (Poster, error)
}

// Deliverer posts what is in a Queue. It runs only on the leader.
type Deliverer struct {
	Queue *Queue
	Hosts HostClients
	// Secrets reads past any cache: a token is read when a post is due, and not
	// kept.
	Secrets   client.Reader
	Namespace string
	// Grants report whether a Secret has to name the hosts that it is for.
	Grants grant.Policy
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
	// Trouble is called when what a NodeSync's hosts are in trouble with has
	// changed.
	Trouble func(types.NamespacedName)
	Now     func() time.Time
	// Jitter is a random number from 0 to 1.
	Jitter func() float64

	mu      sync.Mutex
	running map[laneOf]bool
}

// laneOf names a lane of a ledger.
type laneOf struct {
	name bookKey
	lane laneKey
}

const (
	// postTimeout bounds one exchange with a host.
	postTimeout = 15 * time.Second
	// writeTimeout bounds one write of a ledger.
	writeTimeout = 10 * time.Second
	// lookAgain is when what could not be read or written is tried again.
	lookAgain = 5 * time.Second
	// shutdownTimeout is how long a post that is in progress may take when the daemon is
	// stopped, so that it is not repeated by the next one.
	shutdownTimeout = time.Second
)

// NeedLeaderElection has it run only on the leader.
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

// due takes the lanes that have something to post now, and says how long the
// others have to wait.
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
			lane := laneOf{b.store.owner.bookKey, key}
			if d.running[lane] {
				continue // it wakes us at its end
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

// due is when each lane has something to post.
func (b *book) due() map[laneKey]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[laneKey]time.Time{}
	if !b.writeAt.IsZero() {
		all[laneKey{}] = b.writeAt // a round of no lane has but to write
	}
	for i := range b.ledger.Lanes {
		if at, any := b.ledger.Lanes[i].due(); any {
			all[b.ledger.Lanes[i].key()] = at
		}
	}
	return all
}

// Host is where statuses go.
type Host struct {
	Provider string `json:"provider"`
	// URL of the repository, without a user or password.
	URL string `json:"url"`
	// Secret is the name of the Secret with the token.
	Secret string `json:"secret"`
}

// HostOf is where the statuses of a NodeSync go by an entry of its spec.report.
func HostOf(sync *v1alpha1.NodeSync, to v1alpha1.Report) Host {
	return Host{Provider: to.Provider, URL: Clean(cmp.Or(to.URL, sync.Spec.Source.Repository())), Secret: to.SecretRef.Name}
}

// Lane leads to one host, for one context. What is in it is posted one after
// another.
type Lane struct {
	Host
	Context string `json:"context"`
	// Waiting are the entries that the host has not got, at most one for a commit.
	Waiting []Entry `json:"waiting,omitempty"`
	// Posted is when the host was last given a status, by commit, as long as another one
	// has to wait for that.
	Posted map[string]Posted `json:"posted,omitempty"`
	// Moved are commits that have a word in this context that is not the
	// ledger's any more. They get one that lets them go.
	Moved []Commit `json:"moved,omitempty"`
	// Heads are those of the open pull requests of this host, the newest first, each with its
	// own word; only on the subject Plan.
	Heads []Commit `json:"heads,omitempty"`
	// Unlisted is why the open pull requests are not known.
	Unlisted string `json:"unlisted,omitempty"`
	// Comments are those that were written on pull requests, by their numbers.
	Comments map[int]Comment `json:"comments,omitempty"`

	// Attempts is how often in a row the host as a whole has failed, and Failure
	// how; nothing is posted before NotBefore.
	Attempts  int       `json:"attempts,omitempty"`
	Failure   string    `json:"failure,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Silent is the one commit on whose status the host has given no answer since its last; empty if it
	// is none. It may be about that commit only: others are posted.
	Silent string `json:"silent,omitempty"`
	// Refused is the version of the Secret that the host does not take, since
	// RefusedAt.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refusedAt,omitzero"`
	// Lost says which status was given up last, and why.
	Lost string `json:"lost,omitempty"`

	// fresh lanes have not been told what is known already.
	fresh bool
}

// Posted is when a host was last given a status on a commit, and when a final one.
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
	// Attempts is how often the host has failed on this very status, and Failure
	// how.
	Attempts int    `json:"attempts,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

// same reports whether two entries would post the same.
func (e Entry) same(as Entry) bool {
	return e.Commit == as.Commit && e.Word == as.Word && e.TargetURL == as.TargetURL
}

// laneKey names a lane of a ledger.
type laneKey struct{ provider, url, context string }

func (l *Lane) key() laneKey { return laneKey{l.Provider, l.URL, l.Context} }

// postEvery is the least time between a status on a commit and a pending that follows it,
// and between two final ones: hosts limit how many statuses they take, and nobody reads
// what lasts a second. A verdict that flaps posts two in that time at the most.
const postEvery = 5 * time.Second

// put has a word posted, in place of an older one on the same commit.
func (l *Lane) put(commit string, w Word, target string, now time.Time) {
	e := Entry{Commit: commit, Word: w, TargetURL: target, Since: now}
	if free := l.Posted[commit].free(w); now.Before(free) && !free.After(now.Add(postEvery)) {
		e.NotBefore = free // else the clock was put back
	}
	if i := l.index(commit); i >= 0 {
		l.Waiting[i] = e
		return
	}
	l.Waiting = append(l.Waiting, e)
}

// free is when a word may follow.
func (p Posted) free(w Word) time.Time {
	if w.final() {
		return p.Final.Add(postEvery)
	}
	return p.At.Add(postEvery)
}

func (l *Lane) index(commit string) int {
	return slices.IndexFunc(l.Waiting, func(e Entry) bool { return e.Commit == commit })
}

// next is the first entry that may be posted now. Those on which the host has failed often come last, so that
// they do not keep the others waiting.
func (l *Lane) next(now time.Time) (Entry, bool) {
	if now.Before(l.NotBefore) {
		return Entry{}, false
	}
	first := -1
	for i, e := range l.Waiting {
		if !now.Before(e.NotBefore) && (first < 0 || l.Waiting[first].Attempts >= tellAfter && e.Attempts < tellAfter) {
			first = i
		}
	}
	if first < 0 {
		return Entry{}, false
	}
	return l.Waiting[first], true
}

// due is when the first entry may be posted; none if nothing waits.
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

// delivered notes that the host has an entry. What has overtaken it meanwhile
// stays.
func (l *Lane) delivered(e Entry, now time.Time) {
	if i := l.index(e.Commit); i >= 0 && l.Waiting[i].same(e) {
		l.Waiting = slices.Delete(l.Waiting, i, i+1)
	}
	l.reach()
	l.posted(e, now)
	if i := l.index(e.Commit); i >= 0 {
		next := &l.Waiting[i]
		next.NotBefore = latest(next.NotBefore, l.Posted[e.Commit].free(next.Word))
	}
}

// posted notes when the host was given an entry, and forgets what nothing waits for any more.
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

// reach forgets that the host has failed.
func (l *Lane) reach() {
	l.Attempts, l.Failure, l.NotBefore, l.Silent, l.Refused, l.RefusedAt = 0, "", time.Time{}, "", "", time.Time{}
}

// tellAfter is how many failures in a row are reported to people: the first ones
// often heal before anybody has read of them.
const tellAfter = 3

// trouble says why the host has not got what it should. It changes only with the cause.
func (l *Lane) trouble() string {
	failure := ""
	if l.Refused != "" || l.Attempts >= tellAfter {
		failure = l.Failure
	}
	for _, e := range l.Waiting {
		if failure == "" && e.Attempts >= tellAfter {
			failure = e.Failure
		}
	}
	return cmp.Or(failure, l.Unlisted, l.Lost)
}

// ShortCommit is a commit as people write it.
func ShortCommit(commit string) string {
	const digits = 7
	return commit[:min(digits, len(commit))]
}

// round posts what is due in one lane, until nothing is or the host fails, and
// then writes once that the host has it.
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

// writeEvery is how many statuses a kill makes the next daemon post again at
// most. Usually there are fewer in a round, and one write is enough.
const writeEvery = 10

// write writes what was posted, also when we are being stopped.
func (d *Deliverer) write(ctx context.Context, b *book) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := b.write(ctx, d.Now()); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot record which statuses were posted; retrying later", "nodesync", b.store.owner.NamespacedName)
	}
}

// post posts the first entry that is due. It reports whether there was one.
func (d *Deliverer) post(ctx context.Context, b *book, of laneOf) bool {
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
		return false // we are being stopped; whether the host has it is not known
	case errors.Is(err, errDistrusted):
		b.hold(of.lane, a.at.Add(longestWait))
	case err != nil:
		b.noteOn(of.lane, func(l *Ledger, lane *Lane) { lane.failed(a, err, l.shows(lane, a.entry.Commit)) })
	default:
		b.noteOn(of.lane, func(_ *Ledger, lane *Lane) { lane.delivered(a.entry, a.at) })
	}
	return true
}

// errDistrusted is a Secret that the host has refused already.
var errDistrusted = errors.New("the secret is still the one that was refused")

// send makes the one request.
func (d *Deliverer) send(ctx context.Context, b *book, host Lane, a *attempt) error {
	ctx, cancel := lingering(ctx)
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
	if host.distrusts(a.secret, a.at) {
		return errDistrusted
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

// lingering is a context that outlives the other by a moment.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(shutdownTimeout, cancel)
	})
	return longer, func() { stop(); cancel() }
}

// next is the first entry that may be posted in a lane now, and the lane as it is.
func (b *book) next(key laneKey, now time.Time) (Lane, Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lane := b.ledger.lane(key)
	if lane == nil {
		return Lane{}, Entry{}, false
	}
	e, ok := lane.next(now)
	return *lane, e, ok
}

// noteOn notes a change to a lane, if it is still there.
func (b *book) noteOn(key laneKey, change func(*Ledger, *Lane)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(func(l *Ledger) {
		if lane := l.lane(key); lane != nil {
			change(l, lane)
		}
	})
}

// hold has a lane wait, for a reason that is not worth a write.
func (b *book) hold(key laneKey, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		lane.NotBefore = latest(lane.NotBefore, until)
	}
}

func (b *book) trouble(key laneKey) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		return lane.trouble()
	}
	return ""
}

// write writes what was noted. Where it fails, the Deliverer comes back to it.
func (b *book) write(ctx context.Context, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.flush(ctx)
	b.writeAt = time.Time{}
	if err != nil {
		b.writeAt = now.Add(lookAgain)
	}
	return err
}
