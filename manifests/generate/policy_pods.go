package main

import "strings"

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
			{"pod", "object.spec.template.spec"},
			{"containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"},
			// What an administrator has changed stays where plumbline does not change it.
			{"unchanged", "request.operation == 'UPDATE' && object.spec.template.spec == oldObject.spec.template.spec"},
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
			{"Karpenter's pods have no volumes of the node, and none with Secrets", held("variables.pod.?volumes.orValue([]).all(v, has(v.configMap) || has(v.downwardAPI) || has(v.emptyDir))")},
			{"Karpenter's containers run their own command, and speak to this cluster and to AWS", held(
				each("!has(c.command) && !has(c.args)"),
				each("c.?env.orValue([]).all(e, e.name != 'KUBECONFIG' && !e.name.startsWith('KUBERNETES_SERVICE_') && !e.name.startsWith('AWS_ENDPOINT_URL') && !e.name.startsWith('AWS_CONTAINER_'))"),
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
		},
	}
}
