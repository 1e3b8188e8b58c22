package kustomize

import (
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// decode reads an object with whole numbers as int64, as the API server does.
func decode(text []byte) (map[string]any, error) {
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &object); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if object == nil {
		return nil, errors.New("it is empty")
	}
	return object, nil
}
