package teardown

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/render"
)

// StrandedAfter is how long an instance must be stranded before the command terminates it, and how long the command
// then waits for Karpenter: a controller that is restarted is back within that time.
const StrandedAfter = time.Minute

// Stranding tracks the instances that Karpenter does not terminate.
type Stranding struct {
	// Looked is the time of the last check.
	Looked time.Time
	// since is when each instance was first found stranded, without interruption.
	since map[string]time.Time
	// handled are those that are terminated, or that stay in AWS whatever the command does. lastly is when the last of
	// them was handled.
	handled map[string]bool
	lastly  time.Time
}

// Due returns the instances that have been stranded for some time and are not handled yet.
func (s *Stranding) Due(found []removal.Stranded, now time.Time, after time.Duration) (due []removal.Stranded) {
	before := s.since
	s.since = map[string]time.Time{}
	for _, one := range found {
		since, known := before[one.ID]
		if !known {
			since = now
		}
		s.since[one.ID] = since
		if !s.handled[one.ID] && now.Sub(since) >= after {
			due = append(due, one)
		}
	}
	return due
}

// Settled reports whether nothing progresses any more: all NodeClaims that are left belong to instances that were
// handled some time ago.
func (s *Stranding) Settled(found []removal.Stranded, busy int, now time.Time, after time.Duration) bool {
	waits := func(one removal.Stranded) bool { return one.Claim != "" && !s.handled[one.ID] }
	return len(s.handled) > 0 && busy == 0 && now.Sub(s.lastly) >= after && !slices.ContainsFunc(found, waits)
}

// Handled records when the last of the handled instances was terminated.
func (s *Stranding) Handled(now time.Time) { s.lastly = now }

func (s *Stranding) handle(id string, now time.Time) {
	if s.handled == nil {
		s.handled = map[string]bool{}
	}
	s.handled[id], s.lastly = true, now
}

// Terminable sorts the due instances by what EC2 reports about them: terminate are those that may be terminated, and
// spared are sentences about those that stay. Both are then handled, as is one that is no longer in EC2 while its
// NodeClaim is left.
func (s *Stranding) Terminable(
	due []removal.Stranded, ending leftover.Deletion, now time.Time,
) (terminate []removal.Stranded, spared []string) {
	for _, one := range due {
		ends, why := ending.Of(one.ID)
		switch {
		case ends:
			terminate = append(terminate, one)
		case why != "":
			spared = append(spared, "instance "+one.ID+" stays: "+why)
		case one.Claim == "": // it was terminated, as expected
			s.since[one.ID] = now
			continue
		}
		s.handle(one.ID, now)
	}
	return terminate, spared
}

// Stranded returns the instances of a NodeSync that Karpenter does not terminate in the current state, and the number
// of NodeClaims that it still works on. noted is the record of removals, and runs reports whether the controller runs.
func (p *Plan) Stranded(
	sync *v1alpha1.NodeSync, claims []karpv1.NodeClaim, nodes []corev1.Node, noted []string, runs bool,
) ([]removal.Stranded, int) {
	by := removal.Standing{Pools: map[string]bool{}, Ready: readyNodes(nodes), Noted: noted, Runs: runs}
	for _, object := range p.Objects {
		if object.Kind == render.NodePool {
			by.Pools[object.Name] = false
		}
	}
	for _, removal := range sync.Status.Removals {
		if removal.Kind == render.NodePool {
			by.Pools[removal.Name] = removal.Phase != v1alpha1.RemovalHeld
		}
	}
	return removal.FindStranded(p.WithoutOthers(claims), by)
}

// readyNodes returns the names of the Ready Nodes.
func readyNodes(nodes []corev1.Node) map[string]bool {
	ready := map[string]bool{}
	for i := range nodes {
		ready[nodes[i].Name] = cluster.NodeReady(&nodes[i])
	}
	return ready
}

// StrandedWords describes an instance in one line.
func StrandedWords(one removal.Stranded) string {
	words := "instance " + one.ID
	switch {
	case one.Node != "":
		words += " of Node/" + one.Node
	case one.Claim != "":
		words += " of NodeClaim/" + one.Claim
	}
	if one.Claim != "" && !one.Drained {
		return words + " is not drained: " + one.Why
	}
	return words + ": " + one.Why
}

// Unfinished returns, if only Karpenter's finalizers keep what is left in the cluster, a sentence that says how to
// continue. p is the plan for the current state of the cluster, again the command that continues.
func (p *Plan) Unfinished(found []removal.Stranded, report leftover.Report, again string) string {
	var left []string
	for _, one := range found {
		if one.Claim != "" {
			left = append(left, "NodeClaim/"+one.Claim)
		}
	}
	for _, object := range p.Objects {
		if !p.DownTo.Keeps() && !object.Gone {
			left = append(left, object.Kind+"/"+object.Name)
		}
	}
	return fmt.Sprintf("left in AWS: %s; left in the cluster: %s, NodeSync/%s. "+
		"These have finalizers that Karpenter removes once its controller runs and may query EC2: restore the IAM role of its ServiceAccount, then run\n  %s\n"+
		"If you delete the cluster too, delete it instead, then run\n  plumbline teardown --cluster-gone --cluster %s --region %s --account %s --sweep",
		report.String(), shortlist.Join(left, maxNamed, ", "), p.NodeSync, again, p.Cluster, p.Region, report.Account)
}
