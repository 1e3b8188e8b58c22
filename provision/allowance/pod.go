package allowance

import (
	"fmt"
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

// deployment looks at the pods that the Deployment makes.
func (c *check) deployment() error {
	var deployment appsv1.Deployment
	if err := c.into(&deployment); err != nil {
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
	if len(c.found) == before { // else what is wrong is named already, with what would allow it
		c.rules()
	}
	return nil
}

// mostReplicas are the pods that a commit may ask for: each takes room on nodes that others
// need, and all but one of them only wait.
const mostReplicas = 10

// messages is the file in which a container may leave a message: the kubelet puts what is in it into
// the status of the pod, which more people may read than the file.
const messages = "/dev/termination-log"

// number checks how many pods there are.
func (c *check) number(spec *appsv1.DeploymentSpec) {
	if spec.Replicas != nil && *spec.Replicas > mostReplicas {
		c.unless("replicas", fmt.Sprintf("has %d replicas, and %d are the most", *spec.Replicas, mostReplicas))
	}
	if spec.Replicas != nil && *spec.Replicas < 1 {
		c.unless("replicas", "has no replica, so that no NodeSync gets nodes")
	}
	if update := spec.Strategy.RollingUpdate; update != nil && update.MaxSurge != nil {
		if surge, err := intstr.GetScaledValueFromIntOrPercent(update.MaxSurge, mostReplicas, true); err != nil || surge > mostReplicas {
			c.unless("strategy", fmt.Sprintf("has more than %d replicas at an update", mostReplicas))
		}
	}
}

// levels are those of the library.
var levels = map[Level]api.Level{"": api.LevelRestricted, Restricted: api.LevelRestricted, Baseline: api.LevelBaseline, Privileged: api.LevelPrivileged}

// seccompSince is the first line of charts whose pods set a seccomp profile. Earlier
// ones meet the restricted level but for that.
const seccompSince = "1.6.0"

const seccompCheck policy.CheckID = "seccompProfile_restricted"

// standard holds the pods to the Pod Security Standard.
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

// evaluate returns what violates a level, in words.
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

// identity checks that a pod has its own account and one container, and reaches no
// object of others.
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

// placed checks that it does not run on a node whose userData a commit may write, nor
// finds its hosts elsewhere.
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

// offOwnNodes says that each way to be placed asks for a node that Karpenter does not
// own.
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

// container checks that it runs Karpenter's image as it is, and that no variable
// leads it to another host or to a Secret. It is the first one: the others are sidecars,
// which are allowed or refused as a whole.
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

// variables checks that none reads another object, leads the controller elsewhere, or has it run
// for another cluster. A chart in Git sets none that neither a released chart has nor a value could.
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
		if why := c.unlike(variable); why != "" {
			c.unless(at, "has the variable "+variable.Name+", which "+why)
		}
		if variable.Name == featureGates && c.rendered.InGit && !c.allowance.allows(at) {
			for _, path := range c.allowance.closedGates(variable.Value) {
				c.unless(path, "turns on "+path+", which "+closed[path].why)
			}
		}
	}
}

// ownNamespace is the one field of the pod that a variable of the charts takes.
const ownNamespace = "metadata.namespace"

// unlike says why neither a released chart nor an open value makes a variable; empty if one could. A variable of a release that
// this plumbline does not know may have a plain value, but not in a chart in Git.
func (c *check) unlike(variable corev1.EnvVar) string {
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

// fromItself reports whether a variable has its value from the pod's own namespace or resources.
func fromItself(from *corev1.EnvVarSource) bool {
	own := from.FieldRef == nil || from.FieldRef.FieldPath == ownNamespace
	return own && from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil && from.FileKeyRef == nil
}

// known is what the charts' own variables are that no value sets by their name.
var known = pattern("a word, a number or a list of Name=true", `[A-Za-z0-9._:=,+/-]*`)

// asksItself says that a probe is what those of Karpenter's charts are: the kubelet, which
// is in the node's network, would ask any host.
func asksItself(probe *corev1.ProbeHandler) bool {
	get := probe.HTTPGet
	return get != nil && get.Host == "" && len(get.HTTPHeaders) == 0 && probe.Exec == nil && probe.TCPSocket == nil && probe.GRPC == nil
}

// awsFeatureGates is a variable of Karpenter's own.
const awsFeatureGates = "AWS_FEATURE_GATES"

// leading are what the names of variables begin with that can lead a Go program with the AWS SDK and client-go to another
// host, or to another identity.
var leading = []string{"AWS_", "KUBERNETES_SERVICE_", "SSL_CERT_", "LD_", "GODEBUG", "KUBECONFIG", "HOME", "LEADER_ELECTION_", "ENABLE_PROFILING"}

// leads reports whether a variable, by its name, can do so.
func leads(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(leading, func(prefix string) bool { return strings.HasPrefix(upper, prefix) }) || strings.HasSuffix(upper, "_PROXY")
}
