package render

import "github.com/plumbline-dev/plumbline/render/document"

// SetCharts returns the text of a plumbline.yaml with another repository and both
// digests in it, and every other byte as it was. Errors: Errors.
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
