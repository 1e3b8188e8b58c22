package charts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Installation says what the main chart is installed as.
type Installation struct {
	// Namespace of both releases. It has to exist.
	Namespace string
	// Cluster and Region are the cluster as AWS knows it.
	Cluster, Region string
	// Values of the main chart, as Git has them.
	Values map[string]any
	// Adopt says that what somebody else installed is to be taken over. It is no
	// part of what is installed.
	Adopt bool `json:"-"`
}

// keepAnnotation makes Helm leave an object alone when its release, or its
// place in the chart, goes: https://helm.sh/docs/howto/charts_tips_and_tricks/#tell-helm-not-to-uninstall-a-resource
const (
	keepAnnotation = "helm.sh/resource-policy"
	keepPolicy     = "keep"
)

// regionVariable has no setting in the chart (its values.yaml shows it under
// controller.env). Without it the controller asks the instance metadata
// (karpenter-provider-aws pkg/operator/operator.go), which a pod cannot reach
// behind a hop limit of one.
const regionVariable = "AWS_REGION"

// crdValues make every CRD outlive its release: CRDs that go take every node.
func crdValues() map[string]any {
	return map[string]any{"additionalAnnotations": map[string]any{keepAnnotation: keepPolicy}}
}

// ContradictionError says that a value of the chart and plumbline.yaml's own
// fields disagree.
type ContradictionError struct {
	// Value is the chart's value, Field is that of plumbline.yaml.
	Value, Given, Field, Want string
	// Why it matters.
	Why string
}

// Error names both sides.
func (e *ContradictionError) Error() string {
	return fmt.Sprintf("values.%s is %q and %s is %q: %s; remove the value", e.Value, e.Given, e.Field, e.Want, e.Why)
}

// ValuesError says that a value has not the shape that the chart wants.
type ValuesError struct {
	Value, Reason string
}

// Error names the value.
func (e *ValuesError) Error() string { return fmt.Sprintf("values.%s %s", e.Value, e.Reason) }

// values are Git's values with the cluster's name and region filled in. What
// came from Git is not changed.
func (i Installation) values() (map[string]any, error) {
	values := maps.Clone(i.Values)
	if values == nil {
		values = map[string]any{}
	}
	settings, err := child(values, "settings")
	if err != nil {
		return nil, err
	}
	if given, ok := settings["clusterName"]; ok && given != "" && given != i.Cluster {
		return nil, &ContradictionError{
			Value: "settings.clusterName", Given: fmt.Sprint(given), Field: "cluster.name", Want: i.Cluster,
			Why: "Karpenter knows its instances by this name alone, and ends those of another cluster of the same name",
		}
	}
	settings["clusterName"] = i.Cluster

	controller, err := child(values, "controller")
	if err != nil {
		return nil, err
	}
	controller["env"], err = withRegion(controller["env"], i.Region)
	return values, err
}

// child returns a copy of a map in values, put in its place.
func child(values map[string]any, name string) (map[string]any, error) {
	if values[name] == nil {
		values[name] = map[string]any{}
	}
	inner, ok := values[name].(map[string]any)
	if !ok {
		return nil, &ValuesError{Value: name, Reason: "is not a map"}
	}
	inner = maps.Clone(inner)
	values[name] = inner
	return inner, nil
}

func withRegion(env any, region string) ([]any, error) {
	list, ok := env.([]any)
	if env != nil && !ok {
		return nil, &ValuesError{Value: "controller.env", Reason: "is not a list"}
	}
	for _, item := range list {
		variable, ok := item.(map[string]any)
		if !ok || variable["name"] != regionVariable {
			continue
		}
		if given := fmt.Sprint(variable["value"]); given != region {
			return nil, &ContradictionError{
				Value: "controller.env." + regionVariable, Given: given, Field: "cluster.region", Want: region,
				Why: "the controller would launch nodes where plumbline does not look for them",
			}
		}
		return list, nil
	}
	return append(slices.Clone(list), map[string]any{"name": regionVariable, "value": region}), nil
}

// fingerprint of values, short enough for a label.
func fingerprint(values map[string]any) (string, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encode the chart's values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}
