package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// compareTimeout is the maximum duration of a comparison, and checkResultAfter is when a reconcile checks for its
	// result.
	compareTimeout, checkResultAfter = 30 * time.Second, 2 * time.Second
	// retryBusyAfter is when a query is repeated for which AWS was too busy.
	retryBusyAfter = time.Minute
	// settlePeriod is how long EC2 and Karpenter have to learn about each other's changes, unless comparisons are more
	// frequent.
	settlePeriod = time.Minute
	// reportBusyAfter is how long AWS may be too busy before that is reported.
	reportBusyAfter = 30 * time.Minute
	// maxMessage is the maximum length in bytes of the message about one instance.
	maxMessage = 512
)

// InstanceCloud is the AWS client of an InstanceChecker.
type InstanceCloud interface {
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	AttachedVolumes(ctx context.Context, cluster string) ([]cloud.Resource, error)
	LeftBehind(ctx context.Context, cluster string, profiles bool) ([]cloud.Answer, error)
	UserData(ctx context.Context, providerID string) (string, error)
}

// InstanceLook is the input of InstanceChecker.See in one reconcile.
type InstanceLook struct {
	// Cloud returns the client of the region. It makes no request.
	Cloud func(ctx context.Context) (InstanceCloud, error)
	// Reader reads VolumeAttachments and Nodes, past the watch cache.
	Reader client.Reader
	// Cluster is the EKS cluster.
	Cluster string
	// Unverified is why AWS's answers may not come from this cluster's account; empty if they do.
	Unverified string
	Set        *render.Set
	Live       plan.Live
	// Rolling reports whether nodes are being replaced: the security groups that an instance should have then depend on
	// when it was launched, and no new difference is looked for.
	Rolling bool
	// Removals is the number of recorded removals: when one completes, the next comparison is due, to find what it has
	// left.
	Removals int
	// Urgent reports whether the result is needed within a minute: a Node without a NodeClaim is terminating.
	Urgent bool
	// Terminations is how many instances of this cluster another client is known to have terminated. If there are more, a
	// comparison is due at once.
	Terminations int
	// Endpoint is the API server in EKS's response; empty if unknown.
	Endpoint string
	// Before is the last comparison in the status; nil if there is none.
	Before *v1alpha1.InstanceDrift
	Now    time.Time
	// Every is the minimum interval between two comparisons; if 0, there are none.
	Every time.Duration
}

// InstanceChecker compares the instances of one NodeSync in the background of its reconciles, and stores the last
// result. The zero value is ready to use.
type InstanceChecker struct {
	mu sync.Mutex
	// due is when AWS is queried again, asked when it was last queried, and answered when it last responded, or was
	// first queried.
	due, asked, answered time.Time
	asking               bool
	cluster              string
	// known is the last result, which must not be changed; nil before the first.
	known *v1alpha1.InstanceDrift
	// left are the Nodes and instances without a NodeClaim that were terminating in the last result of EC2. A failed
	// comparison keeps them, because they have the time since when an instance has been shutting down.
	left []removal.LeftInstance
	// removals is the number of recorded removals in the last reconcile, and terminations that of terminations at the last
	// query.
	removals, terminations int
	// seen are the resources that were left in the last result. history is what the cluster has contained since the daemon
	// started.
	seen    seen
	history clusterHistory
	// compared is what the last comparison found about unknown instances and resources. endpoints are the hosts of the API
	// servers in the user data of instances, by providerID; only a running comparison uses it.
	compared  Compared
	endpoints map[string][]string
}

