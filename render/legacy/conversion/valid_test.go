package conversion_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/legacy/conversion"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// converted returns the definitions of Karpenter that a golden folder results in; none if a decision is open.
func converted(t *testing.T, folder string) (all []*unstructured.Unstructured) {
	t.Helper()
	var options conversion.Options
	if data, err := os.ReadFile(filepath.Join(folder, "options.json")); err == nil {
		if err := json.Unmarshal(data, &options); err != nil {
			t.Fatal(err)
		}
	}
	made := conversion.Convert(read(t, filepath.Join(folder, "before")), options)
	if made.Open() > 0 {
		return nil
	}
	for _, file := range made.Files {
		documents, err := document.Parse(file.After)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range documents {
			object := &unstructured.Unstructured{Object: one.Value.(map[string]any)}
			if kind := object.GetKind(); kind == "NodePool" || kind == "EC2NodeClass" {
				all = append(all, object)
			}
		}
	}
	return all
}

func goldenFolders(t *testing.T) (folders []string) {
	t.Helper()
	found, err := filepath.Glob("testdata/*/before")
	if err != nil || len(found) == 0 {
		t.Fatal(err, found)
	}
	for _, one := range found {
		folders = append(folders, filepath.Dir(one))
	}
	return folders
}

// TestResultsAreValid: the CRDs of both versions that are linked accept every result.
func TestResultsAreValid(t *testing.T) {
	for _, version := range []string{schema.EmbeddedVersion, schema.LTSVersion} {
		crds, err := schema.EmbeddedOf(version)
		if err != nil {
			t.Fatal(err)
		}
		validator, err := schema.New(crds)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, folder := range goldenFolders(t) {
			for _, object := range converted(t, folder) {
				count++
				for _, err := range validator.Validate(t.Context(), object) {
					t.Errorf("%s: %s: %s/%s: %v", version, folder, object.GetKind(), object.GetName(), err)
				}
			}
		}
		if count < 15 {
			t.Errorf("only %d objects were validated", count)
		}
	}
}

// TestReplacesNoNode: a NodePool and an EC2NodeClass that were v1beta1 have the same hash as after the conversion in the
// cluster by Karpenter 1.0, so that no node drifts when the converted definition is applied.
func TestReplacesNoNode(t *testing.T) {
	compared := 0
	for _, folder := range goldenFolders(t) {
		if strings.HasSuffix(folder, "kubelet-copied") {
			continue // a copied class replaces nodes, as its report says
		}
		theirs := map[string]map[string]any{}
		kubelets := map[string]any{}
		for _, file := range read(t, filepath.Join(folder, "before")) {
			documents, _ := document.Parse(file.Data) // what cannot be read is not converted either
			for _, one := range documents {
				items, isList := one.Items()
				if !isList {
					items = []document.Document{one}
				}
				for _, item := range items {
					upstream(item.Value.(map[string]any), theirs, kubelets)
				}
			}
		}
		for _, object := range converted(t, folder) {
			name := object.GetKind() + "/" + object.GetName()
			their := theirs[name]
			if their == nil {
				continue
			}
			compared++
			if kubelet := kubelets[object.GetName()]; object.GetKind() == "EC2NodeClass" && kubelet != nil {
				their["kubelet"] = kubelet
			}
			ours, upstreams := hash(t, object.GetKind(), object), hash(t, object.GetKind(), &unstructured.Unstructured{Object: map[string]any{"spec": their}})
			if ours != upstreams {
				t.Errorf("%s: %s has hash %s, and after Karpenter's conversion %s", folder, name, ours, upstreams)
			}
		}
	}
	if compared < 10 {
		t.Errorf("only %d objects were compared", compared)
	}
}

