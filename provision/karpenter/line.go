package karpenter

import "github.com/Masterminds/semver/v3"

// line is a run of versions within which any one may be upgraded to any later
// one. From one line to the next no line may be skipped.
type line struct {
	// least is its first version.
	least string
	// leave is the first version from which the next line may be entered.
	leave string
	// stop is the version to stop at on the way through.
	stop string
	// before is what has to be done before the line is entered.
	before []string
}

// lines are the gates of upstream's guides: KPA website/content/en/docs/upgrading/
// upgrade-guide.md at 1.14.1, and website/content/en/v1.0/upgrading/v1beta1-migration.md
// and v1-migration.md next to it, which name the patches to stop at.
var lines = []line{
	{least: "0.0.0", leave: "0.0.0", stop: "0.31.4"},
	{
		least: "0.32.0", leave: "0.32.0", stop: "0.32.10",
		before: []string{
			"from a version other than 0.31.4 there is no way back from 0.32: go to 0.31.4 first",
			"apply the CRDs nodepools, nodeclaims and ec2nodeclasses of this version beside the old ones",
		},
	},
	{
		least: "0.33.0", leave: "0.33.0", stop: "0.37.7",
		before: []string{
			"every Provisioner, Machine and AWSNodeTemplate is rewritten as NodePool, NodeClaim and EC2NodeClass, v1beta1, and gone",
			"pods select nodes by karpenter.sh/nodepool, and no longer by karpenter.sh/provisioner-name",
		},
	},
	{
		least: "1.0.0", leave: "1.0.6", stop: "1.0.14",
		before: []string{
			"the way back ends at the patches that know v1: be at 0.33.12, 0.34.13, 0.35.12, 0.36.9 or 0.37.7 first, CRDs too",
			"webhooks are on, and the API server reaches them: they convert v1beta1",
			"every EC2NodeClass has amiSelectorTerms; amiFamily Ubuntu is gone; amiFamily Custom registers with the taint karpenter.sh/unregistered:NoExecute",
			"no NodeClaim is past its expiry: from 1.0 an expired node is drained at once, without a replacement first",
		},
	},
	{
		least: "1.1.0", leave: "1.1.0", stop: newest,
		before: []string{
			"status.storedVersions of no CRD lists v1beta1: each object is rewritten as v1",
			"definitions are v1, with nodeClassRef.group and nodeClassRef.kind in each",
			"kubelet settings are in the EC2NodeClasses, and the annotation compatibility.karpenter.sh/v1beta1-kubelet-conversion is gone from the NodePools",
		},
	},
}

// lineOf returns the index of a version's line.
func lineOf(v *semver.Version) int {
	for i := len(lines) - 1; i > 0; i-- {
		if !v.LessThan(semver.MustParse(lines[i].least)) {
			return i
		}
	}
	return 0
}
