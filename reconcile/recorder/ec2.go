package recorder

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// EC2 is what is asked how instances ended.
type EC2 interface {
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
}

// Answer is what EC2 says of an instance whose NodeClaim ends.
type Answer struct {
	// Ran says that it had not begun to end it when it was asked after the deletion began.
	Ran bool
	// Ended says that it ends it or has, Code is its StateReason's, and Began is when that began: zero
	// where it does not say.
	Ended bool
	Code  string
	Began time.Time
}

const (
	// asksAgain is when EC2 is asked again about an instance of which it has not said enough, and asksFor
	// how long after the end that goes on.
	asksAgain, asksFor = 30 * time.Second, 5 * time.Minute
	// asksWithin bounds one question: what has ended is written after it.
	asksWithin = 10 * time.Second
)

// add adds what EC2 shows.
func (a *Answer) add(i cloud.Instance) {
	switch i.State {
	case "shutting-down", "terminated":
		code, _, _ := strings.Cut(i.Reason, ":")
		a.Ended, a.Code, a.Began = true, code, i.Since
	case "":
	default:
		a.Ran = true
	}
}

// asksEC2 says that EC2 may know what nothing in the cluster tells: whether the instance had ended
// before its NodeClaim did.
func (f Facts) asksEC2() bool {
	if f.Instance == "" || f.Missed || f.EC2.Ended {
		return false
	}
	if f.EC2.Ran && f.InstanceTerminating.IsZero() && f.Gone.IsZero() {
		return false // it will be asked when the instance has ended
	}
	cause, _ := Judge(f)
	return cause == ByHand || cause == Unknown || cause == InstanceGone
}

// mayAsk says that an answer of EC2 would tell more of one, and that newer ones have not overtaken it.
func (r *Recorder) mayAsk(e ending) bool {
	b := r.books[e.of.NamespacedName]
	return b != nil && (!e.numbered || e.seq >= b.next-r.ring.most()) && e.facts.asksEC2()
}

// askEC2 asks about those of whose ends it may know more, each now and then. Where there is no answer
// none is made up, and it is asked again.
func (r *Recorder) askEC2(ctx context.Context, all map[types.UID]ending, now time.Time) {
	byRegion := map[string][]types.UID{}
	for _, uid := range slices.Backward(inOrder(all)) {
		e := all[uid]
		sync := r.pools[e.facts.Pool].sync
		if sync == nil || sync.Status.Karpenter == nil || now.Before(e.asks) || !r.mayAsk(e) {
			continue
		}
		if region := sync.Status.Karpenter.Region; len(byRegion[region]) < r.ring.most() {
			e.asks = now.Add(asksAgain)
			all[uid] = e
			byRegion[region] = append(byRegion[region], uid)
		}
	}
	for region, some := range byRegion {
		shown, err := r.instances(ctx, region, some, all)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("EC2 does not say how instances have ended", "region", region, "error", err.Error())
		}
		for _, uid := range some {
			e := all[uid]
			e.facts.EC2.add(shown[e.facts.Instance])
			all[uid] = e
		}
	}
}

// instances are those that EC2 shows of NodeClaims, by their IDs.
func (r *Recorder) instances(ctx context.Context, region string, of []types.UID, all map[types.UID]ending) (map[string]cloud.Instance, error) {
	ctx, stop := context.WithTimeout(ctx, asksWithin)
	defer stop()
	ec2, err := r.EC2(ctx, region)
	if err != nil {
		return nil, err
	}
	var query cloud.Query
	for _, uid := range of {
		f := all[uid].facts
		query.ProviderIDs = append(query.ProviderIDs, cloud.Instance{Zone: f.Zone, ID: f.Instance}.ProviderID())
	}
	found, err := ec2.Fleet(ctx, query)
	shown := make(map[string]cloud.Instance, len(found))
	for _, i := range found {
		shown[i.ID] = i
	}
	return shown, err
}