// upstream adds the spec that Karpenter 1.0 makes of a v1beta1 object, with the defaults that the API server of Karpenter
// 0.37 has stored. kubelets are those of the NodePools by the names of their classes: Karpenter keeps them in an annotation
// until 1.1. Source: ConvertFrom in karpenter 1.0.8, pkg/apis/v1/nodepool_conversion.go, and karpenter-provider-aws 1.0.8,
// pkg/apis/v1/ec2nodeclass_conversion.go.
func upstream(object map[string]any, specs map[string]map[string]any, kubelets map[string]any) {
	copied := (&unstructured.Unstructured{Object: object}).DeepCopy()
	spec, _ := copied.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	switch copied.GetAPIVersion() + " " + copied.GetKind() {
	case "karpenter.sh/v1beta1 NodePool":
		template, _, _ := unstructured.NestedMap(spec, "template", "spec")
		disruption, _, _ := unstructured.NestedMap(spec, "disruption")
		ref, _, _ := unstructured.NestedString(template, "nodeClassRef", "name")
		if kubelet := template["kubelet"]; kubelet != nil {
			kubelets[ref] = kubelet
		}
		delete(template, "kubelet")
		template["nodeClassRef"] = map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": ref}
		if template["expireAfter"] = disruption["expireAfter"]; template["expireAfter"] == nil {
			template["expireAfter"] = "720h"
		}
		full := map[string]any{"spec": template}
		if metadata, ok, _ := unstructured.NestedMap(spec, "template", "metadata"); ok {
			full["metadata"] = metadata
		}
		specs["NodePool/"+copied.GetName()] = map[string]any{"template": full}
	case "karpenter.k8s.aws/v1beta1 EC2NodeClass":
		options := map[string]any{"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": int64(2), "httpTokens": "required"}
		given, _ := spec["metadataOptions"].(map[string]any)
		for key, value := range given {
			options[key] = value
		}
		spec["metadataOptions"] = options
		family, _ := spec["amiFamily"].(string)
		selected, _ := spec["amiSelectorTerms"].([]any)
		version := "latest"
		if pinned, ok := copied.GetAnnotations()["compatibility.karpenter.k8s.aws/v1-alias-version"]; ok {
			version = pinned
		}
		switch {
		case family == "Ubuntu":
			spec["amiFamily"] = "AL2"
			if spec["blockDeviceMappings"] == nil {
				spec["blockDeviceMappings"] = []any{map[string]any{
					"deviceName": "/dev/sda1", "rootVolume": true, "ebs": map[string]any{"encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi"},
				}}
			}
		case family != "Custom" && len(selected) == 0:
			delete(spec, "amiFamily")
			spec["amiSelectorTerms"] = []any{map[string]any{"alias": strings.ToLower(family) + "@" + version}}
		}
		specs["EC2NodeClass/"+copied.GetName()] = spec
	}
}

// hash returns Karpenter's hash of a definition, as the API server stores it.
func hash(t *testing.T, kind string, object *unstructured.Unstructured) string {
	t.Helper()
	full := object.DeepCopy()
	full.SetAPIVersion(map[string]string{"NodePool": "karpenter.sh/v1", "EC2NodeClass": "karpenter.k8s.aws/v1"}[kind])
	full.SetKind(kind)
	validator(t).Default(full)
	if kind == "NodePool" {
		pool := &karpv1.NodePool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(full.Object, pool); err != nil {
			t.Fatal(err)
		}
		return pool.Hash()
	}
	class := &awsv1.EC2NodeClass{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(full.Object, class); err != nil {
		t.Fatal(err)
	}
	return class.Hash(nil)
}

func validator(t *testing.T) *schema.Validator {
	t.Helper()
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	made, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestHashNoticesTheDefaults: without the defaults that a conversion writes, the hash would be another one.
func TestHashNoticesTheDefaults(t *testing.T) {
	for _, object := range converted(t, "testdata/v1beta1-minimal") {
		changed := object.DeepCopy()
		fields := []string{"spec", "template", "spec", "expireAfter"}
		if object.GetKind() == "NodePool" {
			if err := unstructured.SetNestedField(changed.Object, "Never", fields...); err != nil {
				t.Fatal(err)
			}
		} else {
			unstructured.RemoveNestedField(changed.Object, "spec", "metadataOptions")
		}
		if hash(t, object.GetKind(), object) == hash(t, object.GetKind(), changed) {
			t.Errorf("%s has the same hash", object.GetKind())
		}
	}
}

// TestConvertsOnce: a result has nothing of an earlier version left, and other documents stay as they are.
func TestConvertsOnce(t *testing.T) {
	for _, folder := range goldenFolders(t) {
		if strings.HasSuffix(folder, "left") {
			continue
		}
		made := conversion.Convert(read(t, filepath.Join(folder, "before")), conversion.Options{Role: "nodes", CopyClasses: true})
		if made.Open() > 0 {
			continue
		}
		var after []conversion.File
		for _, file := range made.Files {
			after = append(after, conversion.File{Name: file.Name, Data: file.After})
		}
		if again := conversion.Convert(after, conversion.Options{}); len(again.Files) > 0 || len(again.Left) > 0 {
			t.Errorf("%s: the second conversion finds %+v", folder, again)
		}
	}
}

// FuzzConvert: no text panics, a result is valid YAML, and what is not of an earlier version stays as it is.
func FuzzConvert(f *testing.F) {
	seeds, _ := filepath.Glob("testdata/*/before/*.yaml")
	for _, seed := range seeds {
		data, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		made := conversion.Convert([]conversion.File{{Name: "a.yaml", Data: data}}, conversion.Options{Role: "nodes", CopyClasses: true})
		before, err := document.Parse(data)
		if err != nil && len(made.Files) > 0 {
			t.Fatalf("%v, and it is converted", err)
		}
		for _, file := range made.Files {
			after, err := document.Parse(file.After)
			if err != nil {
				t.Fatalf("the result cannot be read: %v\n%s", err, file.After)
			}
			for _, one := range before {
				if !others(one.Value) {
					continue
				}
				found := false
				for _, other := range after {
					found = found || reflect.DeepEqual(one.Value, other.Value)
				}
				if !found {
					t.Fatalf("%v is lost in\n%s", one.Value, file.After)
				}
			}
		}
	})
}

// others reports whether a document is of another tool.
func others(value any) bool {
	object, _ := value.(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return !strings.HasPrefix(apiVersion, "karpenter.") && !strings.HasSuffix(kind, "List")
}
