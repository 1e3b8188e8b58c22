package v1alpha1

// Reasons of events that are the reason of no condition.
const (
	// ReasonApplied is that of the one event on what a pass has written, and ReasonDeleted that of the one on a
	// deletion that is concluded: other parts go by them.
	ReasonApplied = "Applied"
	ReasonDeleted = "Deleted"
	// ReasonWarning is what a pass warns of, and does not refuse.
	ReasonWarning = "Warning"

	ReasonAllowsEverything       = "AllowsEverything"
	ReasonApproved               = "Approved"
	ReasonBrakeFailed            = "BrakeFailed"
	ReasonBraking                = "Braking"
	ReasonChartAdopted           = "ChartAdopted"
	ReasonChartInstalled         = "ChartInstalled"
	ReasonChartRepaired          = "ChartRepaired"
	ReasonChartRolledBack        = "ChartRolledBack"
	ReasonDiagnosisFailed        = "DiagnosisFailed"
	ReasonDriftCorrected         = "DriftCorrected"
	ReasonNodesDisrupted         = "NodesDisrupted"
	ReasonNodesLost              = "NodesLost"
	ReasonNodesOrphaned          = "NodesOrphaned"
	ReasonNotifyFailed           = "NotifyFailed"
	ReasonRecordLost             = "RecordLost"
	ReasonNotSimulated           = "NotSimulated"
	ReasonReleaseLost            = "ReleaseLost"
	ReasonReleaseUsed            = "ReleaseUsed"
	ReasonRemovalReverted        = "RemovalReverted"
	ReasonRemoved                = "Removed"
	ReasonReplicaMissing         = "ReplicaMissing"
	ReasonReportFailed           = "ReportFailed"
	ReasonRolledOut              = "RolledOut"
	ReasonStatusOlder            = "StatusOlder"
	ReasonStoredVersionsMigrated = "StoredVersionsMigrated"
	ReasonUnknownProviderID      = "UnknownProviderID"
	ReasonUntested               = "Untested"
	ReasonUpgradeForecast        = "UpgradeForecast"
)
