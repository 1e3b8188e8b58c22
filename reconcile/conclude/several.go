package conclude

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// uncharted says why the charts are not as Git has them, where the pass went on over
// what is installed; nil where they are, or where Verdict has said it first.
func (s *Step) uncharted() *fault.Error {
	switch {
	case s.Unpulled != nil:
		return fault.Classify(fmt.Errorf("%w; the charts stay as they are installed, and definitions are applied", s.Unpulled))
	case s.Unkept != nil:
		return fault.Classify(fmt.Errorf("%w; what the charts made is left as it is, and definitions are applied", s.Unkept))
	}
	return nil
}

// holds says that the guard, or a lost status, holds something.
func (s *Step) holds() bool { return len(s.Held)+len(heldRemovals(s.Sync.Status.Removals)) > 0 }

// withCharts puts the refusal of the charts before a verdict on something else: another
// commit may be needed for each. brief is what a commit status has of that verdict.
func (s *Step) withCharts(v Verdict, brief string) Verdict {
	charts := s.uncharted()
	if charts == nil {
		return v
	}
	return verdictOf(charts).and(v, brief)
}

// withHeld puts what is held behind a verdict on something else.
func (s *Step) withHeld(v Verdict) Verdict {
	if !s.holds() {
		return v
	}
	held := heldRemovals(s.Sync.Status.Removals)
	return v.and(s.heldVerdict(held), heldBrief(s.Held, held))
}

// withController says besides that Karpenter's controller does not run as it should: what is held
// or stalled would hide it, and it may be the cause.
func (s *Step) withController(v Verdict) Verdict {
	for _, stage := range s.Stages {
		if stage.Ready {
			continue
		}
		if stage.Name == render.StageController && stage.Message != "" && !strings.Contains(v.Message, stage.Message) {
			v.Message += "; Karpenter's controller: " + stage.Message
		}
		break // what comes after one that is not Ready was not looked at
	}
	return v
}

// and is two verdicts in one, the first of them first. The graver one gives class and
// reason. A commit status, which is short, has brief, which names the second one, before
// the words of the first; without one it has those of the graver.
func (v Verdict) and(second Verdict, brief string) Verdict {
	both := v
	if second.Class > v.Class {
		both = second
	}
	both.Message = v.Message + "; " + second.Message
	if brief != "" {
		both.Brief = v.Brief
		both.Brief.What = brief + "; " + v.Brief.What
	}
	return both
}
