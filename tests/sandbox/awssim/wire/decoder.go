package wire

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills structs from parameter trees, using the same tags as aws-sdk-go's query builder
// (private/protocol/query/queryutil).
type decoder struct {
	ec2     bool
	unknown []string
}

func (d *decoder) decode(n *node, in any) error {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decoding a query into %T: not a pointer to a struct", in)
	}
	return d.structure(n, v.Elem())
}

func (d *decoder) structure(n *node, v reflect.Value) error {
	fields := map[string]int{}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			fields[d.fieldName(f)] = i
		}
	}
	for name, child := range n.children {
		i, ok := fields[name]
		if !ok {
			d.unknown = child.leaves(d.unknown)
			continue
		}
		if err := d.value(child, v.Field(i), v.Type().Field(i).Tag); err != nil {
			return err
		}
	}
	return nil
}

// fieldName returns a field's name on the wire.
func (d *decoder) fieldName(f reflect.StructField) string {
	if name := f.Tag.Get("queryName"); d.ec2 && name != "" {
		return name
	}
	name := f.Tag.Get("locationName")
	if list := f.Tag.Get("locationNameList"); f.Tag.Get("flattened") != "" && list != "" {
		name = list
	}
	if name == "" {
		return f.Name
	}
	if d.ec2 {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

func (d *decoder) value(n *node, v reflect.Value, tag reflect.StructTag) error {
	switch {
	case v.Type() == reflect.TypeFor[*time.Time](), v.Type() == reflect.TypeFor[[]byte]():
		return scalar(n, v)
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return d.structure(n, v.Elem())
	case v.Kind() == reflect.Slice:
		return d.list(n, v, tag)
	case v.Kind() == reflect.Map:
		return mapping(n, v)
	case v.Kind() == reflect.Pointer:
		return scalar(n, v)
	default:
		return fmt.Errorf("decoding parameter %s: fields of type %s are not supported", n.name, v.Type())
	}
}

func (d *decoder) list(n *node, v reflect.Value, tag reflect.StructTag) error {
	if !d.ec2 && tag.Get("flattened") == "" {
		n = n.children[cmp.Or(tag.Get("locationNameList"), "member")]
		if n == nil {
			return nil // an empty list is sent as the bare name
		}
	}
	type item struct {
		index int
		node  *node
	}
	items := make([]item, 0, len(n.children))
	for name, child := range n.children {
		index, err := strconv.Atoi(name)
		if err != nil {
			return Errorf("MalformedQueryString", "%s is not an item of a list", child.name)
		}
		items = append(items, item{index, child})
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.index, b.index) })
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, it := range items {
		if err := d.value(it.node, v.Index(i), ""); err != nil {
			return err
		}
	}
	return nil
}

// mapping decodes a map of strings: entry.1.key, entry.1.value, ….
func mapping(n *node, v reflect.Value) error {
	entries := n.children["entry"]
	if v.Type() != reflect.TypeFor[map[string]*string]() || entries == nil {
		return fmt.Errorf("decoding parameter %s: only maps of strings with entries are supported", n.name)
	}
	m := map[string]*string{}
	for _, entry := range entries.children {
		key, value := entry.children["key"], entry.children["value"]
		if key == nil || value == nil {
			return Errorf("MalformedQueryString", "%s has no key or no value", entry.name)
		}
		m[key.value] = &value.value
	}
	v.Set(reflect.ValueOf(m))
	return nil
}

// scalar parses n's text into v, a pointer to a basic type or bytes.
func scalar(n *node, v reflect.Value) error {
	var parsed any
	var err error
	switch v.Interface().(type) {
	case *string:
		parsed = &n.value
	case *bool:
		parsed, err = pointer(strconv.ParseBool(n.value))
	case *int64:
		parsed, err = pointer(strconv.ParseInt(n.value, 10, 64))
	case *float64:
		parsed, err = pointer(strconv.ParseFloat(n.value, 64))
	case *time.Time:
		parsed, err = pointer(time.Parse(time.RFC3339, n.value))
	case []byte:
		parsed, err = base64.StdEncoding.DecodeString(n.value)
	default:
		return fmt.Errorf("decoding parameter %s: fields of type %s are not supported", n.name, v.Type())
	}
	if err != nil {
		return Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid: %v", n.value, n.name, err)
	}
	v.Set(reflect.ValueOf(parsed))
	return nil
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }
