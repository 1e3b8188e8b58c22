package allowance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// deploymentRule is what the spec of Karpenter's Deployment may be but for its pods. The API server's defaults are among it.
var deploymentRule = rule{fields: map[string]rule{
	"replicas": {}, "revisionHistoryLimit": {}, "strategy": {}, "progressDeadlineSeconds": {}, // number checks replicas and strategy
	"selector": {fields: map[string]rule{"matchLabels": {}}}, "template": {},
}}

// podRule is what the spec of Karpenter's pods may be. Package policy of pod-security-admission knows more of security
// contexts; here it is which fields there are.
var podRule = rule{fields: map[string]rule{
	"serviceAccountName": {oneOf: []string{account}, required: true}, "serviceAccount": {oneOf: []string{account}},
	"automountServiceAccountToken": {}, "enableServiceLinks": {}, "restartPolicy": {oneOf: []string{"Always"}},
	"securityContext": {level: true, opens: "podSecurityContext", fields: map[string]rule{
		"fsGroup": {}, "fsGroupChangePolicy": {}, "runAsNonRoot": {}, "runAsUser": {}, "runAsGroup": {}, "supplementalGroups": {},
		"seccompProfile": {fields: map[string]rule{"type": {}}},
	}},
	"hostNetwork": {level: true, oneOf: []string{"false"}}, "hostPID": {level: true, oneOf: []string{"false"}}, "hostIPC": {level: true, oneOf: []string{"false"}},
	"priorityClassName": {}, "terminationGracePeriodSeconds": {}, "schedulerName": {},
	"dnsPolicy":    {oneOf: []string{"ClusterFirst", "ClusterFirstWithHostNet", "Default"}, opens: "dnsPolicy"},
	"dnsConfig":    {fields: map[string]rule{"options": {}}, opens: "dnsConfig"},
	"hostAliases":  {empty: true, opens: "dnsConfig"},
	"nodeSelector": {}, "tolerations": {}, "topologySpreadConstraints": {},
	"affinity":         {fields: map[string]rule{"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}}, // placed checks nodeAffinity
	"imagePullSecrets": {empty: true, opens: "imagePullSecrets"},
	"volumes":          {empty: true, opens: "extraVolumes"},
	"initContainers":   {empty: true, opens: "initContainers"},
	"containers":       {first: &containerRule, required: true},
}}

// probeRule is a request to the container's own port: the kubelet, which is in the node's network, would ask any host.
var probeRule = rule{fields: map[string]rule{
	"httpGet":             {required: true, fields: map[string]rule{"path": {}, "port": {}, "scheme": {}}},
	"initialDelaySeconds": {}, "timeoutSeconds": {}, "periodSeconds": {}, "successThreshold": {}, "failureThreshold": {}, "terminationGracePeriodSeconds": {},
}}

// amountsRule are amounts of what every node has, and no devices.
func amountsRule(opens string) rule {
	return rule{opens: opens, fields: map[string]rule{"cpu": {}, "memory": {}, "ephemeral-storage": {}}}
}

// containerRule is what the controller's container may be. Its image and its variables have rules of their own.
var containerRule = rule{fields: map[string]rule{
	"name": {}, "image": {required: true}, "imagePullPolicy": {}, "resizePolicy": {}, "env": {},
	"ports": {each: &rule{fields: map[string]rule{
		"name": {}, "containerPort": {}, "protocol": {}, "hostPort": {level: true, oneOf: []string{"0"}},
	}}},
	"livenessProbe": probeRule, "readinessProbe": probeRule, "startupProbe": probeRule,
	"resources": {fields: map[string]rule{
		"limits": amountsRule("controller.resources.limits"), "requests": amountsRule("controller.resources.requests"),
	}},
	"terminationMessagePath": {oneOf: []string{messages}}, "terminationMessagePolicy": {oneOf: []string{"File"}},
	"envFrom":      {empty: true, opens: "controller.envFrom"},
	"volumeMounts": {empty: true, opens: "controller.extraVolumeMounts"}, "volumeDevices": {empty: true, opens: "controller.extraVolumeMounts"},
	"securityContext": {level: true, opens: "controller.securityContext", fields: map[string]rule{
		"allowPrivilegeEscalation": {}, "privileged": {}, "readOnlyRootFilesystem": {}, "runAsNonRoot": {}, "runAsUser": {}, "runAsGroup": {},
		"capabilities":   {fields: map[string]rule{"add": {}, "drop": {}}},
		"seccompProfile": {fields: map[string]rule{"type": {}}},
	}},
}}

// rules holds the Deployment to its rules.
func (c *check) rules() {
	spec, _ := c.object.Object["spec"].(map[string]any)
	c.shaped(deploymentRule, "spec", spec)
	template, _ := spec["template"].(map[string]any)
	c.shaped(podRule, "spec.template.spec", template["spec"])
}

// plain is a value that leads nowhere: what a variable may be that no known release of Karpenter has.
var plain = pattern("true, false, a number or a duration", `true|false|[0-9]{1,15}(\.[0-9]{1,15})?(ns|us|ms|s|m|h)?`)

// variableShape is what a variable of the controller may be; false if no known release has it.
func (c Charted) variableShape(name string) (shape, bool) {
	if wants, isOpen := open[variableAt(name)]; isOpen {
		return wants, true
	}
	return known, name == awsFeatureGates || slices.Contains(c.Variables, name)
}

// Expression is one condition on what plumbline writes: a sentence that says what holds, and the same in CEL. It is not asked where
// Unless holds: what an administrator has changed stays where plumbline does not change it.
type Expression struct{ Message, CEL, Unless string }

// PodExpressions are the rules for Karpenter's Deployment in CEL. The variables pod (the spec of its pods), images (the repositories of
// Karpenter's image) and allowed (values of the chart that a NodeSync may allow) are those of the policy.
func PodExpressions() []Expression {
	const container = "variables.pod.containers[0]"
	const update, unchanged = "request.operation == 'UPDATE' && ", "variables.unchanged"
	return []Expression{
		{
			"Karpenter's Deployment has no fields but those that its charts have, and is not paused", deploymentRule.expression("object.spec", 0),
			update + "object.spec.all(f, f == 'template' || (f in oldObject.spec && object.spec[f] == oldObject.spec[f]))",
		},
		{
			"Karpenter's pods have labels and annotations, and nothing else in their metadata", "object.spec.template.?metadata.orValue({}).all(f, f in ['labels', 'annotations', 'creationTimestamp'])",
			update + "object.spec.template.?metadata == oldObject.spec.template.?metadata",
		},
		{
			fmt.Sprintf("Karpenter's Deployment has 1 to %d replicas", mostReplicas),
			fmt.Sprintf("%s || (object.spec.?replicas.orValue(1) >= 1 && object.spec.?replicas.orValue(1) <= %d)", opened("replicas"), mostReplicas),
			update + "object.spec.?replicas == oldObject.spec.?replicas",
		},
		{
			fmt.Sprintf("an update of Karpenter's Deployment makes at most %d more replicas", mostReplicas),
			fmt.Sprintf("%s || string(object.spec.?strategy.?rollingUpdate.?maxSurge.orValue(0)).matches(r'^([0-9]|%d|[0-9]{1,2}%%|100%%)$')", opened("strategy"), mostReplicas),
			update + "object.spec.?strategy == oldObject.spec.?strategy",
		},
		{"Karpenter's pods have no fields but those of its charts, and values that the policy's variable allowed does not list", podRule.expression("variables.pod", 0), unchanged},
		{"Karpenter's pods have one container", opened("controller.sidecarContainer") + " || variables.pod.containers.size() == 1", unchanged},
		{
			"Karpenter's container runs Karpenter's image, by tag", opened("controller.image") + " || (variables.images.exists(i, " + container + ".image.startsWith(i + ':')) && " +
				container + `.image.matches(r'^[^@]+:[A-Za-z0-9._-]+(@sha256:[0-9a-f]{64})?$'))`, unchanged,
		},
		{"Karpenter's variables are those of its charts, and lead to this cluster and to AWS", container + ".?env.orValue([]).all(e, " + variableExpression("e") + ")", unchanged},
		{
			"Karpenter's pods stay off the nodes that Karpenter makes", opened("affinity.nodeAffinity") +
				" || [variables.pod.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])].all(terms, terms.size() > 0 && terms.all(t, " +
				"t.?matchExpressions.orValue([]).exists(r, r.key == 'karpenter.sh/nodepool' && r.operator == 'DoesNotExist')))", unchanged,
		},
	}
}

// VariablePatterns are regular expressions for all of the value of each variable of the controller that a known release has, by name.
func VariablePatterns() map[string]string {
	patterns := map[string]string{awsFeatureGates: known.expression}
	for _, name := range FromCharts().Variables {
		patterns[name] = known.expression
	}
	for at, wants := range open {
		if name, is := strings.CutPrefix(at, environment+"["); is {
			patterns[strings.TrimSuffix(name, "]")] = wants.expression
		}
	}
	return patterns
}

// CELPatterns are VariablePatterns as a map of CEL.
func CELPatterns() string {
	patterns := VariablePatterns()
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		entries = append(entries, fmt.Sprintf("'%s': r'^(?:%s)$'", name, patterns[name]))
	}
	return "{" + strings.Join(entries, ",\n        ") + "}"
}

// variableExpression is unlike in CEL, about the variable e. The policy's variable patterns is CELPatterns.
func variableExpression(e string) string {
	value := e + ".?value.orValue('')"
	leads := fmt.Sprintf("%s.exists(p, %[2]s.name.upperAscii().startsWith(p)) || %[2]s.name.upperAscii().endsWith('_PROXY')", celList(leading), e)
	from := fmt.Sprintf("%[1]s.all(f, f in ['fieldRef', 'resourceFieldRef']) && (!has(%[1]s.fieldRef) || %[1]s.fieldRef.fieldPath == '%[2]s')", e+".valueFrom", ownNamespace)
	return fmt.Sprintf("['*', 'controller', '%[1]s', '%[1]s[' + %[2]s.name + ']'].exists(p, p in variables.allowed) || ((%[2]s.name in variables.patterns || !(%[3]s)) && (has(%[2]s.valueFrom) ? (%[4]s) : "+
		"(%[5]s == '' || (%[2]s.name in variables.patterns ? %[5]s.matches(variables.patterns[%[2]s.name]) : %[5]s.matches(r'^(?:%[6]s)$')))))",
		environment, e, leads, from, value, plain.expression)
}
