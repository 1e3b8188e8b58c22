package render

import (
	"fmt"
	"reflect"

	"github.com/plumbline-dev/plumbline/render/document"
)

// SetVersion returns the text of a plumbline.yaml with another version in it, and
// every other byte as it was. Errors: Errors.
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
