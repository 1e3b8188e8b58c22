package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// surface is the schema of a spec, and which of its fields have been drawn.
type surface struct {
	schema apiextensionsv1.JSONSchemaProps
	drawn  map[string]bool
}

// surfaceOf returns the surface of a kind. Where the schema allows any field of the kubelet's configuration, these are
// the ones of the linked version.
func surfaceOf(crd *apiextensionsv1.CustomResourceDefinition) *surface {
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	if kubelet, ok := spec.Properties["kubelet"]; ok && kubelet.XPreserveUnknownFields != nil && *kubelet.XPreserveUnknownFields {
		spec.Properties["kubelet"] = schemaOf(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]())
	}
	return &surface{schema: spec, drawn: map[string]bool{}}
}

// missed returns the fields that were never drawn, and how many fields there are.
func (s *surface) missed() (missed []string, of int) {
	var look func(path string, schema apiextensionsv1.JSONSchemaProps)
	look = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		of++
		if !s.drawn[path] {
			missed = append(missed, path)
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			look(path+"."+name, schema.Properties[name])
		}
		if schema.Items != nil {
			look(path+"[]", *schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			look(path+"{}", *schema.AdditionalProperties.Schema)
		}
	}
	look("spec", s.schema)
	return missed, of
}

// count records the fields of a drawn value.
func (s *surface) count(path string, schema apiextensionsv1.JSONSchemaProps, value any) {
	s.drawn[path] = true
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			s.count(path+"[]", *schema.Items.Schema, item)
		}
	case map[string]any:
		for key, item := range value {
			if field, ok := schema.Properties[key]; ok {
				s.count(path+"."+key, field, item)
			} else {
				s.count(path+"{}", *schema.AdditionalProperties.Schema, item)
			}
		}
	}
}

// draw returns a spec. Some have few fields and some have most. It may break a rule of the schema.
func (s *surface) draw(t *rapid.T) map[string]any {
	d := drawing{T: t, share: rapid.IntRange(1, 4).Draw(t, "share of the optional fields")}
	return d.value("spec", s.schema).(map[string]any)
}

// schemaOf returns the schema of a type of Go.
func schemaOf(of reflect.Type) apiextensionsv1.JSONSchemaProps {
	switch of {
	case reflect.TypeFor[metav1.Duration]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "duration"}
	case reflect.TypeFor[metav1.Time]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}
	case reflect.TypeFor[resource.Quantity]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "quantity"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(of.Elem())
	case reflect.Bool:
		return apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	case reflect.String:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	case reflect.Slice:
		items := schemaOf(of.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	case reflect.Map:
		values := schemaOf(of.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &values}}
	case reflect.Struct:
		object := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch inline := strings.Contains(field.Tag.Get("json"), ",inline"); {
			case inline && field.Type != reflect.TypeFor[metav1.TypeMeta]():
				maps.Copy(object.Properties, schemaOf(field.Type).Properties)
			case name != "" && name != "-":
				object.Properties[name] = schemaOf(field.Type)
			}
		}
		if len(object.Properties) == 0 { // it has a form of its own
			return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "duration"}
		}
		return object
	default:
		return apiextensionsv1.JSONSchemaProps{Type: "integer"}
	}
}

// drawing draws values of schemas. Of four optional fields, share are set on average.
type drawing struct {
	*rapid.T
	share int
}

func (d drawing) value(path string, schema apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(schema.Enum) > 0:
		var value any
		if err := json.Unmarshal(rapid.SampledFrom(schema.Enum).Draw(d.T, path).Raw, &value); err != nil {
			d.Fatal(err)
		}
		return value
	case schema.XIntOrString:
		return d.intOrString(path)
	}
	switch schema.Type {
	case "boolean":
		return rapid.Bool().Draw(d.T, path)
	case "integer", "number":
		return d.integer(path, schema)
	case "array":
		return d.list(path, schema)
	case "object":
		return d.object(path, schema)
	}
	return d.text(path, schema)
}

func (d drawing) list(path string, schema apiextensionsv1.JSONSchemaProps) []any {
	low := 0
	if strings.HasSuffix(path, "SelectorTerms") { // their rules reject empty lists
		low = 1
	}
	list := []any{}
	for range rapid.IntRange(low, 3).Draw(d.T, path+" items") {
		list = append(list, d.value(path+"[]", *schema.Items.Schema))
	}
	return d.mendList(path, list, *schema.Items.Schema)
}

