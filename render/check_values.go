package render

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// checkCluster looks at what cluster fills into the values.
func (k *Karpenter) checkCluster() []problem {
	var found []problem
	if queue := k.Cluster.InterruptionQueue; queue != "" && !queueName.MatchString(queue) {
		found = append(found, problem{"cluster.interruptionQueue", fmt.Sprintf("cluster.interruptionQueue is %q: give the name of an SQS queue, neither its URL nor its ARN", queue)})
	}
	if role := k.Cluster.ControllerRole; role != "" && !roleARN.MatchString(role) {
		found = append(found, problem{"cluster.controllerRole", fmt.Sprintf("cluster.controllerRole is %q: give the ARN of an IAM role, arn:aws:iam::<account>:role/<name>", role)})
	}
	return found
}

// contradictions finds values of the chart that contradict cluster: a controller
// with another clusterName loses sight of every node. at is what stands before
// their paths.
func contradictions(cluster Cluster, values map[string]any, at string) []problem {
	var found []problem
	for _, c := range contradiction.Of(contradiction.Cluster{
		Name: cluster.Name, Region: cluster.Region, InterruptionQueue: cluster.InterruptionQueue, ControllerRole: cluster.ControllerRole,
	}, values, at) {
		found = append(found, problem{c.Path, c.Error()})
	}
	return found
}

// mostValues is how many files, and how many objects of the cluster, may hold values of
// the chart: each of them is read and merged at every render.
const mostValues = 32

// checkValuesFrom looks at what names objects of the cluster.
func (k *Karpenter) checkValuesFrom() []problem {
	var found []problem
	if n := len(k.ValuesFrom); n > mostValues {
		return append(found, problem{"valuesFrom", fmt.Sprintf("valuesFrom has %d entries, and may have %d", n, mostValues)})
	}
	for i, from := range k.ValuesFrom {
		at := fmt.Sprintf("valuesFrom[%d]", i)
		if from.Kind != FromConfigMap && from.Kind != FromSecret {
			found = append(found, problem{at + ".kind", fmt.Sprintf("%s.kind is %q, and has to be %s or %s", at, from.Kind, FromConfigMap, FromSecret)})
		}
		if len(validation.IsDNS1123Subdomain(from.Name)) > 0 {
			found = append(found, problem{at + ".name", fmt.Sprintf("%s.name is %q: give the name of a %s in the NodeSync's namespace", at, from.Name, from.Kind)})
		}
		if strings.ContainsAny(from.TargetPath, ",=") {
			found = append(found, problem{at + ".targetPath", fmt.Sprintf("%s.targetPath is %q: give the path of one value, without a comma or an equals sign", at, from.TargetPath)})
		}
		if from.Kind == FromSecret && strings.HasSuffix(strings.ReplaceAll(from.TargetPath, `\`, ""), "].name") {
			found = append(found, problem{at + ".targetPath", fmt.Sprintf("%s.targetPath is %q: a Secret gives no element of a list its name, by which messages call it: write the name in Git, and take the value from the Secret", at, from.TargetPath)})
		}
		if len(validation.IsConfigMapKey(from.ValuesKey)) > 0 {
			found = append(found, problem{at + ".valuesKey", fmt.Sprintf("%s.valuesKey is %q, which no %s can have", at, from.ValuesKey, from.Kind)})
		}
	}
	return found
}

// checkValuesFiles keeps them within the repository.
func (k *Karpenter) checkValuesFiles(folder string) []problem {
	var found []problem
	if n := len(k.ValuesFiles); n > mostValues {
		return append(found, problem{"valuesFiles", fmt.Sprintf("valuesFiles has %d entries, and may have %d", n, mostValues)})
	}
	for i, name := range k.valuesFiles(folder) {
		entry := k.ValuesFiles[i]
		if strings.ContainsRune(entry, 0) {
			found = append(found, problem{fmt.Sprintf("valuesFiles[%d]", i), fmt.Sprintf("valuesFiles entry %q is no path", entry)})
			continue
		}
		if entry == "" || path.IsAbs(entry) || name == ".." || strings.HasPrefix(name, "../") {
			found = append(found, problem{fmt.Sprintf("valuesFiles[%d]", i), fmt.Sprintf("valuesFiles entry %q leads out of the Git repository: give a path from this folder", entry)})
		}
	}
	return found
}
