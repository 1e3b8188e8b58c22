package review_test

import "fmt"

// change is a change in Git, and the number of affected nodes.
type change struct {
	name, file, from, to string
	// nodes is the exact predicted number.
	nodes int
}

// some is a number of nodes that depends on where Karpenter has launched them.
const some = -1

// The nodes of one pool, or of the pools of one class.
const (
	ofArm, ofSpot, ofZones, ofPlain = 6, 8, 9, 7
	ofOne, ofTwo                    = ofArm + ofSpot, ofZones + ofPlain
)

// changes returns changes that people make, by field.
func changes() []change {
	pool := func(name, from, to string, nodes int) change {
		return change{name, "pools.yaml", from, to, nodes}
	}
	class := func(name, from, to string, nodes int) change {
		return change{name, "classes.yaml", from, to, nodes}
	}
	const (
		armLabels  = "labels: {pool-of: arm}"
		spotClass  = "name: one}\n      requirements:\n        - {key: kubernetes.io/arch, operator: In, values: [amd64]}"
		zones      = "values: [eu-west-1a, eu-west-1b, eu-west-1c]}"
		plainClass = "labels: {pool-of: plain}\n    spec:\n"
		twoRole    = "metadata: {name: two}\nspec:\n"
	)
	return []change{
		pool("template label", armLabels, "labels: {pool-of: arm, more: x}", ofArm),
		pool("template annotation", armLabels, armLabels+"\n      annotations: {more: x}", ofArm),
		pool("taint", plainClass, plainClass+"      taints: [{key: k, effect: PreferNoSchedule}]\n", ofPlain),
		pool("startup taint", plainClass, plainClass+"      startupTaints: [{key: k, effect: PreferNoSchedule}]\n", ofPlain),
		pool("expireAfter", "expireAfter: 720h", "expireAfter: 800h", ofArm),
		pool("expireAfter, written in another way", "expireAfter: 720h", "expireAfter: 43200m", 0),
		pool("terminationGracePeriod", plainClass, plainClass+"      terminationGracePeriod: 1h\n", ofPlain),
		pool("another class", spotClass, "name: two}\n      requirements:\n        - {key: kubernetes.io/arch, operator: In, values: [amd64]}", ofSpot),
		pool("a zone less", zones, "values: [eu-west-1a, eu-west-1b]}", 3),
		pool("two zones less", zones, "values: [eu-west-1c]}", 6),
		pool("not in a zone", "operator: In, "+zones, "operator: NotIn, values: [eu-west-1b]}", 3),
		pool("zones in another order", zones, "values: [eu-west-1c, eu-west-1a, eu-west-1b]}", 0),
		pool("no zone at all", "        - {key: topology.kubernetes.io/zone, operator: In, "+zones+"\n", "", 0),
		pool("a capacity type that no node has", "values: [on-demand]}\n        - {key: topology", "values: [reserved]}\n        - {key: topology", ofZones),
		pool("a capacity type more", "values: [on-demand]}\n        - {key: topology", "values: [spot, on-demand]}\n        - {key: topology", 0),
		pool("newer generations", `operator: Gt, values: ["2"]`, `operator: Gt, values: ["99"]`, ofArm),
		pool("minValues", `operator: Gt, values: ["2"]`, `operator: Gt, values: ["2"], minValues: 1`, 0),
		pool("a label of its own", `        - {key: karpenter.k8s.aws/instance-generation`, "        - {key: example.com/kind, operator: In, values: [x]}\n        - {key: karpenter.k8s.aws/instance-generation", ofArm),
		pool("limits", `limits: {cpu: "1000"}`, `limits: {cpu: "1"}`, 0),
		pool("limits, written in another way", `limits: {cpu: "1000"}`, `limits: {cpu: 1000000m}`, 0),
		pool("weight", "weight: 10", "weight: 90", 0),
		pool("consolidation", "consolidateAfter: 1h", "consolidateAfter: 2h", 0),
		pool("label of the pool itself", "metadata: {name: plain}", "metadata: {name: plain, labels: {more: x}}", 0),
		class("tags", "tags: {team: one}", "tags: {team: other}", ofOne),
		class("volume size", "volumeSize: 20Gi", "volumeSize: 30Gi", ofOne),
		class("volume, unencrypted", "encrypted: true", "encrypted: false", ofOne),
		class("kubelet, maxPods", "kubelet:\n", "kubelet:\n    maxPods: 50\n", ofOne),
		class("kubelet, reserved", "systemReserved: {cpu: 100m}", "systemReserved: {cpu: 200m}", ofOne),
		class("kubelet, written in another way", "systemReserved: {cpu: 100m}", `systemReserved: {cpu: "0.1"}`, ofOne),
		class("user data", twoRole, twoRole+"  userData: |\n    #!/bin/sh\n    true\n", ofTwo),
		class("metadata options", twoRole, twoRole+"  metadataOptions: {httpTokens: optional, httpPutResponseHopLimit: 2}\n", ofTwo),
		class("detailed monitoring", twoRole, twoRole+"  detailedMonitoring: true\n", ofTwo),
		class("a public address", twoRole, twoRole+"  associatePublicIPAddress: false\n", ofTwo),
		class("instance store", twoRole, twoRole+"  instanceStorePolicy: RAID0\n", ofTwo),
		class("label of the class itself", "metadata: {name: two}", "metadata: {name: two, labels: {more: x}}", 0),
	}
}

