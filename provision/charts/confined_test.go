package charts

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// withSubcharts returns a chart with charts in it, each given by its folder, name and version.
func withSubcharts(t *testing.T, charts ...[3]string) []byte {
	t.Helper()
	headers, contents := []tar.Header{{Name: "karpenter/Chart.yaml"}}, [][]byte{[]byte(chartYAML)}
	for _, one := range charts {
		headers = append(headers, tar.Header{Name: "karpenter/charts/" + one[0] + "/Chart.yaml"})
		contents = append(contents, fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: %s\n", one[1], one[2]))
	}
	return pack(t, headers...)(contents...)
}

// TestEqualChartsAreEqualQuestions: a chart that exceeded the limits of a child process is recognised by its whole
// encoding.
func TestEqualChartsAreEqualQuestions(t *testing.T) {
	archive := withSubcharts(t, [3]string{"a", "a", "1.0.0"}, [3]string{"b", "b", "1.0.0"}, [3]string{"c", "b", "2.0.0"}, [3]string{"d", "d", "1.0.0"}, [3]string{"e", "e", "1.0.0"})
	encoded := func() map[string]any {
		loaded, err := loader.LoadArchive(bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		question, err := encodeChart(loaded)
		if err != nil {
			t.Fatal(err)
		}
		return question
	}
	first := encoded()
	if below, _ := first["dependencies"].([]any); len(below) != 5 {
		t.Fatalf("%d subcharts, want 5", len(below))
	}
	for range 5 {
		if diff := cmp.Diff(first, encoded()); diff != "" {
			t.Fatalf("another question (-first +now):\n%s", diff)
		}
	}
}

func TestSubchartsThatCannotBeTold(t *testing.T) {
	loaded, err := loader.LoadArchive(bytes.NewReader(withSubcharts(t, [3]string{"a", "same", "1.0.0"}, [3]string{"b", "same", "1.0.0"})))
	if err != nil {
		t.Fatal(err)
	}
	_, err = encodeChart(loaded)
	var refused *MalformedError
	if want := "it has two charts same 1.0.0 in it"; !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