func (d drawing) object(path string, schema apiextensionsv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		keys := keysOf(path)
		for _, key := range rapid.Permutation(keys).Draw(d.T, path+" keys")[:rapid.IntRange(0, len(keys)).Draw(d.T, path+" size")] {
			object[key] = d.value(path+"{}", *schema.AdditionalProperties.Schema)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		if slices.Contains(schema.Required, field) || rapid.IntRange(1, 4).Draw(d.T, "with "+field) <= d.share {
			object[field] = d.value(path+"."+field, schema.Properties[field])
		}
	}
	d.mend(path, object, schema)
	return object
}

func (d drawing) integer(path string, schema apiextensionsv1.JSONSchemaProps) int64 {
	low, high := int64(0), int64(100)
	if schema.Minimum != nil {
		low = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		high = int64(*schema.Maximum)
	}
	return rapid.Int64Range(low, high).Draw(d.T, path) // often the minimum
}

func (d drawing) intOrString(path string) any {
	if rapid.Bool().Draw(d.T, path+" is a number") {
		return d.integer(path, apiextensionsv1.JSONSchemaProps{})
	}
	return rapid.SampledFrom(quantities()).Draw(d.T, path)
}

// keysOf returns keys for a map.
func keysOf(path string) []string {
	switch field := path[strings.LastIndex(path, ".")+1:]; {
	case strings.HasPrefix(field, "eviction"):
		return []string{"memory.available", "nodefs.available", "pid.available"}
	case strings.HasSuffix(field, "Reserved"):
		return []string{"cpu", "memory", "ephemeral-storage"}
	case field == "limits":
		return []string{"cpu", "memory", "nodes"}
	case field == "labels", field == "annotations":
		return []string{"team", "example.com/app", "example.com/a_b.c"}
	}
	return []string{"team", "example.com/app", "größe"}
}

func durations() []string  { return []string{"30s", "1m30s", "90s", "720h", "0s", "1h0m0s"} }
func quantities() []string { return []string{"100m", "0.1", "1Gi", "1024Mi", "500M", "2", "1e3"} }

// text returns a string that Karpenter's types can read: a controller stops if they cannot read one of its objects.
func (d drawing) text(path string, schema apiextensionsv1.JSONSchemaProps) string {
	from := func(values ...string) string { return rapid.SampledFrom(values).Draw(d.T, path) }
	field := strings.TrimSuffix(strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]"), "{}")
	switch {
	case field == "alias":
		return from("al2@latest", "al2023@v20250807", "al2023@latest", "bottlerocket@1.40.0", "windows2019@latest", "windows2022@latest")
	case field == "volumeSize":
		return from("100Gi", "20G", "1Ti", "2T", "1024Gi", "64T")
	case field == "expireAfter", field == "consolidateAfter":
		return from(append(durations(), "Never")...)
	case field == "duration":
		return from("8h", "30m", "1h30m", "90m", "24h0s")
	case field == "schedule":
		return from("@daily", "0 9 * * mon-fri")
	case field == "nodes":
		return from("10%", "0", "5", "100%")
	case field == "evictionSoftGracePeriod", field == "terminationGracePeriod", schema.Format == "duration":
		return from(durations()...)
	case field == "limits", strings.HasSuffix(field, "Reserved"), schema.Format == "quantity":
		return from(quantities()...)
	case strings.HasPrefix(field, "eviction"):
		return from(append(quantities(), "5%", "12.5%")...)
	case schema.Format == "date-time":
		return from("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00")
	case strings.HasPrefix(path, "spec.template"):
		return d.textOfTemplate(path)
	case field == "userData", field == "context":
		return from("", "#!/bin/bash\necho \"<&>\"\n", "[settings]\nmotd = 'hello \u2028'\n")
	case schema.Pattern != "":
		return rapid.StringMatching(schema.Pattern).Draw(d.T, path)
	case strings.Contains(path, "Selector"), field == "role", field == "instanceProfile":
		return from("a", "b", "web-1", "größe")
	}
	return from("", "a", "b", "web-1", "größe", "<&>", "arn:aws:iam::123456789012:role/nodes")
}

