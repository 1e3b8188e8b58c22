package allowance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// deployment checks the pods of the Deployment.
func (c *check) deployment() error {
	var deployment appsv1.Deployment
	if err := c.decode(&deployment); err != nil {
		return err
	}
	before := len(c.found)
	c.number(&deployment.Spec)
	if deployment.Spec.Paused {
		c.refuse("is paused, so that no change of it is ever rolled out")
	}
	template := &deployment.Spec.Template
	c.standard(&template.ObjectMeta, &template.Spec)
	c.identity(&template.Spec)
	c.placed(&template.Spec)
	if len(template.Spec.Containers) > 0 {
		c.container(&template.Spec.Containers[0])
	}
	if len(c.found) == before { // otherwise the specific checks have better messages
		c.rules()
	}
	return nil
}

// maxReplicas limits the pods that a commit may request: each takes space on nodes that others need, and all but one
// of them only wait.
const maxReplicas = 10

// messages is the file in which a container may leave a message: the kubelet copies its content into the status of the
// pod, which more people may read than the file.
const messages = "/dev/termination-log"

// number checks the number of pods.
func (c *check) number(spec *appsv1.DeploymentSpec) {
	if spec.Replicas != nil && *spec.Replicas > maxReplicas {
		c.unless("replicas", fmt.Sprintf("has %d replicas, and %d are the most", *spec.Replicas, maxReplicas))
	}
	if spec.Replicas != nil && *spec.Replicas < 1 {
		c.unless("replicas", "has no replica, so that no NodeSync gets nodes")
	}
	if update := spec.Strategy.RollingUpdate; update != nil && update.MaxSurge != nil {
		if surge, err := intstr.GetScaledValueFromIntOrPercent(update.MaxSurge, maxReplicas, true); err != nil || surge > maxReplicas {
			c.unless("strategy", fmt.Sprintf("has more than %d replicas at an update", maxReplicas))
		}
	}
}

// levels are those of the library.
var levels = map[Level]api.Level{
	"": api.LevelRestricted, Restricted: api.LevelRestricted, Baseline: api.LevelBaseline, Privileged: api.LevelPrivileged,
}

// seccompSince is the first version of charts whose pods set a seccomp profile. Earlier ones meet the rest of the
// restricted level.
const seccompSince = "1.6.0"

const seccompCheck policy.CheckID = "seccompProfile_restricted"

// standard checks the pods against the Pod Security Standard.
func (c *check) standard(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	results := c.evaluate(meta, spec, levels[c.allowance.PodSecurity])
	if len(results) == 0 {
		return
	}
	needs := Privileged
	if len(c.evaluate(meta, spec, api.LevelBaseline)) == 0 {
		needs = Baseline
	}
	c.found = append(c.found, Refusal{
		What: c.name(), Why: "makes pods beyond the level of the Pod Security Standards: " + strings.Join(results, ", "),
		Field: fieldPodSecurity, Entry: string(needs),
	})
}

// evaluate describes what violates a level.
func (c *check) evaluate(meta *metav1.ObjectMeta, spec *corev1.PodSpec, level api.Level) []string {
	checks := policy.DefaultChecks()
	if version, err := semver.NewVersion(c.rendered.Version); err == nil && version.LessThan(semver.MustParse(seccompSince)) {
		checks = slices.DeleteFunc(checks, func(one policy.Check) bool { return one.ID == seccompCheck })
	}
	evaluator, err := policy.NewEvaluator(checks, nil)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, meta, spec) {
		if !result.Allowed {
			found = append(found, result.ForbiddenReason)
		}
	}
	return found
}

