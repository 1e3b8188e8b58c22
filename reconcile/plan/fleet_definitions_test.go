package plan_test

import "fmt"

// The kinds of change that the commit makes to NodePools, in turn.
const (
	narrowed         = iota // requirements that a third of the nodes do not match
	hashed                  // a field in the hash
	limited                 // no effect on nodes
	removesLastLimit        // wider budgets, for nodes that drifted before
	keptPrefix              // expireAfter, which is in the hash, too
	fleetChanges
)

func fleetPool(i int, changed bool) string {
	weight, limit, taints, categories, budget, expires := 1+i%100, 1000, "[]", "[c, m, r]", "10%", "720h"
	if changed {
		switch i % fleetChanges {
		case narrowed:
			categories = "[c, m]"
		case hashed:
			taints = "[{key: example.com/batch, effect: NoSchedule}]"
		case limited:
			limit, weight = 500, 1+weight%100
		case removesLastLimit:
			budget = "50%"
		case keptPrefix:
			expires = "48h"
		}
	}
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool-%04d}
spec:
  weight: %d
  limits: {cpu: "%d", memory: 4000Gi}
  template:
    metadata:
      labels: {team: data}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: class-%02d}
      taints: %s
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: %s}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b, us-east-1c]}
      expireAfter: %s
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 1m
    budgets: [{nodes: %q}, {nodes: "0", schedule: "0 9 * * mon-fri", duration: 1h}]
`, i, weight, limit, i%fleetClasses, taints, categories, expires, budget)
}

// fleetClassChanges is how many EC2NodeClasses the commit changes.
const fleetClassChanges = 3

// fleetClass changes fields in the hash, fields that AWS resolves, and in most classes nothing.
func fleetClass(i int, changed bool) string {
	data, alias, subnet := "hello", "al2023@v20250904", "prod"
	if changed {
		switch i {
		case 0:
			data = "world"
		case 1:
			alias = "al2023@v20251002"
		case 2:
			subnet = "other"
		}
	}
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: class-%02d}
spec:
  role: KarpenterNodeRole-prod
  userData: %s
  amiSelectorTerms: [{alias: %s}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: %s}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
  tags: {team: data}
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
`, i, data, alias, subnet)
}
