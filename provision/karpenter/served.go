package karpenter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// WithServed returns the CRDs that a cluster has once a chart is installed: those of the chart, except the served ones,
// which EKS keeps and which stay as they are.
func WithServed(chart, served []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	next := slices.Clone(chart)
	for i, crd := range next {
		if live := named(served, crd.Name); live != nil {
			next[i] = live
		}
	}
	return next
}

// ServedCRDsError reports that a version of Karpenter uses what the CRDs that EKS keeps do not have: the API server would
// drop these fields, or reject these values.
type ServedCRDsError struct {
	Version string
	// CRDs are those that do not fit, and Fields what they do not have, as "CRD VERSION: FIELD".
	CRDs, Fields []string
}

// maxUnfit is how many fields the message names.
const maxUnfit = 5

// Error names the fields, and what to do.
func (e *ServedCRDsError) Error() string {
	return fmt.Sprintf("karpenter %s does not fit the CRDs that EKS keeps for Auto Mode, which plumbline does not change; "+
		"they do not have %s: use a version that fits, until EKS has updated its CRDs",
		e.Version, shortlist.Join(e.Fields, maxUnfit, ", "))
}

// CheckServed checks that a version of Karpenter can run with the CRDs that EKS keeps: each version that its own chart
// serves is served, with all of its fields, of the same types, and all values of its enumerations. What EKS adds does
// not matter. Rules, patterns and required fields are not compared: with them the API server rejects a definition, and
// loses none. Errors: *ServedCRDsError.
func CheckServed(version string, chart, served []*apiextensionsv1.CustomResourceDefinition) error {
	e := &ServedCRDsError{Version: version}
	for _, want := range chart {
		live := named(served, want.Name)
		if live == nil {
			continue
		}
		if fields := unfit(want, live); len(fields) > 0 {
			e.CRDs, e.Fields = append(e.CRDs, want.Name), append(e.Fields, fields...)
		}
	}
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// unfit returns what a live CRD does not have of the chart's.
func unfit(want, live *apiextensionsv1.CustomResourceDefinition) []string {
	var found []string
	for _, version := range want.Spec.Versions {
		if !version.Served {
			continue
		}
		about := live.Name + " " + version.Name
		i := slices.IndexFunc(live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name && v.Served
		})
		if i < 0 {
			found = append(found, about)
			continue
		}
		has := live.Spec.Versions[i].Schema
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil || has == nil || has.OpenAPIV3Schema == nil {
			continue
		}
		for _, field := range missingFields("", version.Schema.OpenAPIV3Schema, has.OpenAPIV3Schema) {
			found = append(found, about+": "+field)
		}
	}
	return found
}

// missingFields returns what a schema accepts and another one drops or rejects.
func missingFields(at string, want, has *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case has.XPreserveUnknownFields != nil && *has.XPreserveUnknownFields:
		return nil
	case want.Type != has.Type || want.XIntOrString != has.XIntOrString:
		return []string{fmt.Sprintf("%s as %s", at, typeOf(want))}
	}
	var found []string
	if values := missingValues(want.Enum, has.Enum); len(values) > 0 {
		found = append(found, fmt.Sprintf("%s: %s", at, strings.Join(values, " and ")))
	}
	found = append(found, missingProperties(at, want, has)...)
	if want.AdditionalProperties != nil && want.AdditionalProperties.Schema != nil {
		if has.AdditionalProperties == nil {
			return append(found, at+" with any keys")
		}
		if has.AdditionalProperties.Schema != nil {
			found = append(found, missingFields(at+".*", want.AdditionalProperties.Schema, has.AdditionalProperties.Schema)...)
		}
	}
	if want.Items != nil && want.Items.Schema != nil && has.Items != nil && has.Items.Schema != nil {
		found = append(found, missingFields(at+"[]", want.Items.Schema, has.Items.Schema)...)
	}
	return found
}

// missingProperties returns what missingFields does of the named fields of an object.
func missingProperties(at string, want, has *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		below := want.Properties[name]
		path := join(at, name)
		switch mine, ok := has.Properties[name]; {
		case ok:
			found = append(found, missingFields(path, &below, &mine)...)
		case has.AdditionalProperties == nil:
			found = append(found, path)
		case has.AdditionalProperties.Schema != nil:
			found = append(found, missingFields(path, &below, has.AdditionalProperties.Schema)...)
		}
	}
	return found
}

func typeOf(of *apiextensionsv1.JSONSchemaProps) string {
	if of.XIntOrString {
		return "integer or string"
	}
	return of.Type
}

// missingValues returns the values that an enumeration has, and another one does not; has is empty if it allows any.
func missingValues(want, has []apiextensionsv1.JSON) []string {
	if len(has) == 0 {
		return nil
	}
	var found []string
	for _, value := range want {
		if !slices.ContainsFunc(has, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) {
			found = append(found, string(value.Raw))
		}
	}
	return found
}
