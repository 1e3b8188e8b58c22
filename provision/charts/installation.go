package charts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// Installation says what the main chart is installed as.
type Installation struct {
	// Namespace of both releases. It has to exist.
	Namespace string
	// Cluster and Region are the cluster as AWS knows it.
	Cluster, Region string
	// InterruptionQueue and ControllerRole go into the values, unless they are empty.
	InterruptionQueue, ControllerRole string `json:",omitempty"`
	// Values of the main chart, merged.
	Values map[string]any
	// Sealed takes the place of Values in every fingerprint where a Secret has some
	// of them: a hash of a short secret can be guessed. See Values.
	Sealed string `json:",omitempty"`
}

// regionVariable has no setting in the chart (its values.yaml shows it under
// controller.env). Without it the controller asks the instance metadata
// (karpenter-provider-aws pkg/operator/operator.go), which a pod cannot reach
// behind a hop limit of one.
const regionVariable = "AWS_REGION"

// crdValues make every CRD outlive its release: deleting a CRD deletes every node.
// https://helm.sh/docs/howto/charts_tips_and_tricks/#tell-helm-not-to-uninstall-a-resource
func crdValues() map[string]any {
	return map[string]any{"additionalAnnotations": map[string]any{kube.ResourcePolicyAnno: kube.KeepPolicy}}
}

// ValuesError says that a value has not the shape that the chart wants.
type ValuesError struct {
	Value, Reason string
}

// Error names the value.
func (e *ValuesError) Error() string { return fmt.Sprintf("values.%s %s", e.Value, e.Reason) }

// values are Git's values with what plumbline.yaml says of the cluster filled in.
// What came from Git is not changed.
func (i Installation) values() (map[string]any, error) {
	if found := contradiction.Of(contradiction.Cluster{
		Name: i.Cluster, Region: i.Region, InterruptionQueue: i.InterruptionQueue, ControllerRole: i.ControllerRole,
	}, i.Values, "values."); len(found) > 0 {
		return nil, found[0]
	}
	values := maps.Clone(i.Values)
	if values == nil {
		values = map[string]any{}
	}
	settings, err := child(values, "settings", "settings")
	if err != nil {
		return nil, err
	}
	fill(settings, "clusterName", i.Cluster)
	fill(settings, "interruptionQueue", i.InterruptionQueue)
	if err := i.fillRole(values); err != nil {
		return nil, err
	}
	controller, err := child(values, "controller", "controller")
	if err != nil {
		return nil, err
	}
	controller["env"], err = i.env(controller["env"])
	return values, err
}

// fillRole gives the service account its role, where plumbline.yaml has one.
func (i Installation) fillRole(values map[string]any) error {
	if i.ControllerRole == "" {
		return nil
	}
	account, err := child(values, "serviceAccount", "serviceAccount")
	if err != nil {
		return err
	}
	annotations, err := child(account, "annotations", "serviceAccount.annotations")
	if err != nil {
		return err
	}
	fill(annotations, contradiction.RoleAnnotation, i.ControllerRole)
	return nil
}

// fill sets a value that plumbline.yaml has a field for, unless it is empty there.
func fill(values map[string]any, name, want string) {
	if want != "" {
		values[name] = want
	}
}

// child returns a copy of a map in values, put in its place. at is its path.
func child(values map[string]any, name, at string) (map[string]any, error) {
	if values[name] == nil {
		values[name] = map[string]any{}
	}
	inner, ok := values[name].(map[string]any)
	if !ok {
		return nil, &ValuesError{Value: at, Reason: "is not a map"}
	}
	inner = maps.Clone(inner)
	values[name] = inner
	return inner, nil
}

// env is the controller's environment with the region in it.
func (i Installation) env(env any) ([]any, error) {
	list, ok := env.([]any)
	if env != nil && !ok {
		return nil, &ValuesError{Value: "controller.env", Reason: "is not a list"}
	}
	for _, item := range list {
		if variable, _ := item.(map[string]any); variable["name"] == regionVariable {
			return list, nil
		}
	}
	return append(slices.Clone(list), map[string]any{"name": regionVariable, "value": i.Region}), nil
}

// Public is the Installation as far as it may be hashed: without its values, where
// a Secret has some of them.
func (i Installation) Public() Installation {
	if i.Sealed != "" {
		i.Values = nil
	}
	return i
}

// identity is what the fingerprint of the main chart's values is made of.
func (i Installation) identity(values map[string]any) (any, error) {
	if i.Sealed == "" {
		return values, nil
	}
	filled, err := i.Public().values()
	return []any{i.Sealed, filled}, err
}

// fingerprint of something, short enough for a label.
func fingerprint(of any) (string, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("encode the chart's values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}
