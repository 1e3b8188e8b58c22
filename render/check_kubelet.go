package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// kubeletPath is the path of the settings of kubelet in an EC2NodeClass.
const kubeletPath = "spec.kubelet"

// checkKubelet refuses settings of kubelet with which Karpenter launches no node. Since Karpenter 1.15 the schema
// accepts anything there, and the controller reports only in a condition what it refuses (Validation.Reconcile in
// karpenter-provider-aws pkg/controllers/nodeclass/validation.go, 1.15.0). Before, the schema has the fields.
func (m *maker) checkKubelet(object Object) []problem {
	if object.Ref.Kind != EC2NodeClass || !m.opensKubelet() {
		return nil
	}
	class := &aws.EC2NodeClass{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, class) != nil {
		return nil // checkReadable reports it
	}
	if refused := aws.ValidateKubeletConfig(class.Spec.Kubelet); len(refused) > 0 {
		var problems []problem
		for _, err := range refused {
			problems = append(problems, kubeletProblem(object.Ref, err))
		}
		return problems
	}
	parsed, err := aws.ParseKubeletConfig(class.Spec.Kubelet)
	if err != nil {
		return []problem{kubeletProblem(object.Ref, err)}
	}
	return append(checkExpressions(object.Ref, parsed), checkFamily(object, class.Spec.Kubelet, parsed)...)
}

// opensKubelet reports whether the schema accepts any field in spec.kubelet.
func (m *maker) opensKubelet() bool {
	kind, _ := KindOf(EC2NodeClass)
	if m.validator == nil {
		return false
	}
	shape := m.validator.Schema(kind.GVK)
	return shape != nil && shape.Properties["spec"].Properties["kubelet"].XPreserveUnknownFields
}

// checkReadableKubelet is checkReadable for the settings of kubelet of a Karpenter before 1.15, whose type has fields
// (KubeletConfiguration in karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.3).
func (m *maker) checkReadableKubelet(object Object) []problem {
	settings, found, err := unstructured.NestedMap(object.Desired.Object, "spec", "kubelet")
	if object.Ref.Kind != EC2NodeClass || m.opensKubelet() || !found || err != nil {
		return nil
	}
	var into struct {
		MaxPods                     *int32                     `json:"maxPods"`
		PodsPerCore                 *int32                     `json:"podsPerCore"`
		EvictionSoftGracePeriod     map[string]metav1.Duration `json:"evictionSoftGracePeriod"`
		EvictionMaxPodGracePeriod   *int32                     `json:"evictionMaxPodGracePeriod"`
		ImageGCHighThresholdPercent *int32                     `json:"imageGCHighThresholdPercent"`
		ImageGCLowThresholdPercent  *int32                     `json:"imageGCLowThresholdPercent"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(settings, &into); err != nil {
		return []problem{{kubeletPath, cut(fmt.Sprintf("%s: Karpenter cannot read it: %s: %v", object.Ref, kubeletPath, err))}}
	}
	return nil
}

// kubeletField matches the field at the beginning of Karpenter's error, without the key in a map.
var kubeletField = regexp.MustCompile(`^spec\.kubelet(\.\w+)?(\[[^\]]*\])?: `)

// kubeletProblem returns an error of Karpenter's validation with the path of its field.
func kubeletProblem(ref Ref, err error) problem {
	at, message := kubeletPath, err.Error()
	var unknown kjson.FieldError
	var mismatch *json.UnmarshalTypeError
	switch field := kubeletField.FindStringSubmatch(message); {
	case errors.As(err, &unknown):
		at += "." + unknown.FieldPath()
		message = at + ": unknown field: kubelet does not have it"
		if meant := nearest.Name(unknown.FieldPath(), kubeletFields()); meant != "" {
			message = at + ": unknown field: did you mean " + meant + "?"
		}
	case errors.As(err, &mismatch) && mismatch.Field != "":
		at += "." + mismatch.Field
		message = fmt.Sprintf("%s: it must be of type %s, not %s", at, mismatch.Type, mismatch.Value)
	case field != nil:
		at += field[1]
	}
	return problem{at, fmt.Sprintf("%s: %s", ref, cut(message))}
}

// kubeletFields returns the settings that kubelet has.
func kubeletFields() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[kubelet.KubeletConfiguration]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkExpressions refuses expressions that do not compile (validateKubeletExpressions in karpenter-provider-aws
// pkg/controllers/nodeclass/validation.go, 1.15.0).
func checkExpressions(ref Ref, settings *aws.ParsedKubeletConfig) []problem {
	if !settings.HasExpressions() {
		return nil
	}
	environment, err := kubeletcel.NewEnvironment()
	if err != nil {
		return []problem{{kubeletPath, fmt.Sprintf("%s: prepare the expressions of %s: %v", ref, kubeletPath, err)}}
	}
	var problems []problem
	check := func(path, expression string) {
		if err := environment.ValidateExpression(expression); err != nil {
			problems = append(problems, problem{path, cut(fmt.Sprintf("%s: %s: it is neither a quantity nor an expression: %v", ref, path, err))})
		}
	}
	if most := settings.MaxPods; most != nil && most.Type == intstr.String {
		check(kubeletPath+".maxPods", most.StrVal)
	}
	for field, reserved := range map[string]map[string]string{"kubeReserved": settings.KubeReserved, "systemReserved": settings.SystemReserved} {
		for _, name := range slices.Sorted(maps.Keys(reserved)) {
			if _, err := resource.ParseQuantity(reserved[name]); err != nil {
				check(below(kubeletPath+"."+field, name), reserved[name])
			}
		}
	}
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.path, b.path) })
	return problems
}

// HasExpressions reports whether the settings of kubelet of an EC2NodeClass have an expression.
func HasExpressions(object *unstructured.Unstructured) bool {
	class := &aws.EC2NodeClass{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, class)
	return err == nil && class.Spec.Kubelet.HasExpressions()
}

// checkFamily refuses settings that Karpenter does not pass to the nodes of an AMI family: only those of AL2023 get all
// settings, and with the family Custom, Karpenter passes none (validateKubeletFieldsSupported in
// karpenter-provider-aws pkg/controllers/nodeclass/validation.go, 1.15.0).
func checkFamily(object Object, settings aws.KubeletConfiguration, parsed *aws.ParsedKubeletConfig) []problem {
	family := AMIFamily(object.Desired)
	if family == "al2023" || family == "custom" || family == "" {
		return nil
	}
	var problems []problem
	refuse := func(field, why string) {
		at := kubeletPath + "." + field
		problems = append(problems, problem{at, fmt.Sprintf("%s: %s: %s", object.Ref, at, why)})
	}
	for _, field := range aws.UnmanagedKubeletFields(settings) {
		refuse(field, "nodes of the AMI family "+family+" do not get this setting, so that Karpenter launches none: leave it out, or use AL2023")
	}
	if parsed.PodsPerCore != nil && isBottlerocket(object.Desired) {
		refuse("podsPerCore", "Bottlerocket does not have this setting, so that Karpenter launches no node: use maxPods")
	}
	if n := len(parsed.ClusterDNS); n > 1 {
		refuse("clusterDNS", fmt.Sprintf("nodes of the AMI family %s accept one address, and it has %d", family, n))
	}
	return problems
}