// identity checks that a pod has its own account and one container, and uses no other objects.
func (c *check) identity(spec *corev1.PodSpec) {
	if spec.ServiceAccountName != account || spec.DeprecatedServiceAccount != "" && spec.DeprecatedServiceAccount != account {
		c.refuse("runs under another ServiceAccount than %s", account)
	}
	if len(spec.InitContainers) > 0 {
		c.unless("initContainers", whyOthers)
	}
	if len(spec.Containers) != 1 {
		c.unless("controller.sidecarContainer", whyOthers)
	}
	if len(spec.Volumes) > 0 {
		c.unless("extraVolumes", whyVolumes)
	}
	if len(spec.ImagePullSecrets) > 0 {
		c.unless("imagePullSecrets", "uses credentials of the namespace")
	}
	if len(spec.ResourceClaims) > 0 {
		c.refuse("claims devices of the node")
	}
	if spec.RuntimeClassName != nil {
		c.refuse("runs under another runtime")
	}
}

// placed checks that it does not run on a node whose userData a commit may write, and uses no other hosts or name
// servers.
func (c *check) placed(spec *corev1.PodSpec) {
	if !offOwnNodes(spec.Affinity) {
		c.unless("affinity.nodeAffinity", closed["affinity.nodeAffinity"].why)
	}
	if spec.NodeName != "" {
		c.refuse("names the node that it runs on")
	}
	if spec.DNSConfig != nil && (len(spec.DNSConfig.Nameservers) > 0 || len(spec.DNSConfig.Searches) > 0) || len(spec.HostAliases) > 0 {
		c.unless("dnsConfig", closed["dnsConfig"].why)
	}
}

// offOwnNodes reports whether each term of the required node affinity excludes nodes that Karpenter manages.
func offOwnNodes(affinity *corev1.Affinity) bool {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == "karpenter.sh/nodepool" && r.Operator == corev1.NodeSelectorOpDoesNotExist
		})
	})
}

// container checks that it runs Karpenter's image unchanged, and that no variable sends it to another host or reads a
// Secret. It is the first container: the others are sidecars, which are allowed or refused as a whole.
func (c *check) container(container *corev1.Container) {
	c.image(container.Image)
	if len(container.Command)+len(container.Args) > 0 || container.Lifecycle != nil {
		c.refuse("runs another command than its image's")
	}
	if path := container.TerminationMessagePath; path != "" && path != messages {
		c.refuse("has the file %s shown in the status of its pods", path)
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil && !asksItself(&probe.ProbeHandler) {
			c.refuse("has a probe that is more than an HTTP request to its own port")
		}
	}
	if len(container.VolumeMounts)+len(container.VolumeDevices) > 0 {
		c.unless("controller.extraVolumeMounts", whyVolumes)
	}
	if len(container.EnvFrom) > 0 {
		c.unless("controller.envFrom", closed["controller.envFrom"].why)
	}
	c.variables(container.Env)
	for name := range container.Resources.Limits {
		if !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name) {
			c.unless(join("controller.resources.limits", string(name)), "has the resource "+string(name)+" of its node")
		}
	}
}

// variables checks that none reads another object, sends the controller elsewhere, or makes it run for another cluster.
// A chart in Git may set only variables that a released chart has or that a value could set.
func (c *check) variables(all []corev1.EnvVar) {
	for _, variable := range all {
		at := variableAt(variable.Name)
		from := variable.ValueFrom
		value := &variable.Value
		if from != nil {
			value = nil
		}
		if wrong := contradiction.Variable(c.rendered.Cluster, "the variable "+variable.Name, variable.Name, value); wrong != nil {
			c.refuse("has another cluster: %v", wrong)
		}
		if why := c.cannotBeSet(variable); why != "" {
			c.unless(at, "has the variable "+variable.Name+", which "+why)
		}
		if c.rendered.InGit && !c.allowance.allows(at) {
			c.terminates(variable, at)
		}
	}
}