// textOfTemplate returns a string in the template of a NodePool. Its class does not exist, so that it launches nothing.
func (d drawing) textOfTemplate(path string) string {
	from := func(values ...string) string { return rapid.SampledFrom(values).Draw(d.T, path) }
	switch path[strings.LastIndex(path, ".")+1:] {
	case "group":
		return "karpenter.k8s.aws"
	case "kind":
		return "EC2NodeClass"
	case "name":
		return from("missing", "missing-2")
	case "key":
		return from(
			"kubernetes.io/arch", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-cpu",
			"example.com/team",
		)
	case "value", "values[]":
		return from("amd64", "spot", "1", "A_b.c")
	case "labels{}":
		return from("", "a", "A_b.c")
	}
	return from("", "a", "größe", "<&>")
}

// oneOf leaves exactly one of some fields in an object.
func (d drawing) oneOf(path string, object map[string]any, schema apiextensionsv1.JSONSchemaProps, fields ...string) {
	chosen := rapid.SampledFrom(fields).Draw(d.T, path+" has only")
	for _, field := range fields {
		if field != chosen {
			delete(object, field)
		}
	}
	d.atLeast(path, object, schema, chosen)
}

// atLeast sets a field of an object if none of some fields is set.
func (d drawing) atLeast(path string, object map[string]any, schema apiextensionsv1.JSONSchemaProps, fields ...string) {
	for _, field := range fields {
		if _, ok := object[field]; ok {
			return
		}
	}
	object[fields[0]] = d.value(path+"."+fields[0], schema.Properties[fields[0]])
}

// mend makes an object keep the rules of Karpenter's schemas.
func (d drawing) mend(path string, object map[string]any, schema apiextensionsv1.JSONSchemaProps) {
	has := func(field string) bool { _, ok := object[field]; return ok }
	switch strings.TrimPrefix(path, "spec.") {
	case "spec":
		if _, class := schema.Properties["role"]; class {
			d.oneOf(path, object, schema, "role", "instanceProfile")
			d.mendFamily(object, schema)
		} else if has("replicas") {
			delete(object, "weight")
			delete(object, "limits")
		}
	case "amiSelectorTerms[]":
		delete(object, "alias")
		if has("id") {
			maps.DeleteFunc(object, func(field string, _ any) bool { return field != "id" })
		}
		d.atLeast(path, object, schema, "name", "id", "ssmParameter")
	case "securityGroupSelectorTerms[]":
		d.oneOf(path, object, schema, "id", "name", "tags")
	case "subnetSelectorTerms[]":
		d.oneOf(path, object, schema, "id", "tags")
	case "capacityReservationSelectorTerms[]":
		if has("id") {
			maps.DeleteFunc(object, func(field string, _ any) bool { return field != "id" })
		} else if _, ok := schema.Properties["instanceMatchCriteria"]; ok {
			d.atLeast(path, object, schema, "tags", "instanceMatchCriteria")
		} else {
			d.atLeast(path, object, schema, "tags")
		}
	case "blockDeviceMappings[].ebs":
		d.atLeast(path, object, schema, "volumeSize", "snapshotID")
		if has("volumeInitializationRate") {
			object["snapshotID"] = "snap-1"
		}
	case "connectionTracking":
		d.atLeast(path, object, schema, "udpTimeout", "udpStreamTimeout", "tcpEstablishedTimeout")
	case "placementGroupSelector":
		d.oneOf(path, object, schema, "id", "name")
	case "kubelet":
		d.mendKubelet(path, object, schema)
	case "disruption.budgets[]":
		if has("schedule") || has("duration") {
			d.atLeast(path, object, schema, "schedule")
			d.atLeast(path, object, schema, "duration")
		}
	case "template.spec.requirements[]":
		d.mendRequirement(path, object)
	}
}

// mendFamily makes amiFamily that of an alias, and present without one.
func (d drawing) mendFamily(spec map[string]any, schema apiextensionsv1.JSONSchemaProps) {
	first, _ := spec["amiSelectorTerms"].([]any)[0].(map[string]any)
	alias, ok := first["alias"].(string)
	if !ok {
		d.atLeast("spec", spec, schema, "amiFamily")
		return
	}
	if _, ok := spec["amiFamily"]; ok {
		family, _, _ := strings.Cut(alias, "@")
		names := map[string]string{
			"al2": "AL2", "al2023": "AL2023", "bottlerocket": "Bottlerocket", "windows2019": "Windows2019", "windows2022": "Windows2022",
		}
		spec["amiFamily"] = rapid.SampledFrom([]string{names[family], "Custom"}).Draw(d.T, "spec.amiFamily")
	}
}

