package changes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// tellWritten says what was done, and whose edit was corrected.
func (s *Step) tellWritten() {
	byRef := map[render.Ref]plan.Change{}
	for _, c := range s.Plan.Changes {
		byRef[c.Ref] = c
	}
	var applied, warnings []string
	for _, w := range s.applied.Written {
		warnings = append(warnings, byRef[w.Ref].Warnings...)
		switch c := byRef[w.Ref]; {
		case c.Drift && c.Action == plan.Create:
			s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonDriftCorrected, fmt.Sprintf("%s was missing and is recreated", w.Ref))
		case c.Drift && c.Action == plan.Update, len(c.Editors) > 0:
			s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonDriftCorrected, fmt.Sprintf("%s: %s, edited by %s, is as Git says again", w.Ref, fieldPaths(c.Fields), editors(c.Editors)))
		default:
			applied = append(applied, fmt.Sprintf("%s: %s", w.Ref, c.Action))
		}
	}
	if len(applied) > 0 {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonApplied, finding.Some(applied))
	}
	if len(warnings) > 0 {
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonNodesDisrupted, finding.Some(warnings))
	}
}

func editors(managers []string) string {
	if len(managers) == 0 {
		return "another client"
	}
	return strings.Join(managers, ", ")
}

func fieldPaths(fields []plan.Field) string {
	if len(fields) == 0 {
		return "the object"
	}
	paths := make([]string, 0, len(fields))
	for _, f := range fields {
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, ", ")
}