// terminates refuses settings with which Karpenter terminates nodes that it would otherwise keep, if a chart in Git has
// them as default or in a template.
func (c *check) terminates(variable corev1.EnvVar, at string) {
	if variable.Name == featureGates {
		for _, path := range c.allowance.closedGates(variable.Value) {
			c.unless(path, "turns on "+path+", which "+closed[path].why)
		}
	}
	if is, loosens := loosens[at]; loosens && variable.Value == is.word {
		c.unless(is.setting, "has "+variable.Name+" "+is.word+", which "+whyTerminates)
	}
}

// ownNamespace is the only field of the pod that the charts use in a variable.
const ownNamespace = "metadata.namespace"

// cannotBeSet returns why neither a released chart nor an open value can set a variable this way; empty if one could. A
// variable of a release that this plumbline does not know may have a plain value, but not in a chart in Git.
func (c *check) cannotBeSet(variable corev1.EnvVar) string {
	wants, released := c.charts.variableShape(variable.Name)
	from := variable.ValueFrom
	switch {
	case !released && leads(variable.Name), from != nil && !fromItself(from):
		return whyVariables
	case from != nil:
		return ""
	case !released && c.rendered.InGit:
		return "no released chart has"
	case !released && !plain.fits(variable.Value):
		return "no released chart has, and is not " + plain.is
	case released && !wants.fits(variable.Value):
		return "is not " + wants.is
	}
	return ""
}

// fromItself reports whether a variable's value comes from the pod's own namespace or resources.
func fromItself(from *corev1.EnvVarSource) bool {
	own := from.FieldRef == nil || from.FieldRef.FieldPath == ownNamespace
	return own && from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil && from.FileKeyRef == nil
}

// known is the shape of the charts' own variables that no value sets by name.
var known = pattern("a word, a number or a list of Name=true", `[A-Za-z0-9._:=,+/-]*`)

// asksItself reports whether a probe is like those of Karpenter's charts: the kubelet, which is in the node's network,
// would send requests to any host.
func asksItself(probe *corev1.ProbeHandler) bool {
	get := probe.HTTPGet
	return get != nil && get.Host == "" && len(get.HTTPHeaders) == 0 && probe.Exec == nil && probe.TCPSocket == nil && probe.GRPC == nil
}

// awsFeatureGates is a variable of Karpenter.
const awsFeatureGates = "AWS_FEATURE_GATES"

// leading are prefixes of variables that can send a Go program with the AWS SDK and client-go to another host, or give
// it another identity.
var leading = []string{
	"AWS_", "KUBERNETES_SERVICE_", "SSL_CERT_", "LD_", "GODEBUG", "KUBECONFIG", "HOME", "LEADER_ELECTION_", "ENABLE_PROFILING",
}

// leads reports whether a variable of this name can do so.
func leads(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(leading, func(prefix string) bool { return strings.HasPrefix(upper, prefix) }) ||
		strings.HasSuffix(upper, "_PROXY")
}

// deploymentRule is the rule for the spec of Karpenter's Deployment except its pods. It includes the API server's
// defaults.
var deploymentRule = rule{fields: map[string]rule{
	"replicas": {}, "revisionHistoryLimit": {}, "strategy": {}, "progressDeadlineSeconds": {}, // number checks replicas and strategy
	"selector": {fields: map[string]rule{"matchLabels": {}}}, "template": {},
}}

