package conclude

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// getsNoNodes stands between a pool and why it gets no nodes.
const getsNoNodes = " gets no nodes: "

var (
	launchlessPool = regexp.MustCompile(`(?:^|; )` + render.NodePool + `/(\S+)` + getsNoNodes)
	andMore        = regexp.MustCompile(` and \d+ more$`)
)

// recallLaunches adds the pools that were said to get no nodes before the daemon was started. Which launches
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
	for _, before := range launchlessIn(conditions.GetMessage(s.Before, v1alpha1.LaunchFailingCondition)) {
		is := func(l nodes.Launchless) bool { return l.Pool == before.Pool }
		wanted := slices.ContainsFunc(s.Set.Objects, func(o render.Object) bool {
			return o.Ref == render.Ref{Kind: render.NodePool, Name: before.Pool}
		})
		if wanted && !s.Noded[before.Pool] && !s.Memory.launchless[before.Pool] && !slices.ContainsFunc(s.Launchless, is) {
			s.Launchless = append(s.Launchless, before)
			s.WakeBy(known)
		}
	}
	slices.SortFunc(s.Launchless, func(a, b nodes.Launchless) int { return strings.Compare(a.Pool, b.Pool) })
}

// launchlessWords say of pools that they get no nodes, and why.
func launchlessWords(pools []nodes.Launchless) string {
	words := make([]string, 0, len(pools))
	for _, l := range pools {
		words = append(words, render.NodePool+"/"+l.Pool+getsNoNodes+l.Why)
	}
	return finding.Bounded(finding.Few(words, "; "), MaxMessage)
}

// launchlessIn reads them again.
func launchlessIn(words string) []nodes.Launchless {
	words = andMore.ReplaceAllString(words, "")
	var pools []nodes.Launchless
	found := launchlessPool.FindAllStringSubmatchIndex(words, -1)
	for i, at := range found {
		end := len(words)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		pools = append(pools, nodes.Launchless{Pool: words[at[2]:at[3]], Why: words[at[1]:end]})
	}
	return pools
}
