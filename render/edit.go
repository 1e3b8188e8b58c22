package render

import (
	"fmt"
	"reflect"

	"github.com/plumbline-dev/plumbline/render/document"
)

// SetAdoption returns the text of a plumbline.yaml with adoption enabled, and with the namespace and version if they
// are given; every other byte stays the same. Errors: Errors.
func SetAdoption(file string, data []byte, namespace, version string) ([]byte, error) {
	edited, err := document.Set(data, true, "adopt")
	for _, one := range []struct{ key, value string }{{"namespace", namespace}, {"version", version}} {
		if err == nil && one.value != "" {
			edited, err = document.Set(edited, one.value, one.key)
		}
	}
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	if _, err := decodeKarpenter(file, edited); err != nil {
		return nil, err
	}
	return edited, nil
}

// SetCharts returns the text of a plumbline.yaml with another repository and both digests; every other byte stays the
// same. Errors: Errors.
func SetCharts(file string, data []byte, repository string, digests Digests) ([]byte, error) {
	for _, one := range []struct {
		value string
		keys  []string
	}{
		{repository, []string{"repository"}},
		{digests.CRD, []string{"digests", "karpenter-crd"}},
		{digests.Controller, []string{"digests", "karpenter"}},
	} {
		edited, err := document.Set(data, one.value, one.keys...)
		if err != nil {
			return nil, Errors{textError(file, err)}
		}
		data = edited
	}
	if _, err := decodeKarpenter(file, data); err != nil {
		return nil, err
	}
	return data, nil
}

// SetVersion returns the text of a plumbline.yaml with another version; every other byte stays the same. Errors:
// Errors.
func SetVersion(file string, data []byte, version string) ([]byte, error) {
	was, err := decodeKarpenter(file, data)
	if err != nil {
		return nil, err
	}
	edited, err := document.Replace(data, "version", version)
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	is, err := decodeKarpenter(file, edited)
	if err != nil {
		return nil, err
	}
	was.Version = version
	if !reflect.DeepEqual(was, is) {
		return nil, fmt.Errorf("edit %s: another field would change with version: change it by hand", file)
	}
	return edited, nil
}
