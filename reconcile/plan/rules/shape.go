package rules

import (
	"reflect"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// unlimited is the length of a list or a map of which none is known.
const unlimited = -1

// declare is a Go type of planjson as CEL knows it, so that a misspelt field does not compile. What
// is any value, as in a spec, is typed when it is read.
func declare(of reflect.Type) *apiservercel.DeclType {
	switch of.Kind() {
	case reflect.Bool:
		return apiservercel.BoolType
	case reflect.Int:
		return apiservercel.IntType
	case reflect.String:
		return apiservercel.StringType
	case reflect.Slice:
		return apiservercel.NewListType(declare(of.Elem()), unlimited)
	case reflect.Map:
		return apiservercel.NewMapType(apiservercel.StringType, declare(of.Elem()), unlimited)
	case reflect.Struct:
		fields := map[string]*apiservercel.DeclField{}
		for i := range of.NumField() {
			name := nameIn(of.Field(i))
			fields[name] = apiservercel.NewDeclField(name, declare(of.Field(i).Type), true, nil, nil)
		}
		return apiservercel.NewObjectType(of.Name(), fields)
	default:
		return apiservercel.DynType
	}
}

// values is a Go value of planjson as CEL reads it: maps with every field in them, so that one
// without a value is empty, and no error.
func values(of reflect.Value) any {
	switch of.Kind() {
	case reflect.Int:
		return of.Int()
	case reflect.Slice:
		list := make([]any, of.Len())
		for i := range list {
			list[i] = values(of.Index(i))
		}
		return list
	case reflect.Struct:
		fields := make(map[string]any, of.NumField())
		for i := range of.NumField() {
			fields[nameIn(of.Type().Field(i))] = values(of.Field(i))
		}
		return fields
	default:
		return of.Interface()
	}
}

// nameIn is a field's in JSON.
func nameIn(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
