package v1alpha1

import "time"

// The times that hold where a NodeSync names none.
const (
	defaultTimeout    = 2 * time.Minute
	defaultStallAfter = 15 * time.Minute
)

// GetTimeout is how long one fetch, one chart pull or one exchange with a Git host may take.
func (n *NodeSync) GetTimeout() time.Duration {
	if n.Spec.Timeout == nil {
		return defaultTimeout
	}
	return n.Spec.Timeout.Duration
}

// GetRetryInterval is the time until what went wrong is tried again; the interval
// where none is named.
func (n *NodeSync) GetRetryInterval() time.Duration {
	if n.Spec.RetryInterval == nil {
		return n.Spec.Interval.Duration
	}
	return n.Spec.RetryInterval.Duration
}

// GetStallAfter is how long something may make no progress until it counts as stalled.
func (n *NodeSync) GetStallAfter() time.Duration {
	if n.Spec.Removal.StallAfter == nil {
		return defaultStallAfter
	}
	return n.Spec.Removal.StallAfter.Duration
}
