package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// kind is one version of one kind.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	// status reports whether status is a subresource, which an apply never writes.
	status bool

	structural *structural.Structural
	// defaults, lists and embedded are the parts of structural that lead to defaults, to lists that are sets or maps,
	// and to embedded objects; nil if there are none.
	defaults, lists, embedded *structural.Structural

	openapi validation.SchemaValidator
	// rules returns the compiled CEL rules; nil if there are none.
	rules func() *cel.Validator
	// passed are the parts of objects that were valid.
	passed func() (*passed, error)
	// transitions returns the rules that use the old object; nil if there are none.
	transitions func() *cel.Validator
	// shapes caches the last sets of fields, and layout is what they depend on.
	shapes shapes
	layout *layout
	// converter types objects for server-side apply.
	converter func() (managedfields.TypeConverter, error)
}

func newKind(crd *apiextensionsv1.CustomResourceDefinition, version string) (*kind, error) {
	written, err := apihelpers.GetSchemaForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	if written == nil || written.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("it has no schema")
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(written, internal, nil); err != nil {
		return nil, err
	}
	shape, err := structural.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if problems := structural.ValidateStructural(nil, shape); len(problems) > 0 {
		return nil, fmt.Errorf("it is not structural: %w", problems.ToAggregate())
	}
	openapi, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	subresources, err := apihelpers.GetSubresourcesForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	rules := sync.OnceValue(func() *cel.Validator {
		return cel.NewValidator(shape, true, celconfig.PerCallLimit)
	})
	return &kind{
		gvk:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		status:     subresources != nil && subresources.Status != nil,
		structural: shape,
		defaults:   narrow(shape, hasDefault),
		lists:      narrow(shape, isSetOrMap),
		layout:     newLayout(shape),
		embedded:   narrow(shape, isEmbedded),
		openapi:    openapi,
		rules:      rules,
		passed: sync.OnceValues(func() (*passed, error) {
			root, err := newPlace(internal.OpenAPIV3Schema, rules())
			return &passed{root: root}, err
		}),
		transitions: sync.OnceValue(func() *cel.Validator { return transitionRules(shape) }),
		converter: sync.OnceValues(func() (managedfields.TypeConverter, error) {
			return newConverter(crd, version)
		}),
	}, nil
}

// newConverter builds the types that the API server uses for server-side apply in the same way:
// apiextensions-apiserver, pkg/apiserver/customresource_handler.go, buildOpenAPIModelsForApply.
func newConverter(crd *apiextensionsv1.CustomResourceDefinition, version string) (managedfields.TypeConverter, error) {
	models, err := builder.BuildOpenAPIV3(crd, version, builder.Options{})
	if err != nil {
		return nil, fmt.Errorf("build the openapi of crd %s: %w", crd.Name, err)
	}
	converter, err := managedfields.NewTypeConverter(models.Components.Schemas, crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("read the types of crd %s: %w", crd.Name, err)
	}
	return converter, nil
}

// FieldSet returns the fields that managedFields would list after a server-side apply of exactly this object. It is
// shared, and read only.
func (v *Validator) FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	k, err := v.kindOf(object)
	if err != nil {
		return nil, err
	}
	const usual = 2048
	shape := k.layout.appendShape(make([]byte, 0, usual), object.Object)
	return k.shapes.get(shape, func() (*fieldpath.Set, error) { return k.fieldSet(object) })
}

