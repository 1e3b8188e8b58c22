package main

import (
	"strings"

	"github.com/plumbline-dev/plumbline/provision/allowance"
)

// podPolicy restricts Karpenter's Deployment to the rules of package allowance, and its pods to the restricted level of
// the Pod Security Standards (https://kubernetes.io/docs/concepts/security/pod-security-standards/). Charts before 1.6
// may set no seccomp profile.
func podPolicy() policy {
	// The expression must hold for every container c of variables.containers.
	each := func(expression string) string { return "variables.containers.all(c, " + expression + ")" }
	held := func(parts ...string) string { return "variables.unchanged || (" + strings.Join(parts, " && ") + ")" }
	const (
		pod       = "variables.pod.?securityContext"
		container = "c.?securityContext"
		older     = `variables.containers.all(c, c.image.matches(r'^[^:@]+:1[.][0-5][.]'))`
		profiles  = "['RuntimeDefault', 'Localhost']"
	)
	var rules []validation
	for _, e := range allowance.PodExpressions() {
		rules = append(rules, validation{e.Message, "(" + e.Unless + ") || (" + e.CEL + ")"})
	}
	return policy{
		Name:      "plumbline-charts-pods",
		Resources: []matched{{"apps", writes, "deployments"}},
		Variables: []variable{
			// Allowed images, without the tag.
			{"images", "['public.ecr.aws/karpenter/controller']"},
			// Values of the chart that NodeSyncs may allow (spec.charts.allow.values).
			{"allowed", "[]"},
			{"patterns", allowance.CELPatterns()},
			{"pod", "object.spec.template.spec"},
			{"containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"},
			// What an administrator has changed is accepted as long as plumbline does not change it.
			{"unchanged", "request.operation == 'UPDATE' && object.spec.template.spec == oldObject.spec.template.spec"},
			{"labels", "object.spec.template.?metadata.?labels.orValue({})"},
			{"labelsBefore", "request.operation == 'UPDATE' ? oldObject.spec.template.?metadata.?labels.orValue({}) : {}"},
			{"annotations", "object.spec.template.?metadata.?annotations.orValue({})"},
			{"annotationsBefore", "request.operation == 'UPDATE' ? oldObject.spec.template.?metadata.?annotations.orValue({}) : {}"},
		},
		Validations: append([]validation{
			{"plumbline must not write Deployments other than Karpenter's", "object.metadata.name == 'karpenter'"},
			{"Karpenter's pods must not use namespaces, ports or paths of the node", held(
				"!variables.pod.?hostNetwork.orValue(false)", "!variables.pod.?hostPID.orValue(false)", "!variables.pod.?hostIPC.orValue(false)",
				each("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
				"variables.pod.?volumes.orValue([]).all(v, v.all(f, f in ['name', 'configMap', 'csi', 'downwardAPI', 'emptyDir', 'ephemeral', 'persistentVolumeClaim', 'projected', 'secret']))",
			)},
			{"Karpenter's containers must not be privileged, or gain privileges", held(
				each(container+".?privileged.orValue(false) == false"), each(container+".?allowPrivilegeEscalation.orValue(true) == false"),
				each(container+".?windowsOptions.?hostProcess.orValue(false) == false"), pod+".?windowsOptions.?hostProcess.orValue(false) == false",
			)},
			{"Karpenter's containers must not run as root", held(
				each(container+".?runAsNonRoot.orValue("+pod+".?runAsNonRoot.orValue(false))"),
				each(container+".?runAsUser.orValue(1) != 0"), pod+".?runAsUser.orValue(1) != 0",
			)},
			{"Karpenter's containers must drop all capabilities", held(
				each("'ALL' in "+container+".?capabilities.?drop.orValue([])"), each(container+".?capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE')"),
			)},
			{"Karpenter's containers must be confined: no Unconfined seccomp or AppArmor profile, and no SELinux options, procMount or sysctls", held(
				"["+pod+".?seccompProfile.?type.orValue('')].all(p, (p == '' || p in "+profiles+") && "+
					each("["+container+".?seccompProfile.?type.orValue(p)].all(s, s in "+profiles+" || (s == '' && "+older+"))")+")",
				pod+".?appArmorProfile.?type.orValue('') != 'Unconfined'", each(container+".?appArmorProfile.?type.orValue('') != 'Unconfined'"),
				"!"+pod+".?seLinuxOptions.hasValue()", each("!"+container+".?seLinuxOptions.hasValue()"),
				each(container+".?procMount.orValue('Default') == 'Default'"), pod+".?sysctls.orValue([]).size() == 0",
			)},
			// Other programs act on labels: they inject containers, or assign roles.
			{"Karpenter's pods must not have labels other than those of its charts", "variables.labels.all(l, (l in ['app.kubernetes.io/name', 'app.kubernetes.io/instance'] && variables.labels[l] == 'karpenter') || " +
				"(l in variables.labelsBefore && variables.labelsBefore[l] == variables.labels[l]))"},
			{"Karpenter's pods must not have annotations other than those that its charts set or allow", "variables.annotations.all(a, a.startsWith('prometheus.io/') || a.startsWith('checksum/') || a.startsWith('karpenter.sh/') || " +
				"(a in variables.annotationsBefore && variables.annotationsBefore[a] == variables.annotations[a]))"},
		}, rules...),
	}
}