// podRule is the rule for the spec of Karpenter's pods. Package policy of pod-security-admission checks security
// contexts in more detail; this rule checks which fields are set.
var podRule = rule{fields: map[string]rule{
	"serviceAccountName": {oneOf: []string{account}, required: true}, "serviceAccount": {oneOf: []string{account}},
	"automountServiceAccountToken": {}, "enableServiceLinks": {}, "restartPolicy": {oneOf: []string{"Always"}},
	"securityContext": {level: true, opens: "podSecurityContext", fields: map[string]rule{
		"fsGroup": {}, "fsGroupChangePolicy": {}, "runAsNonRoot": {}, "runAsUser": {}, "runAsGroup": {}, "supplementalGroups": {},
		"seccompProfile": {fields: map[string]rule{"type": {}}},
	}},
	"hostNetwork": {level: true, oneOf: []string{"false"}}, "hostPID": {level: true, oneOf: []string{"false"}},
	"hostIPC":           {level: true, oneOf: []string{"false"}},
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

// probeRule allows a request to the container's own port: the kubelet, which is in the node's network, would send
// requests to any host.
var probeRule = rule{fields: map[string]rule{
	"httpGet":             {required: true, fields: map[string]rule{"path": {}, "port": {}, "scheme": {}}},
	"initialDelaySeconds": {}, "timeoutSeconds": {}, "periodSeconds": {}, "successThreshold": {}, "failureThreshold": {},
	"terminationGracePeriodSeconds": {},
}}

// amountsRule allows amounts of what every node has, and no devices.
func amountsRule(opens string) rule {
	return rule{opens: opens, fields: map[string]rule{"cpu": {}, "memory": {}, "ephemeral-storage": {}}}
}

// containerRule is the rule for the controller's container. Its image and its variables have separate rules.
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
	"envFrom":       {empty: true, opens: "controller.envFrom"},
	"volumeMounts":  {empty: true, opens: "controller.extraVolumeMounts"},
	"volumeDevices": {empty: true, opens: "controller.extraVolumeMounts"},
	"securityContext": {level: true, opens: "controller.securityContext", fields: map[string]rule{
		"allowPrivilegeEscalation": {}, "privileged": {}, "readOnlyRootFilesystem": {}, "runAsNonRoot": {}, "runAsUser": {}, "runAsGroup": {},
		"capabilities":   {fields: map[string]rule{"add": {}, "drop": {}}},
		"seccompProfile": {fields: map[string]rule{"type": {}}},
	}},
}}

// rules applies the rules of the Deployment.
func (c *check) rules() {
	spec, _ := c.object.Object["spec"].(map[string]any)
	c.shaped(deploymentRule, "spec", spec)
	template, _ := spec["template"].(map[string]any)
	c.shaped(podRule, "spec.template.spec", template["spec"])
}

// plain is the shape of a harmless value, for a variable that no known release of Karpenter has.
var plain = pattern("true, false, a number or a duration", `true|false|[0-9]{1,15}(\.[0-9]{1,15})?(ns|us|ms|s|m|h)?`)

// variableShape returns the shape of a variable of the controller; false if no known release has it.
func (c Charted) variableShape(name string) (shape, bool) {
	if wants, isOpen := open[variableAt(name)]; isOpen {
		return wants, true
	}
	return known, name == awsFeatureGates || slices.Contains(c.Variables, name)
}

// Expression is one condition on what plumbline writes: a sentence that describes it, and the same in CEL. It is not
// evaluated if Unless is true, because changes of an administrator are accepted as long as plumbline does not change
// the same.
type Expression struct{ Message, CEL, Unless string }

