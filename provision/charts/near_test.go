package charts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	tags := []string{"0.37.7", "1.0.8", "1.12.1", "1.13.0", "1.14.0", "1.14.1", "1.15.0-rc.1", "latest", "v0.32.0"}
	tests := map[string]struct {
		version string
		tags    []string
		want    []string
	}{
		"the minor's own come first": {"1.14.9", tags, []string{"1.14.1", "1.14.0", "1.13.0"}},
		"a major that is not there":  {"2.0.0", tags, []string{"1.0.8", "1.12.1", "1.13.0"}},
		"between two, the newer":     {"1.13.1", []string{"1.13.0", "1.13.2"}, []string{"1.13.2", "1.13.0"}},
		"nothing to offer":           {"1.14.9", []string{"latest"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, nearest(test.version, test.tags)); diff != "" {
				t.Errorf("nearest (-want +got):\n%s", diff)
			}
		})
	}
}
