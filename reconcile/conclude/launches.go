package conclude

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// recallLaunches adds the pools that were reported to get no nodes before the daemon was started. Which launches
// have failed is kept in memory, and Karpenter tries again within minutes: until then, or while it is not
// known, nothing says that these have nodes but a node.
func (s *Step) recallLaunches() {
	if s.Memory.began.IsZero() {
		s.Memory.began = s.Began
	}
	for _, l := range s.Launchless {
		if s.Memory.launchless == nil {
			s.Memory.launchless = map[string]bool{}
		}
		s.Memory.launchless[l.Pool] = true // from now on the looks know
	}
	known := s.Memory.began.Add(observe.FailedLaunchLasts)
	if s.Fault != nil || s.Set == nil || s.Looked && !s.Began.Before(known) {
		return
	}
	for _, before := range s.Before.Status.LaunchFailing {
		is := func(l nodes.Launchless) bool { return l.Pool == before.Pool }
		wanted := slices.ContainsFunc(s.Set.Objects, func(o render.Object) bool {
			return o.Ref == render.Ref{Kind: render.NodePool, Name: before.Pool}
		})
		if wanted && !s.Noded[before.Pool] && !s.Memory.launchless[before.Pool] && !slices.ContainsFunc(s.Launchless, is) {
			s.Launchless = append(s.Launchless, nodes.Launchless{Pool: before.Pool, Why: before.Message})
			s.WakeBy(known)
		}
	}
	slices.SortFunc(s.Launchless, func(a, b nodes.Launchless) int { return strings.Compare(a.Pool, b.Pool) })
}

// setLaunchFailing tells of pools that get no nodes, for as long as that is so.
func (s *Step) setLaunchFailing() {
	if !s.Looked {
		return
	}
	var failing []v1alpha1.LaunchFailure
	var words []string
	for _, l := range s.Launchless {
		why := finding.Bounded(l.Why, maxEventMessage) // Karpenter's events have no more
		failing = append(failing, v1alpha1.LaunchFailure{Pool: l.Pool, Message: why})
		words = append(words, fmt.Sprintf("%s/%s gets no nodes: %s", render.NodePool, l.Pool, why))
	}
	s.Sync.Status.LaunchFailing = failing
	s.setTrouble(v1alpha1.LaunchFailingCondition, v1alpha1.ReasonLaunchFailed, finding.Few(words, "; "))
}
