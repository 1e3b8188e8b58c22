package notify

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// Recovered is the reason of a Notice on the end of a trouble.
	Recovered = "Recovered"
	// RolledOut is the reason of one on a rollout that has finished.
	RolledOut = "RolledOut"
)

// Notice is one change of state.
type Notice struct {
	NodeSync types.NamespacedName
	// Cluster is the EKS cluster; empty while its name is not known.
	Cluster string
	// Subject is the condition that has changed.
	Subject string
	// Reason is the condition's, or Recovered or RolledOut. Of is the reason of the trouble that has
	// ended; empty where none has.
	Reason, Of string
	Severity   v1alpha1.NotifySeverity
	Message    string
	Revision   string
	// At is when it changed, and Since when the trouble began that it is about; zero where it is
	// about none.
	At, Since time.Time
}

// Trouble says that it needs a person.
func (n Notice) Trouble() bool { return n.Severity == v1alpha1.NotifyError }

// For says whether a receiver wants it. The end of a trouble goes to whom the trouble went.
func (n Notice) For(to v1alpha1.Notify) bool {
	if to.Severity == v1alpha1.NotifyError && !n.Trouble() && n.Of == "" {
		return false
	}
	return len(to.Reasons) == 0 || slices.Contains(to.Reasons, n.Reason) || n.Of != "" && slices.Contains(to.Reasons, n.Of)
}
