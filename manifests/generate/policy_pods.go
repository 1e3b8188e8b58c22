package main

import (
	"strings"

	"github.com/plumbline-dev/plumbline/provision/allowance"
)

// podPolicy keeps Karpenter's pods within the restricted level of the Pod Security
// Standards (https://kubernetes.io/docs/concepts/security/pod-security-standards/), but
// that a seccomp profile may be missing: charts before 1.6 set none.
func podPolicy() policy {
	// Each holds for every container c of variables.containers.
	each := func(expression string) string { return "variables.containers.all(c, " + expression + ")" }
	held := func(parts ...string) string { return "variables.unchanged || (" + strings.Join(parts, " && ") + ")" }
	const (
		pod       = "variables.pod.?securityContext"
		container = "c.?securityContext"
	)
	return policy{
		Name:      "plumbline-charts-pods",
		Resources: []matched{{"apps", writes, "deployments"}},
		Variables: []variable{
			// Of these images, by tag or digest.
			{"images", "['public.ecr.aws/karpenter/controller']"},
			// Of all that begin with AWS_, those that lead to no other host and name no identity.
			{"aws", quoted(allowance.OpenVariables("AWS_"))},
			{"pod", "object.spec.template.spec"},
			{"containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"},
			// What an administrator has changed stays where plumbline does not change it.
			{"unchanged", "request.operation == 'UPDATE' && object.spec.template.spec == oldObject.spec.template.spec"},
			{"labels", "object.spec.template.?metadata.?labels.orValue({})"},
			{"labelsBefore", "request.operation == 'UPDATE' ? oldObject.spec.template.?metadata.?labels.orValue({}) : {}"},
			{"annotations", "object.spec.template.?metadata.?annotations.orValue({})"},
			{"annotationsBefore", "request.operation == 'UPDATE' ? oldObject.spec.template.?metadata.?annotations.orValue({}) : {}"},
		},
		Validations: []validation{
			{"plumbline writes no Deployment but Karpenter's", "object.metadata.name == 'karpenter'"},
			{"Karpenter's pods run under its own ServiceAccount", held("variables.pod.?serviceAccountName.orValue('') == 'karpenter'")},
			{"Karpenter's pods run Karpenter's image", held(each("variables.images.exists(i, c.image.startsWith(i + ':') || c.image.startsWith(i + '@'))"))},
			{"Karpenter's pods share nothing with the node", held(
				"!variables.pod.?hostNetwork.orValue(false)", "!variables.pod.?hostPID.orValue(false)", "!variables.pod.?hostIPC.orValue(false)",
				each("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
			)},
			// A Secret could be a kubeconfig: it would lead Karpenter, with its token, elsewhere.
			// What the downward API writes of a pod's annotations may be a kubeconfig, too.
			{"Karpenter's pods have no volumes of the node, and none with Secrets", held("variables.pod.?volumes.orValue([]).all(v, has(v.configMap) || has(v.emptyDir))")},
			{"Karpenter's containers run their own command", held(
				each("!has(c.command) && !has(c.args) && !has(c.lifecycle)"),
				each("[c.?livenessProbe, c.?readinessProbe, c.?startupProbe].all(p, !p.?exec.hasValue() && p.?httpGet.?host.orValue('') == '' && p.?tcpSocket.?host.orValue('') == '')"),
			)},
			{"Karpenter's containers speak to this cluster and to AWS", held(
				each("c.?env.orValue([]).all(e, !(e.name.upperAscii() in ['KUBECONFIG', 'HOME', 'GODEBUG']) && !e.name.upperAscii().startsWith('KUBERNETES_SERVICE_') && " +
					"!e.name.upperAscii().startsWith('SSL_CERT_') && (!e.name.upperAscii().startsWith('AWS_') || e.name in variables.aws))"),
			)},
			{"Karpenter's containers are not privileged and gain no privileges", held(
				each(container+".?privileged.orValue(false) == false"), each(container+".?allowPrivilegeEscalation.orValue(true) == false"),
				each(container+".?windowsOptions.?hostProcess.orValue(false) == false"), pod+".?windowsOptions.?hostProcess.orValue(false) == false",
			)},
			{"Karpenter's containers are not root", held(
				each(container+".?runAsNonRoot.orValue("+pod+".?runAsNonRoot.orValue(false))"),
				each(container+".?runAsUser.orValue(1) != 0"), pod+".?runAsUser.orValue(1) != 0",
			)},
			{"Karpenter's containers have no capabilities", held(
				each("'ALL' in "+container+".?capabilities.?drop.orValue([])"), each(container+".?capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE')"),
			)},
			{"Karpenter's containers are confined", held(
				pod+".?seccompProfile.?type.orValue('') != 'Unconfined'", each(container+".?seccompProfile.?type.orValue('') != 'Unconfined'"),
				pod+".?appArmorProfile.?type.orValue('') != 'Unconfined'", each(container+".?appArmorProfile.?type.orValue('') != 'Unconfined'"),
				"!"+pod+".?seLinuxOptions.hasValue()", each("!"+container+".?seLinuxOptions.hasValue()"),
				each(container+".?procMount.orValue('Default') == 'Default'"), pod+".?sysctls.orValue([]).size() == 0",
			)},
			// Other programs act on them: they inject containers, or give roles.
			{"Karpenter's pods have no labels but those of its charts", "variables.labels.all(l, (l in ['app.kubernetes.io/name', 'app.kubernetes.io/instance'] && variables.labels[l] == 'karpenter') || " +
				"(l in variables.labelsBefore && variables.labelsBefore[l] == variables.labels[l]))"},
			{"Karpenter's pods have no annotations but those that its charts have, or may have", "variables.annotations.all(a, a.startsWith('prometheus.io/') || a.startsWith('checksum/') || a.startsWith('karpenter.sh/') || " +
				"(a in variables.annotationsBefore && variables.annotationsBefore[a] == variables.annotations[a]))"},
		},
	}
}