func (d drawing) mendKubelet(path string, object map[string]any, schema apiextensionsv1.JSONSchemaProps) {
	if low, ok := object["imageGCLowThresholdPercent"].(int64); ok {
		object["imageGCLowThresholdPercent"] = min(low, 99)
		object["imageGCHighThresholdPercent"] = min(low, 99) + 1
	}
	delete(object, "evictionSoftGracePeriod")
	soft, ok := object["evictionSoft"].(map[string]any)
	if !ok {
		return
	}
	grace := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(soft)) {
		grace[key] = d.value(path+".evictionSoftGracePeriod{}", *schema.Properties["evictionSoftGracePeriod"].AdditionalProperties.Schema)
	}
	object["evictionSoftGracePeriod"] = grace
}

func (d drawing) mendRequirement(path string, object map[string]any) {
	values, _ := object["values"].([]any)
	switch object["operator"] {
	case "Gt", "Lt", "Gte", "Lte":
		object["values"] = []any{fmt.Sprint(rapid.IntRange(0, 100).Draw(d.T, path+" bound"))}
	case "In":
		if len(values) == 0 {
			object["values"] = []any{"amd64"}
		}
		if least, ok := object["minValues"].(int64); ok {
			object["minValues"] = min(least, int64(max(1, len(values))))
		}
	case "Exists", "DoesNotExist":
		delete(object, "values")
	}
}

// mendList makes a list keep the rules of Karpenter's schemas.
func (d drawing) mendList(path string, list []any, items apiextensionsv1.JSONSchemaProps) []any {
	switch strings.TrimPrefix(path, "spec.") {
	case "amiSelectorTerms":
		if rapid.Bool().Draw(d.T, path+" is an alias") {
			return []any{map[string]any{"alias": d.value(path+"[].alias", items.Properties["alias"])}}
		}
	case "blockDeviceMappings":
		for _, item := range list[min(1, len(list)):] {
			delete(item.(map[string]any), "rootVolume")
		}
	case "networkInterfaces":
		for i, item := range list {
			card := item.(map[string]any)
			card["networkCardIndex"] = int64(i)
			if i == 0 {
				card["deviceIndex"], card["interfaceType"] = int64(0), "interface"
			}
		}
	case "disruption.budgets[].reasons":
		seen := map[any]bool{}
		return slices.DeleteFunc(list, func(item any) bool {
			twice := seen[item]
			seen[item] = true
			return twice
		})
	}
	return list
}

// TestDrawnDefinitionsAreValid: the API server accepts nearly all drawn definitions, so that they are random ones of the
// whole schema, and not those that happen to be valid.
func TestDrawnDefinitionsAreValid(t *testing.T) {
	for _, version := range []string{schema.EmbeddedVersion, schema.LTSVersion} {
		crds, err := schema.EmbeddedOf(version)
		if err != nil {
			t.Fatal(err)
		}
		validator, err := schema.New(crds)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds {
			kind, known := render.KindOf(crd.Spec.Names.Kind)
			if !known || kind.GVK.Kind != render.EC2NodeClass && kind.GVK.Kind != render.NodePool {
				continue
			}
			t.Run(version+" "+kind.GVK.Kind, func(t *testing.T) {
				s, valid, all, refused := surfaceOf(crd), 0, 0, ""
				property.Check(t, func(t *rapid.T) {
					object := &unstructured.Unstructured{Object: map[string]any{"spec": s.draw(t)}}
					object.SetGroupVersionKind(kind.GVK)
					object.SetName("drawn")
					all++
					if errs := validator.Validate(t.Context(), object); len(errs) > 0 {
						refused = errs.ToAggregate().Error()
						return
					}
					valid++
					s.count("spec", s.schema, object.Object["spec"])
				})
				missed, of := s.missed()
				if valid < all*9/10 || len(missed) > of/10 {
					t.Errorf("%d of %d are valid, not %s; %d of %d fields were never drawn: %v", valid, all, refused, len(missed), of, missed)
				}
				t.Logf("%d of %d are valid; %d of %d fields were not drawn: %v; %s", valid, all, len(missed), of, missed, refused)
			})
		}
	}
}