// See returns the last result; nil if there is none yet. When the next comparison is due, a goroutine queries AWS, and
// no reconcile waits for it: the next one gets the result.
func (a *InstanceChecker) See(ctx context.Context, l InstanceLook, found *finding.Findings) *v1alpha1.InstanceDrift {
	if l.Every <= 0 {
		return &v1alpha1.InstanceDrift{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.Unverified != "" {
		return a.withFailure(cmp.Or(a.known, l.Before, &v1alpha1.InstanceDrift{}), l.Before, "AWS is not queried: "+l.Unverified, l.Now)
	}
	a.note(l)
	if !a.asking && !l.Now.Before(a.due) {
		a.begin(ctx, l)
	}
	if a.asking {
		found.WakeBy(l.Now.Add(checkResultAfter))
	} else {
		found.WakeBy(a.due)
	}
	return a.known
}

// note keeps what a reconcile sees, and determines when the next comparison is due.
func (a *InstanceChecker) note(l InstanceLook) {
	if a.cluster != l.Cluster && !a.asking {
		a.cluster, a.known, a.due, a.answered, a.seen, a.left, a.history = l.Cluster, nil, time.Time{}, time.Time{}, nil, nil, clusterHistory{}
		a.compared, a.endpoints = Compared{}, nil
	}
	if a.seen == nil {
		a.seen = reported(l.Before)
	}
	a.history.note(l.Live, l.Now)
	if l.Removals < a.removals {
		a.due = l.Now
	}
	a.removals = l.Removals
	if soonest := a.asked.Add(min(retryBusyAfter, l.Every)); l.Urgent && a.due.After(soonest) {
		a.due = soonest
	}
	a.terminations = min(a.terminations, l.Terminations)
	if soonest := a.asked.Add(signSpacing); l.Terminations > a.terminations && a.due.After(soonest) {
		a.due = soonest
	}
}

// begin starts a comparison.
func (a *InstanceChecker) begin(ctx context.Context, l InstanceLook) {
	a.asking, a.asked, a.due, a.terminations = true, l.Now, l.Now.Add(l.Every), l.Terminations
	a.answered = cmp.Or(a.answered, l.Now)
	q := l.question()
	q.before, q.leftBefore, q.now, q.history = a.seen, a.left, l.Now, a.history.clone()
	if a.endpoints == nil || len(a.endpoints) > maxKnownInstances {
		a.endpoints = map[string][]string{}
	}
	q.endpoints, q.endpoint = a.endpoints, l.Endpoint
	q.last = *cmp.Or(a.known, l.Before, &v1alpha1.InstanceDrift{})
	q.quiet = a.known != nil && a.known.Failure == "" && l.Now.Sub(a.answered) < reportBusyAfter
	go a.compareAndKeep(context.WithoutCancel(ctx), q, l.Now.Add(min(retryBusyAfter, l.Every)))
}

// withFailure returns the last answer, and why there is no newer one: what was found stays reported until an answer shows that it is
// over, because a failed query corrects nothing. status is that of the NodeSync, which has the time from before a restart; nil if last
// has it, too.
func (a *InstanceChecker) withFailure(last, status *v1alpha1.InstanceDrift, why string, now time.Time) *v1alpha1.InstanceDrift {
	kept := last.DeepCopy()
	kept.Failure = finding.Bounded(why, maxMessage)
	switch {
	case !last.Compared():
	case !status.Compared():
		kept.NotComparedSince = status.NotComparedSince.DeepCopy()
	default:
		since := metav1.NewTime(cmp.Or(a.answered, now).Truncate(time.Second))
		kept.NotComparedSince = &since
	}
	return kept
}

// compareAndKeep compares, and keeps the answer. If there is none, the last answer stands, with the failure, and the
// first time AWS is asked again sooner. If AWS was only too busy, it is asked again sooner each time, and the failure is
// added after a while.
func (a *InstanceChecker) compareAndKeep(ctx context.Context, q *question, sooner time.Time) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	found, err := q.compare(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = false
	switch {
	case errors.As(err, new(*resolve.BusyError)), errors.As(err, new(*cloud.PartialError)):
		a.due = sooner
		if q.now.Sub(a.answered) >= reportBusyAfter {
			a.known = a.withFailure(&q.last, nil, fmt.Sprintf("no complete answer since %s: %v", a.answered.UTC().Format(time.RFC3339), err), q.now)
		}
	case err != nil:
		if q.last.Compared() { // it may be over in a moment
			a.due = sooner
		}
		a.known = a.withFailure(&q.last, nil, err.Error(), q.now)
	default:
		others := false
		if !q.leftBehindUnasked {
			found.Left, others = a.seen.confirm(found.Left, q.unlisted)
		}
		// What differs is compared again sooner: it is reported for as long as it is so, and no longer.
		if others || found.Count > 0 || len(q.left) > 0 || q.busy {
			a.due = sooner
		}
		a.compared = q.compared
		if a.known, a.left = found, q.left; !q.busy {
			a.answered = q.now
		}
	}
}

// Left returns the Nodes and instances without a NodeClaim that were terminating in the last result of EC2. If a later comparison
// failed, they may be gone: each Node is read again before it is reported, and that EC2 has terminated an instance stays true.
func (a *InstanceChecker) Left() []removal.LeftInstance {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.left)
}

// question is one comparison: what to query in AWS, and what to compare the response with.
type question struct {
	cloud func(ctx context.Context) (InstanceCloud, error)
	// cluster reads VolumeAttachments and Nodes.
	cluster client.Reader
	fleet   Fleet
	query   cloud.Query
	// classes are the EC2NodeClasses of the NodeSync's NodeClaims; rolling is InstanceLook.Rolling.
	classes map[string]*plan.Object
	rolling bool
	// living is what may use the cluster's resources in AWS. profiles reports whether there may be instance profiles
	// that no live object references.
	living   leftover.Living
	profiles bool
	// before is what the last answer has shown as left; it is read only. last is that answer: what AWS does not answer now
	// stays as it was. unlisted are the kinds of leftovers that AWS has not listed.
	before   seen
	last     v1alpha1.InstanceDrift
	unlisted map[string]bool
	// quiet reports whether last is young and complete enough to stand without a word while AWS is too busy, and busy whether AWS was.
	// leftBehindUnasked reports whether it was not asked what is left beside volumes.
	quiet, busy, leftBehindUnasked bool
	// now is when the question was made. left are the Nodes and instances that are terminating and that no NodeClaim has,
	// and leftBefore those of the last answer.
	now              time.Time
	left, leftBefore []removal.LeftInstance
	// history is what the cluster is known to have contained.
	history clusterHistory
	// compared is what was found about unknown instances and resources. endpoints are those of InstanceChecker, endpoint is
	// InstanceLook.Endpoint, and userData is how often user data was read.
	compared  Compared
	endpoints map[string][]string
	endpoint  string
	userData  int
}

// question returns the comparison to make now. The live objects are read before AWS is queried, so an instance that
// appears meanwhile has not settled.
func (l *InstanceLook) question() *question {
	q := &question{
		cloud: l.Cloud, cluster: l.Reader, query: cloud.Query{Cluster: l.Cluster, AllPools: true, Terminated: true}, classes: map[string]*plan.Object{},
		rolling: l.Rolling,
		fleet: Fleet{
			Cluster: l.Cluster, Claims: l.Live.NodeClaims, Pools: map[string]bool{}, UIDs: map[types.UID]string{}, Others: map[string]bool{},
			Classes: map[string]Class{}, Settled: l.Now.Add(-min(settlePeriod, l.Every)),
		},
	}
	for i := range l.Set.Objects {
		ref := l.Set.Objects[i].Ref
		if ref.Kind != render.NodePool {
			continue
		}
		q.fleet.Pools[ref.Name] = true
		if live := l.Live.Objects[ref]; live != nil {
			q.fleet.UIDs[live.GetUID()] = ref.Name
		}
	}
	for ref := range l.Live.Objects {
		if ref.Kind == render.NodePool && !q.fleet.Pools[ref.Name] {
			q.fleet.Others[ref.Name] = true
		}
	}
	for i := range q.fleet.Claims {
		c := &q.fleet.Claims[i]
		if !q.fleet.Pools[c.Pool] || c.ProviderID == "" {
			continue
		}
		q.query.ProviderIDs = append(q.query.ProviderIDs, c.ProviderID)
		if class := l.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}]; class != nil {
			q.classes[c.Class] = class
		}
	}
	q.live(l.Live)
	return q
}