// PodExpressions returns the rules for Karpenter's Deployment in CEL. They use the policy's variables pod (the spec of
// its pods), images (the repositories of Karpenter's image) and allowed (values of the chart that a NodeSync may
// allow).
func PodExpressions() []Expression {
	const container = "variables.pod.containers[0]"
	const update, unchanged = "request.operation == 'UPDATE' && ", "variables.unchanged"
	return []Expression{
		{
			"Karpenter's Deployment must not have fields other than those of its charts, or be paused", deploymentRule.expression("object.spec", 0),
			update + "object.spec.all(f, f == 'template' || (f in oldObject.spec && object.spec[f] == oldObject.spec[f]))",
		},
		{
			"Karpenter's pods must not have metadata other than labels and annotations",
			"object.spec.template.?metadata.orValue({}).all(f, f in ['labels', 'annotations', 'creationTimestamp'])",
			update + "object.spec.template.?metadata == oldObject.spec.template.?metadata",
		},
		{
			fmt.Sprintf("Karpenter's Deployment must have 1 to %d replicas", maxReplicas),
			fmt.Sprintf("%s || (object.spec.?replicas.orValue(1) >= 1 && object.spec.?replicas.orValue(1) <= %d)", opened("replicas"), maxReplicas),
			// The response to an identity conflict scales it to 0, which needs a permission of its own.
			update + "(object.spec.?replicas == oldObject.spec.?replicas || object.spec.?replicas.orValue(1) == 0 && object.spec.template == oldObject.spec.template && " +
				"authorizer.group('plumbline.dev').resource('controllers').check('stop').allowed())",
		},
		{
			fmt.Sprintf("an update of Karpenter's Deployment must not create more than %d additional replicas", maxReplicas),
			fmt.Sprintf("%s || string(object.spec.?strategy.?rollingUpdate.?maxSurge.orValue(0)).matches(r'^([0-9]|%d|[0-9]{1,2}%%|100%%)$')",
				opened("strategy"), maxReplicas),
			update + "object.spec.?strategy == oldObject.spec.?strategy",
		},
		{
			"Karpenter's pods must not have fields other than those of its charts, except for values that the policy's variable allowed lists",
			podRule.expression("variables.pod", 0), unchanged,
		},
		{
			"Karpenter's pods must have only one container", opened("controller.sidecarContainer") + " || variables.pod.containers.size() == 1",
			unchanged,
		},
		{
			"Karpenter's container must run Karpenter's image, with a tag", opened("controller.image") + " || (variables.images.exists(i, " + container + ".image.startsWith(i + ':')) && " +
				container + `.image.matches(r'^[^@]+:[A-Za-z0-9._-]+(@sha256:[0-9a-f]{64})?$'))`, unchanged,
		},
		{
			"Karpenter's environment variables must be those of its charts, and refer to this cluster and to AWS",
			container + ".?env.orValue([]).all(e, " + variableExpression("e") + ")", unchanged,
		},
		{
			"Karpenter's pods must not run on nodes that Karpenter manages", opened("affinity.nodeAffinity") +
				" || [variables.pod.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])].all(terms, terms.size() > 0 && terms.all(t, " +
				"t.?matchExpressions.orValue([]).exists(r, r.key == 'karpenter.sh/nodepool' && r.operator == 'DoesNotExist')))", unchanged,
		},
	}
}

// VariablePatterns returns a regular expression for the whole value of each variable of the controller that a known
// release has, by name.
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

// CELPatterns returns VariablePatterns as a map in CEL.
func CELPatterns() string {
	patterns := VariablePatterns()
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		entries = append(entries, fmt.Sprintf("'%s': r'^(?:%s)$'", name, patterns[name]))
	}
	return "{" + strings.Join(entries, ",\n        ") + "}"
}

// variableExpression is cannotBeSet in CEL, for the variable e. The policy's variable patterns is CELPatterns.
func variableExpression(e string) string {
	value := e + ".?value.orValue('')"
	leads := fmt.Sprintf("%s.exists(p, %[2]s.name.upperAscii().startsWith(p)) || %[2]s.name.upperAscii().endsWith('_PROXY')",
		celList(leading), e)
	from := fmt.Sprintf("%[1]s.all(f, f in ['fieldRef', 'resourceFieldRef']) && (!has(%[1]s.fieldRef) || %[1]s.fieldRef.fieldPath == '%[2]s')",
		e+".valueFrom", ownNamespace)
	return fmt.Sprintf("['*', 'controller', '%[1]s', '%[1]s[' + %[2]s.name + ']'].exists(p, p in variables.allowed) || ((%[2]s.name in variables.patterns || !(%[3]s)) && (has(%[2]s.valueFrom) ? (%[4]s) : "+
		"(%[5]s == '' || (%[2]s.name in variables.patterns ? %[5]s.matches(variables.patterns[%[2]s.name]) : %[5]s.matches(r'^(?:%[6]s)$')))))",
		environment, e, leads, from, value, plain.expression)
}
