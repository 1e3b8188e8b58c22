package instances

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// patience is how long one comparison may take, and soon is when a pass looks for its answer.
	patience, soon = 30 * time.Second, 2 * time.Second
	// again is when what AWS was too busy for is asked again.
	again = time.Minute
	// settles is how long EC2 and Karpenter have to know of each other, unless comparisons are
	// more frequent.
	settles = time.Minute
	// maxMessage is how long the words on one instance are, in bytes.
	maxMessage = 512
)

// Cloud is what is asked of AWS.
type Cloud interface {
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	AttachedVolumes(ctx context.Context, cluster string) ([]cloud.Resource, error)
	LeftBehind(ctx context.Context, cluster string, profiles bool) ([]cloud.Answer, error)
}

// Look is what a pass knows when it looks for the last answer.
type Look struct {
	// Cloud returns the client of the region. It makes no request.
	Cloud func(ctx context.Context) (Cloud, error)
	// Reader reads VolumeAttachments and Nodes, past the watch cache.
	Reader client.Reader
	// Cluster is the EKS cluster.
	Cluster string
	// Unverified is why it is not certain that AWS's answers are those of this cluster's account;
	// empty where it is.
	Unverified string
	Set        *render.Set
	Live       plan.Live
	// Rolling says that nodes are being replaced: which security groups an instance should have
	// then depends on when it was launched, and they are not compared.
	Rolling bool
	// Removals is how many removals are recorded: when one is over, it is time to ask what it has left.
	Removals int
	// Urgent says that the answer is wanted within a minute: a Node is terminating, and no NodeClaim has it.
	Urgent bool
	// Before is what the status has of the last comparison; nil where it has none.
	Before *v1alpha1.InstanceDrift
	Now    time.Time
	// Every is the least time between two comparisons; 0 for none.
	Every time.Duration
}

// Asker compares the instances of one NodeSync beside its passes, and keeps the last answer. The zero
// value has asked nothing.
type Asker struct {
	mu sync.Mutex
	// due is when AWS is asked again, and asked when it was asked last.
	due, asked time.Time
	asking     bool
	cluster    string
	// known is the last answer, which is read only; nil before the first.
	known *v1alpha1.InstanceDrift
	// left are the Nodes and instances that were terminating by that answer, and that no NodeClaim has.
	left []termination.Left
	// removals is how many were recorded when a pass looked last.
	removals int
	// seen are the resources that were left by the last answer, and had is what the cluster has had since the daemon started.
	seen seen
	had  had
}

// See returns the last answer; nil where there is none yet. Where it is time AWS is asked
// again, in a goroutine that no pass waits for: the next one has the answer.
func (a *Asker) See(ctx context.Context, l Look, found *finding.Findings) *v1alpha1.InstanceDrift {
	switch {
	case l.Every <= 0:
		return &v1alpha1.InstanceDrift{}
	case l.Unverified != "":
		return &v1alpha1.InstanceDrift{Failure: "AWS is not asked: " + l.Unverified}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cluster != l.Cluster && !a.asking {
		a.cluster, a.known, a.due, a.seen, a.left, a.had = l.Cluster, nil, time.Time{}, nil, nil, had{}
	}
	if a.seen == nil {
		a.seen = reported(l.Before)
	}
	a.had.note(l.Live)
	if l.Removals < a.removals {
		a.due = l.Now
	}
	a.removals = l.Removals
	if soonest := a.asked.Add(min(again, l.Every)); l.Urgent && a.due.After(soonest) {
		a.due = soonest
	}
	if !a.asking && !l.Now.Before(a.due) {
		a.asking, a.asked, a.due = true, l.Now, l.Now.Add(l.Every)
		q := l.question()
		q.before, q.leftBefore, q.now, q.had = a.seen, a.left, l.Now, a.had.clone()
		go a.ask(context.WithoutCancel(ctx), q, l.Now.Add(min(again, l.Every)))
	}
	if a.asking {
		found.WakeBy(l.Now.Add(soon))
	} else {
		found.WakeBy(a.due)
	}
	return a.known.DeepCopy() // a conclusion redacts what it is given
}

// ask compares, and keeps the answer. Where AWS was too busy, the last one stands, and it is asked
// again sooner.
func (a *Asker) ask(ctx context.Context, q *question, sooner time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := q.compare(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = false
	switch {
	case errors.As(err, new(*resolve.BusyError)), errors.As(err, new(*cloud.PartialError)):
		a.due = sooner
	case err != nil:
		a.known = &v1alpha1.InstanceDrift{Failure: finding.Bounded(err.Error(), maxMessage)}
	default:
		var others bool
		// What differs is compared again sooner: it is reported for as long as it is so, and no longer.
		if found.Left, others = a.seen.confirm(found.Left); others || found.Count > 0 || len(q.left) > 0 {
			a.due = sooner
		}
		a.known, a.left = found, q.left
	}
}

// Left are the Nodes and instances that were terminating by the last answer, and that no NodeClaim has.
func (a *Asker) Left() []termination.Left {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.left)
}
