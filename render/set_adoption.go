package render

import "github.com/plumbline-dev/plumbline/render/document"

// SetAdoption returns the text of a plumbline.yaml that asks for what is there to be adopted,
// in a namespace and at a version where these are given, and every other
// byte as it was. Errors: Errors.
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