// selectors returns changes whose result AWS decides.
func selectors() []change {
	const (
		groups = "  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]\n"
		first  = "metadata: {name: one}\nspec:\n  role: KarpenterNodeRole-sandbox\n  amiSelectorTerms: "
		second = "metadata: {name: two}\nspec:\n  role: KarpenterNodeRole-sandbox\n  amiSelectorTerms: "
		alias  = "[{alias: al2023@latest}]"
		nets   = "\n  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]\n"
	)
	one := func(name, terms string, nodes int) change {
		return change{name, "classes.yaml", first + alias, first + terms, nodes}
	}
	two := func(name, subnets, groupsTo string, nodes int) change {
		return change{name, "classes.yaml", second + alias + nets + groups, second + alias + "\n" + subnets + groupsTo, nodes}
	}
	ids := func(amd64, arm64 string) string {
		return fmt.Sprintf("[{id: %s}, {id: %s}]\n  amiFamily: AL2023", ami("x86_64", amd64), ami("arm64", arm64))
	}
	subnets := func(terms string) string { return "  subnetSelectorTerms: [" + terms + "]\n" }
	return []change{
		one("another family of images", "[{alias: bottlerocket@latest}]", ofOne),
		one("an older AMI", "[{alias: al2023@"+olderRelease+"}]", ofOne),
		one("the same AMI, pinned", "[{alias: al2023@"+newerRelease+"}]", 0),
		one("the same AMIs by ID", ids(newerRelease, newerRelease), 0),
		one("an older AMI of one architecture", ids(newerRelease, olderRelease), some),
		one("an older AMI of the other", ids(olderRelease, newerRelease), some),
		one("AMIs by name", "[{name: amazon-eks-node-al2023-*-standard-1.36-"+olderRelease+"}]\n  amiFamily: AL2023", ofOne),
		one("the newest of AMIs by name", "[{name: amazon-eks-node-al2023-*-standard-1.36-*}]\n  amiFamily: AL2023", 0),
		one("AMIs by name, of an owner", "[{name: amazon-eks-node-al2023-*-standard-1.36-"+newerRelease+", owner: amazon}]\n  amiFamily: AL2023", 0),
		two("the same subnets by more tags", subnets("{tags: {karpenter.sh/discovery: sandbox, Name: none}}, {tags: {karpenter.sh/discovery: sandbox}}"), groups, 0),
		two("the same subnets by a wildcard", subnets(`{tags: {karpenter.sh/discovery: "*"}}`), groups, 0),
		two("the subnets of two zones", subnets("{tags: {Name: sandbox-eu-west-1a}}, {tags: {Name: sandbox-eu-west-1b}}"), groups, some),
		two("another group", nets[1:], "  securityGroupSelectorTerms: [{name: default}]\n", ofTwo),
		two("a group more", nets[1:], "  securityGroupSelectorTerms: [{name: default}, {tags: {karpenter.sh/discovery: sandbox}}]\n", ofTwo),
		two("the same group by name", nets[1:], "  securityGroupSelectorTerms: [{name: eks-cluster-sg-sandbox}]\n", 0),
	}
}
