package charts

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
)

// Chart is one of the two charts, with the values that it is rendered with.
type Chart struct {
	// Name is CRDChart or ControllerChart.
	Name, Version string
	// Digest is that of Charts; empty for a chart out of FromFolder.
	Digest string
	Values map[string]any
	// Load reads the chart and checks it. Each call returns another copy.
	Load func() (*chart.Chart, error)

	// identity is what the fingerprint is made of: the values, where no Secret has any.
	identity any
}

// Chart returns the chart of a name with its values for an installation, of which the
// CRD chart takes none. Errors: *contradiction.Error, *ValuesError.
func (c *Charts) Chart(name string, into Installation) (Chart, error) {
	if name == CRDChart {
		values := crdValues()
		return Chart{Name: name, Version: c.Version, Digest: c.CRDDigest, Values: values, Load: c.loadCRD, identity: values}, nil
	}
	values, err := into.values()
	if err != nil {
		return Chart{}, err
	}
	identity, err := into.identity(values)
	return Chart{Name: name, Version: c.Version, Digest: c.Digest, Values: values, Load: c.loadController, identity: identity}, err
}

// Fingerprint is equal for equal values, 32 characters long, and not made of what
// Secrets hold.
func (c Chart) Fingerprint() (string, error) {
	if c.identity == nil {
		return "", errors.New("a chart that was not made by Charts has no fingerprint")
	}
	sum, err := fingerprint(c.identity)
	if err != nil {
		return "", fmt.Errorf("chart %s %s: %w", c.Name, c.Version, err)
	}
	return sum, nil
}
