package upgrade

import (
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// Want is what Git says.
type Want struct {
	// Version of both charts.
	Version string
	// Identity is a fingerprint of both charts and their values.
	Identity string
	// Charts are what Version was resolved to.
	Charts *v1alpha1.ResolvedCharts
}

// Seen is what a pass has seen and done so far.
type Seen struct {
	// Checked says that nothing forbids the change.
	Checked bool
	// NoWayBack is why the controller could not go back once the CRDs are new;
	// empty where it can. Approved says that a person has accepted that.
	NoWayBack string
	Approved  bool
	// ExpectedPools are the NodePools whose nodes the change may have Karpenter replace.
	ExpectedPools []string
	// Claims are the NodeClaims that live, as Check and RollBack have found them.
	Claims []observe.Claim
	// Migrated says that the new CRDs lose no stored version.
	Migrated bool
	// CRDs and Controller are the releases that this pass has installed.
	CRDs, Controller *v1alpha1.ReleaseStatus
	// Established says whether every CRD is served.
	Established observe.Readiness
	// Rollout says whether the controller of the version is up and leads. Where it is
	// overdue, and was asked, one replica that leads is enough, and the message names
	// the one that is missing.
	Rollout observe.Readiness
	// Cause is what the pods say of why they do not come up.
	Cause string
	// Searched says that Helm's history was asked for a release to go back to, and Earlier is
	// that; nil where there is none.
	Searched bool
	Earlier  *v1alpha1.ReleaseStatus
	// RolledBack is the release that this pass has gone back to.
	RolledBack *v1alpha1.ReleaseStatus
	// Lost says that there is no such release to go back to any more: a user has
	// uninstalled it.
	Lost bool
	// Again says that a person wants what failed to be tried once more.
	Again bool
}
