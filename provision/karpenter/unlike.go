package karpenter

import (
	"encoding/json"
	"fmt"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Unlike says which of the wanted CRDs does not live, or lives with other versions or
// schemas; empty where all live as they are wanted. A CRD of Karpenter's names no
// version of Karpenter, so that what it says has to tell. The end of the sentence,
// whose CRD is wanted, is for the caller.
func Unlike(live, wanted []*apiextensionsv1.CustomResourceDefinition) string {
	for _, want := range wanted {
		has := named(live, want.Name)
		switch {
		case has == nil:
			return fmt.Sprintf("crd %s is not there yet: that", want.Name)
		case !alike(has.Spec.Versions, want.Spec.Versions):
			return fmt.Sprintf("crd %s is not that", want.Name)
		}
	}
	return ""
}

// alike compares what an API server does with objects of each version.
func alike(a, b []apiextensionsv1.CustomResourceDefinitionVersion) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Served != b[i].Served || a[i].Storage != b[i].Storage {
			return false
		}
		if !reflect.DeepEqual(plain(a[i].Schema), plain(b[i].Schema)) {
			return false
		}
	}
	return true
}

// plain is a schema as JSON has it: what is empty and what is not there are the same
// to an API server. Defaults are raw JSON, with spaces of their own.
func plain(schema *apiextensionsv1.CustomResourceValidation) any {
	raw, err := json.Marshal(schema)
	if err != nil {
		return err // no schema is equal to it
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	return fields
}
