package v1alpha1

import "cmp"

// NewestAppliedRevision is the newest revision of which anything was written; empty where no
// revision was ever applied whole.
func (s NodeSyncStatus) NewestAppliedRevision() string {
	if s.LastAppliedRevision == "" {
		return ""
	}
	return cmp.Or(s.PartlyAppliedRevision, s.LastAppliedRevision)
}
