package account

import (
	"context"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// resolvePeriod is how long Karpenter has to resolve the AMIs of a spec that has changed, before AWS is queried.
	resolvePeriod = 10 * time.Second
	// amiEvery is how long an answer about an AMI is valid: a query costs up to five requests to SSM.
	amiEvery = 10 * time.Minute
	// amisAtOnce is how many aliases and SSM parameters are queried at once; the next ones follow a minute later. Plans
	// need the same budget of requests.
	amisAtOnce = 3
)

// AMILook is the input of AMIChecker.See in one reconcile.
type AMILook struct {
	// Ask queries AWS.
	Ask plan.Ask
	// In is the region and the Kubernetes version of the cluster: AWS publishes different AMIs for others.
	In string
	// Classes are the EC2NodeClasses in the cluster that NodePools of the NodeSync reference.
	Classes []*plan.Object
	Now     time.Time
}

// AMIChecker finds out, in the background of one NodeSync's reconciles, whether AWS publishes an AMI for the alias or
// SSM parameter of each EC2NodeClass whose AMIs Karpenter does not resolve. It makes no request about other classes.
// The zero value is ready to use.
type AMIChecker struct {
	mu     sync.Mutex
	asking bool
	// next is when AWS may be queried again.
	next time.Time
	// known are the answers, by In and by the alias or parameter.
	known map[[2]string]*amiAnswer
}

// amiAnswer is the last answer about one alias or SSM parameter.
type amiAnswer struct {
	// due is when AWS is queried again. unpublished reports whether it publishes no AMI; false if that is unknown.
	due         time.Time
	unpublished bool
}

// See returns why no node can be launched with EC2NodeClasses, by their names: those for which AWS publishes no AMI
// according to the last answer. It omits a class about which AWS has not responded. A goroutine queries AWS, and no
// reconcile waits for it: the next one gets the answer.
func (a *AMIChecker) See(ctx context.Context, l AMILook, found *finding.Findings) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	why, known, due := map[string]string{}, map[[2]string]*amiAnswer{}, map[*amiAnswer]plan.Question{}
	for _, class := range l.Classes {
		q := plan.UnresolvedAMI(class)
		if q == nil {
			continue
		}
		key := [2]string{l.In, q.Named()}
		answer := a.known[key]
		if answer == nil {
			answer = &amiAnswer{due: l.Now.Add(resolvePeriod)}
		}
		known[key] = answer
		if answer.unpublished {
			why[class.GetName()] = q.Unpublished()
		}
		switch _, several := due[answer]; {
		case l.Now.Before(answer.due):
			found.WakeBy(answer.due)
		case several:
		case a.asking:
			found.WakeBy(l.Now.Add(checkResultAfter))
		case l.Now.Before(a.next):
			found.WakeBy(a.next)
		case len(due) == amisAtOnce:
			found.WakeBy(l.Now.Add(retryBusyAfter))
		default:
			due[answer] = *q
		}
	}
	if a.known = known; len(due) > 0 {
		a.asking, a.next = true, l.Now.Add(retryBusyAfter)
		found.WakeBy(l.Now.Add(checkResultAfter))
		go a.query(context.WithoutCancel(ctx), l, due)
	}
	return why
}

// query queries AWS, and stores the answers. If AWS does not respond about an AMI, the last answer remains, and AWS is
// queried again sooner.
func (a *AMIChecker) query(ctx context.Context, l AMILook, due map[*amiAnswer]plan.Question) {
	var questions []plan.Question
	for _, q := range due {
		questions = append(questions, q)
	}
	said := l.Ask(ctx, questions)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = false
	for answer, q := range due {
		if amis := said[q.Ref].AMIs; amis.Unavailable == "" || amis.Empty {
			answer.unpublished, answer.due = amis.Empty, l.Now.Add(amiEvery)
		} else {
			answer.due = l.Now.Add(retryBusyAfter)
		}
	}
}
