package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// PackManagedFields cuts an object's managedFields down, in place, to what a Plan
// reads of them: who owns which fields of the object itself. The fields become
// one string of JSON, which takes far less memory than a tree of empty maps, and
// which objects of one shape share.
//
// What is packed is only for a Plan: no API server takes it.
func PackManagedFields(object *unstructured.Unstructured) error {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "managedFields")
	if err != nil {
		return fmt.Errorf("read managedFields: %w", err)
	}
	written, _ := value.([]any)
	packed := make([]any, 0, len(written))
	for _, item := range written {
		entry, ok := item.(map[string]any)
		if !ok || entry["subresource"] != nil {
			continue
		}
		fields, err := pack(entry["fieldsV1"])
		if err != nil {
			return fmt.Errorf("pack managedFields of manager %q: %w", entry["manager"], err)
		}
		packed = append(packed, map[string]any{"manager": entry["manager"], "operation": entry["operation"], "fieldsV1": fields})
	}
	if metadata, ok := object.Object["metadata"].(map[string]any); ok && len(written) > 0 {
		metadata["managedFields"] = packed
	}
	return nil
}

func pack(fields any) (string, error) {
	if packed, ok := fields.(string); ok {
		return packed, nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	return unique.Make(string(text)).Value(), nil
}

// fieldsOf reads the fields of one entry, packed or not.
func fieldsOf(written *metav1.FieldsV1) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if written == nil {
		return set, nil
	}
	text := written.GetRawString()
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal([]byte(text), &text); err != nil {
			return nil, err
		}
	}
	return set, set.FromJSON(strings.NewReader(text))
}