func (k *kind) fieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	converter, err := k.converter()
	if err != nil {
		return nil, err
	}
	value, err := converter.ObjectToTyped(object)
	if err != nil {
		return nil, fmt.Errorf("read %s %s by its schema: %w", object.GetKind(), object.GetName(), err)
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the fields of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	set = set.Difference(neverManaged())
	if k.status {
		set = set.RecursiveDifference(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	return set, nil
}

// neverManaged returns the fields that the API server leaves out of managedFields: apimachinery,
// pkg/util/managedfields/internal/stripmeta.go.
func neverManaged() *fieldpath.Set {
	set := fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"),
		fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"),
	)
	for _, name := range []string{
		"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
		"generation", "managedFields", "resourceVersion",
	} {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}

const (
	// longestPart limits the text of a part that is remembered, in bytes.
	longestPart = 1024
	// maxParts limits how many are remembered; beyond it all are dropped.
	maxParts = 1024
)

// passed are the parts of objects that were valid at their places. Neither OpenAPI nor a CEL rule sees more than the
// value at its place, so such a part is valid in any other object: a fleet has the same requirements and selectors in
// thousands of objects, and validating them takes most of a render.
type passed struct {
	root *place

	mu sync.Mutex
	// costs is the cost of the rules on a part and on its own parts.
	costs map[part]int64
}

// part is a value at a place, as a unique text.
type part struct {
	at   *place
	text string
}

// all reports whether an object is valid. It does not report what is wrong.
func (p *passed) all(ctx context.Context, object map[string]any, budget int64) bool {
	_, passes := p.pass(ctx, p.root, object, budget)
	return passes
}

// pass reports whether a value is valid, and returns the remaining budget for rules.
func (p *passed) pass(ctx context.Context, at *place, value any, budget int64) (left int64, passes bool) {
	text, remembered := textOf(value)
	key := part{at, text}
	if remembered {
		if cost, known := p.cost(key); known {
			return budget - cost, budget > cost
		}
	}
	if left, passes = at.check(ctx, value, budget); !passes {
		return left, false
	}
	passes = at.parts(value, func(below *place, part any) (on bool) {
		left, on = p.pass(ctx, below, part, left)
		return on
	})
	if passes && remembered {
		p.remember(key, budget-left)
	}
	return left, passes
}

func (p *passed) cost(key part) (cost int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cost, known = p.costs[key]
	return cost, known
}

func (p *passed) remember(key part, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.costs == nil || len(p.costs) >= maxParts {
		p.costs = map[part]int64{}
	}
	p.costs[key] = cost
}

// textOf returns a text that identifies a value; only short maps and lists have one.
func textOf(value any) (text string, found bool) {
	switch value.(type) {
	case map[string]any, []any:
		made, short := appendText(make([]byte, 0, longestPart), value)
		return string(made), short
	}
	return "", false
}

// appendText appends a text that is unique to the value; false once it is too long.
func appendText(text []byte, value any) (_ []byte, short bool) {
	switch value := value.(type) {
	case map[string]any:
		text = append(text, '{')
		keys := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
		slices.Sort(keys)
		for _, key := range keys {
			text = append(strconv.AppendQuote(text, key), ':')
			if text, short = appendText(text, value[key]); !short {
				return text, false
			}
		}
		text = append(text, '}')
	case []any:
		text = append(text, '[')
		for _, item := range value {
			if text, short = appendText(text, item); !short {
				return text, false
			}
		}
		text = append(text, ']')
	case string:
		if len(value) > longestPart {
			return text, false
		}
		text = strconv.AppendQuote(text, value)
	case bool:
		text = append(strconv.AppendBool(text, value), ' ')
	case int64:
		text = append(strconv.AppendInt(text, value, 10), ' ')
	default:
		return text, false // fractions and nulls are too rare to support
	}
	return text, len(text) <= longestPart
}

// narrow returns a schema without the places that lead to none of the wanted ones; nil if nothing is left. The API
// server's functions walk a whole object along the schema, with copies and a path for each place, for the few places
// that have a default or a list type.
func narrow(s *structural.Structural, wanted func(*structural.Structural) bool) *structural.Structural {
	if s == nil {
		return nil
	}
	left := *s
	left.Items, left.Properties = narrow(s.Items, wanted), map[string]structural.Structural{}
	for name, property := range s.Properties {
		if on := narrow(&property, wanted); on != nil {
			left.Properties[name] = *on
		}
	}
	if left.AdditionalProperties = nil; s.AdditionalProperties != nil {
		if on := narrow(s.AdditionalProperties.Structural, wanted); on != nil {
			left.AdditionalProperties = &structural.StructuralOrBool{Structural: on}
		}
	}
	if left.Items == nil && len(left.Properties) == 0 && left.AdditionalProperties == nil && !wanted(s) {
		return nil
	}
	return &left
}

func hasDefault(s *structural.Structural) bool { return s.Default.Object != nil }

// isSetOrMap reports whether the items of a list must be unique.
func isSetOrMap(s *structural.Structural) bool {
	return s.XListType != nil && *s.XListType != "atomic"
}

func isEmbedded(s *structural.Structural) bool { return s.XEmbeddedResource }

// hasNull reports whether a JSON value contains a null.
func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, field := range value {
			if hasNull(field) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if hasNull(item) {
				return true
			}
		}
	}
	return false
}

// Cache keeps the compiled schemas in use by the identity of their CRDs: compiling one takes longer than a whole
// reconcile. The zero value is empty.
type Cache struct {
	mu sync.Mutex
	of map[string]*compiled
}

// compiled is the schema of one identity. It has its own lock, because compiling the CRDs of one chart, which can be
// slow, must not block requests for another.
type compiled struct {
	mu        sync.Mutex
	validator *Validator
}

// maxSchemas limits how many are kept. A daemon uses two at a time, during an upgrade.
const maxSchemas = 4

// Get returns the schema of an identity, and compiles the CRDs on first use.
func (s *Cache) Get(identity string, crds func() ([]*apiextensionsv1.CustomResourceDefinition, error)) (*Validator, error) {
	c := s.entry(identity)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != nil {
		return c.validator, nil
	}
	definitions, err := crds()
	if err != nil {
		return nil, err
	}
	c.validator, err = New(definitions)
	return c.validator, err
}

func (s *Cache) entry(identity string) *compiled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[identity]; ok {
		return known
	}
	if s.of == nil || len(s.of) >= maxSchemas {
		s.of = map[string]*compiled{}
	}
	c := &compiled{}
	s.of[identity] = c
	return c
}
