package removal

import (
	"fmt"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// reportDriven reports what was done for removals, NodeClaims by their number.
func (s *Step) reportDriven(result teardown.Result) {
	ended := map[render.Ref]int{}
	for _, write := range result.Writes {
		ref := render.Ref{Kind: write.Kind, Name: write.Name}
		if _, isClaim := write.Action.(teardown.DeleteNodeClaim); isClaim {
			ended[ref]++
			continue
		}
		if r, is := write.Action.(teardown.Replace); is && r.Nodes == 0 {
			continue // it goes on when what it has begun is done
		}
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving, fmt.Sprintf("%s: %s", ref, write.Action))
	}
	for ref, n := range ended {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving, fmt.Sprintf("%s: %d %s", ref, n, english.PluralWord(n, "NodeClaim is deleted and drains", "NodeClaims are deleted and drain")))
	}
	for _, r := range result.Removals {
		if r.Phase == v1alpha1.RemovalGone {
			s.Event(v1alpha1.ReasonRemoved, s.nameOf(r)+" is gone"+proof(r))
		}
	}
	if result.Undiagnosed != nil {
		s.Warn(v1alpha1.ReasonDiagnosisFailed, result.Undiagnosed.Error())
	}
}

// nameOf names what was removed; an object that was recreated under its name is another.
func (s *Step) nameOf(r v1alpha1.Removal) string {
	ref := refOf(r)
	if live := s.Live.Objects[ref]; live != nil && live.GetUID() != r.UID {
		return "the former " + ref.String()
	}
	return ref.String()
}

// proof says what "gone" was proven by.
func proof(r v1alpha1.Removal) string {
	if r.Kind == render.NodePool {
		return ", and EC2 has ended every instance of it"
	}
	return ""
}
