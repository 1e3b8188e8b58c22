package charts

import (
	"bytes"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
)

// nothingElse is the loader of a schema that may have no part elsewhere. Helm's own one
// reads files and URLs (pkg/chartutil/jsonschema.go).
type nothingElse struct{}

// Load refuses.
func (nothingElse) Load(string) (any, error) { return nil, errors.New("a schema is read by itself") }

// selfContained says whether the values.schema.json of a chart, and of each within it,
// can be read without any other document.
func selfContained(c *chart.Chart) bool {
	if c.Schema != nil && !readsNothingElse(c.Schema) {
		return false
	}
	for _, below := range c.Dependencies() {
		if !selfContained(below) {
			return false
		}
	}
	return true
}

func readsNothingElse(text []byte) (alone bool) {
	defer func() {
		if recover() != nil { // as Helm does around the same library
			alone = false
		}
	}()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return false
	}
	const place = "file:///values.schema.json" // as in Helm
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothingElse{})
	if err := compiler.AddResource(place, schema); err != nil {
		return false
	}
	_, err = compiler.Compile(place)
	return err == nil
}