// compare asks EC2 for the instances, and compares them; and for what nodes have left attached. An error reports that nothing
// can be compared. Each other question that AWS does not answer is named in the failure of its part, and what that part has of the
// last answer stays.
func (q *question) compare(ctx context.Context) (*v1alpha1.InstanceDrift, error) {
	aws, err := q.cloud(ctx)
	if err != nil {
		return nil, err
	}
	var unasked []string
	for _, name := range slices.Sorted(maps.Keys(q.classes)) {
		class, live := new(awsv1.EC2NodeClass), q.classes[name]
		if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, class) != nil {
			continue // for a class that this version cannot read, only Karpenter's own tags are compared
		}
		said := Class{Tags: class.Spec.Tags, Hash: plan.HashesOf(live.GetAnnotations()).Class()}
		words := ""
		if said.Groups, said.Unresolved, words = q.groups(ctx, aws, class); words != "" {
			unasked = append(unasked, fmt.Sprintf("security groups of EC2NodeClass/%s: %s", name, words))
		}
		q.fleet.Classes[name] = said
	}
	q.fleet.Before = q.last.Instances
	// An instance that is terminated is shown only if it is asked for by its ID, and these have no NodeClaim that has it.
	for _, before := range q.leftBefore {
		if before.ProviderID != "" {
			q.query.ProviderIDs = append(q.query.ProviderIDs, before.ProviderID)
		}
	}
	if q.fleet.Shown, err = aws.Fleet(ctx, q.query); err != nil {
		return nil, err
	}
	q.fleet.Had = q.history.instances
	found := q.fleet.Differences()
	orphans := orphaned(found)
	q.left = q.shuttingDown()
	q.findStrangers(ctx, aws)
	nodes, err := q.nodes(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, nodes...)
	for i := range found {
		found[i].Message = finding.Bounded(found[i].Message, maxMessage)
	}
	failure := finding.Bounded(strings.Join(unasked, "; "), maxMessage)
	return &v1alpha1.InstanceDrift{
		Failure: failure, Count: int32(len(found)), Instances: found, Orphaned: orphans, Volumes: q.volumes(ctx, aws),
		Left: q.findLeftBehind(ctx, aws),
	}, nil
}

