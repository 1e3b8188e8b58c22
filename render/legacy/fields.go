package legacy

import "strings"

// poolFields and classFields map the paths of fields of earlier versions to their place in v1. Sources: Karpenter's
// upgrade guide, sections 0.32 and 1.0; the conversion of karpenter 1.0.8, pkg/apis/v1beta1/nodepool_conversion.go.
var (
	poolFields = map[string]string{
		"spec.template.spec.nodeClassRef.apiVersion": "v1 has group: karpenter.k8s.aws instead of apiVersion",
		"spec.template.spec.kubelet":                 "v1 has it in the EC2NodeClass: move it to spec.kubelet there",
		"spec.disruption.expireAfter":                "v1 has it in the template: move it to spec.template.spec.expireAfter",
		"spec.kubeletConfiguration":                  "v1 has it in the EC2NodeClass: move it to spec.kubelet there",
		"spec.ttlSecondsAfterEmpty":                  "v1 has consolidationPolicy: WhenEmpty with consolidateAfter under spec.disruption",
		"spec.ttlSecondsUntilExpired":                "v1 has spec.template.spec.expireAfter, a duration",
		"spec.consolidation":                         "v1 has consolidationPolicy: WhenEmptyOrUnderutilized under spec.disruption",
		"spec.provider":                              "v1 has an EC2NodeClass, named by spec.template.spec.nodeClassRef",
		"spec.providerRef":                           "v1 has spec.template.spec.nodeClassRef (group, kind, name)",
		"spec.requirements":                          "v1 has it in the template: move it to spec.template.spec.requirements",
		"spec.taints":                                "v1 has it in the template: move it to spec.template.spec.taints",
		"spec.startupTaints":                         "v1 has it in the template: move it to spec.template.spec.startupTaints",
		"spec.labels":                                "v1 has it in the template: move it to spec.template.metadata.labels",
		"spec.annotations":                           "v1 has it in the template: move it to spec.template.metadata.annotations",
	}
	classFields = map[string]string{
		"spec.subnetSelector":        "v1 has spec.subnetSelectorTerms, a list: [{tags: {KEY: VALUE}}]",
		"spec.securityGroupSelector": "v1 has spec.securityGroupSelectorTerms, a list: [{tags: {KEY: VALUE}}]",
		"spec.amiSelector":           "v1 has spec.amiSelectorTerms, a list: [{id: ami-…}] or [{alias: al2023@VERSION}]",
		"spec.launchTemplate":        "Karpenter creates its own launch templates: describe the nodes in this EC2NodeClass instead",
		"spec.launchTemplateName":    "Karpenter creates its own launch templates: describe the nodes in this EC2NodeClass instead",
	}
)

// FieldNow returns where a field of an earlier version is in v1, if v1 does not have it. kind is that of v1, path as in
// spec.template.spec.kubelet; it is empty if no earlier version had the field there.
func FieldNow(kind, path string) string {
	fields := map[string]map[string]string{"NodePool": poolFields, "EC2NodeClass": classFields}[kind]
	for {
		if now, ok := fields[path]; ok {
			return now
		}
		end := strings.LastIndexByte(path, '.')
		if end < 0 {
			return ""
		}
		path = path[:end]
	}
}
