package nodes

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// kubeletFlag matches flags of the kubelet and of EKS' bootstrap scripts: --name=value, --name "value", -Name 'value'.
var kubeletFlag = regexp.MustCompile(
	`(?:^|[\s"'])--?(node-labels|register-with-taints|max-pods|apiserver-endpoint|APIServerEndpoint)[= ]["']?([^"'\s]*)`)

// parseScript reads the flags that a script passes to the kubelet. A script without any of them joins without labels
// and taints.
func parseScript(text string) (join, error) {
	var found join
	for _, match := range kubeletFlag.FindAllStringSubmatch(text, -1) {
		name, value := match[1], match[2]
		var err error
		switch name {
		case "node-labels":
			found.Labels, err = parseLabels(value)
		case "register-with-taints":
			found.Taints, err = parseTaints(value)
		case "max-pods":
			found.MaxPods, err = strconv.Atoi(value)
		default:
			found.Endpoint = value
		}
		if err != nil {
			return join{}, fmt.Errorf("read flag --%s in user data: %w", name, err)
		}
	}
	return found, nil
}

// parseLabels parses key=value,key=value.
func parseLabels(list string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("label %q has no value", pair)
		}
		labels[key] = value
	}
	return labels, nil
}

// parseTaints parses key=value:Effect,key:Effect.
func parseTaints(list string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for text := range strings.SplitSeq(list, ",") {
		before, effect, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("taint %q has no effect", text)
		}
		key, value, _ := strings.Cut(before, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}