// unanswered returns why AWS has not answered; empty while the last answer stands for that of a busy AWS.
func (q *question) unanswered(err error) string {
	if errors.As(err, new(*resolve.BusyError)) {
		if q.busy = true; q.quiet {
			return ""
		}
	}
	return err.Error()
}

// groups returns the security groups that a class resolves to; nil if there are none, which Karpenter reports on the class. If they
// are unresolved, words are what to report about it.
func (q *question) groups(
	ctx context.Context, aws InstanceCloud, class *awsv1.EC2NodeClass,
) (found []string, unresolved bool, words string) {
	if q.rolling {
		return nil, true, ""
	}
	found, err := aws.SecurityGroups(ctx, class)
	switch {
	case errors.As(err, new(*resolve.EmptyError)):
		return nil, false, ""
	case err != nil:
		return nil, true, q.unanswered(err)
	}
	return found, false, ""
}

// shuttingDown returns the instances of the NodeSync's pools without a NodeClaim that EC2 is shutting down.
func (q *question) shuttingDown() (left []removal.LeftInstance) {
	claimed := map[string]bool{}
	for i := range q.fleet.Claims {
		claimed[q.fleet.Claims[i].ProviderID] = true
	}
	for i := range q.fleet.Shown {
		n := &q.fleet.Shown[i]
		if n.State != "shutting-down" || n.Pool == "" || q.fleet.Others[n.Pool] || claimed[n.ProviderID()] {
			continue
		}
		since := q.now
		for _, before := range q.leftBefore {
			if before.Kind == removal.TerminatingInstance && before.Name == n.ID {
				since = before.Since
			}
		}
		left = append(left, removal.LeftInstance{Kind: removal.TerminatingInstance, Name: n.ID, Instance: n.ID, Pool: n.Pool, Since: since})
	}
	return left
}

// maxKnownInstances is how many instances are remembered. If there are more, only those of live NodeClaims are kept.
const maxKnownInstances = 10_000

// clusterHistory is what this cluster has contained since the daemon started. It proves that a resource in AWS belongs
// to this cluster. Tags do not: another cluster of the same name, or an earlier one, sets the same tags. If it is lost,
// messages contain no commands.
type clusterHistory struct {
	// instances are the IDs of NodeClaims' instances; classes and uids are the names and UIDs of EC2NodeClasses.
	instances, classes, uids map[string]bool
	// since is when the daemon first saw the cluster.
	since time.Time
}

// note adds the live objects.
func (h *clusterHistory) note(live plan.Live, now time.Time) {
	h.since = cmp.Or(h.since, now)
	if h.classes == nil {
		h.classes, h.uids = map[string]bool{}, map[string]bool{}
	}
	if h.instances == nil || len(h.instances) > maxKnownInstances {
		h.instances = map[string]bool{}
	}
	for i := range live.NodeClaims {
		if _, id, err := cloud.ParseProviderID(live.NodeClaims[i].ProviderID); err == nil {
			h.instances[id] = true
		}
	}
	for ref, object := range live.Objects {
		if ref.Kind == render.EC2NodeClass {
			h.classes[ref.Name], h.uids[string(object.GetUID())] = true, true
		}
	}
}

// clone returns a copy for a goroutine that runs concurrently with the reconciles.
func (h *clusterHistory) clone() clusterHistory {
	return clusterHistory{instances: maps.Clone(h.instances), classes: maps.Clone(h.classes), uids: maps.Clone(h.uids), since: h.since}
}

// created reports whether this cluster created a leftover. A launch template only has the name of its EC2NodeClass,
// which another cluster may use, too.
func (h *clusterHistory) created(f leftover.Found) bool {
	switch f.Kind {
	case cloud.KindNetworkInterface:
		return h.instances[leftover.InstanceOf(f.Resource)]
	case cloud.KindInstanceProfile:
		return h.uids[leftover.UIDOf(f.Name)]
	case cloud.KindLaunchTemplate:
		return h.classes[leftover.ClassOf(f.Resource)]
	case cloud.KindInstance, cloud.KindVolume:
	}
	return false
}
