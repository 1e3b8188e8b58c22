package queue

import (
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Subject is what a commit status is about. Each has a context, and a ledger, of its own: what
// waits for one keeps no other.
type Subject string

// The subjects.
const (
	// Whole is what becomes of a commit, until its nodes match.
	Whole Subject = ""
	// Applied is whether all of it is applied: for pipelines that wait for nothing else.
	Applied Subject = "applied"
	// Drift is what differs from it in the cluster by no commit.
	Drift Subject = "drift"
	// Plan is what open pull requests would do, each on its head.
	Plan Subject = "plan"
)

// subjects are all of them.
func subjects() []Subject { return []Subject{Whole, Applied, Drift, Plan} }

// Of is the context of a subject, from that of the whole.
func (s Subject) Of(context string) string {
	if s == Whole || context == "" {
		return context
	}
	return context + "/" + string(s)
}

// names says whether a context is of the subject: plumbline/<cluster>/<name>, and what Of adds.
func (s Subject) names(context string) bool {
	const parts = 4
	if words := strings.SplitN(context, "/", parts); len(words) == parts {
		return words[parts-1] == string(s)
	}
	return s == Whole
}

// of are those of a list of statuses that are on the subject.
func (s Subject) of(reported []v1alpha1.Reported) []v1alpha1.Reported {
	var found []v1alpha1.Reported
	for _, r := range reported {
		if s.names(r.Context) {
			found = append(found, r)
		}
	}
	return found
}

// ObjectName is the name of the ConfigMap that holds the ledger of a NodeSync on the subject.
// No record of removals can have it: those begin with "plumbline-".
func (s Subject) ObjectName(nodeSync string) string {
	if s == Whole {
		return v1alpha1.ObjectName("plumbline.reports-", nodeSync)
	}
	return v1alpha1.ObjectName("plumbline.reports."+string(s)+"-", nodeSync)
}
