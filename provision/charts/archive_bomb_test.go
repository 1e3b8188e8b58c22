package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// pack packs files unchanged.
func pack(t testing.TB, files ...tar.Header) func(contents ...[]byte) []byte {
	return func(contents ...[]byte) []byte {
		t.Helper()
		var packed bytes.Buffer
		zipped := gzip.NewWriter(&packed)
		folder := tar.NewWriter(zipped)
		for i, header := range files {
			header.Mode, header.Size = 0o644, int64(len(contents[i]))
			if err := folder.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
			if _, err := folder.Write(contents[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(folder.Close(), zipped.Close()); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes()
	}
}

const chartYAML = "apiVersion: v2\nname: karpenter\nversion: 1.14.1\n"

// chartWith returns a chart with an additional file.
func chartWith(t testing.TB, name string, content []byte) []byte {
	return pack(t, tar.Header{Name: "karpenter/Chart.yaml"}, tar.Header{Name: name})([]byte(chartYAML), content)
}

// laughs returns the billion laughs in YAML.
func laughs() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return text
}

// TestChartsThatAreTooMuch: they are refused before Helm unpacks them.
func TestChartsThatAreTooMuch(t *testing.T) {
	zeros := func(n int) []byte { return make([]byte, n) }
	nested := chartWith(t, "karpenter/templates/zeros", zeros(4<<20))
	many := make([]tar.Header, maxFiles+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("karpenter/files/%d", i)
	}
	for name, tc := range map[string]struct {
		archive []byte
		want    string
	}{
		"an archive in it":      {chartWith(t, "karpenter/charts/a.tgz", nested), `it contains another archive, "karpenter/charts/a.tgz"`},
		"what is large":         {chartWith(t, "karpenter/templates/zeros", zeros(maxUnpacked)), "more than 1000 files or 16777216 bytes"},
		"many files":            {pack(t, many...)(make([][]byte, len(many))...), "more than 1000 files"},
		"a bomb in its values":  {chartWith(t, "karpenter/values.yaml", []byte("a: 1\na: 2\n"+laughs())), "its values.yaml cannot be read: aliases make more"},
		"a bomb in a subchart":  {chartWith(t, "karpenter/charts/a/Chart.yaml", []byte(laughs())), "its Chart.yaml cannot be read: aliases make more"},
		"brackets in its lock":  {chartWith(t, "karpenter/Chart.lock", bytes.Repeat([]byte("[],"), 300_000)), "its Chart.lock cannot be read: it has more than 250000 values"},
		"brackets in a schema":  {chartWith(t, "karpenter/values.schema.json", bytes.Repeat([]byte("[],"), 300_000)), "its values.schema.json cannot be read"},
		"values that are large": {chartWith(t, "karpenter/values.yaml", zeros(maxRead+1)), "its values.yaml has more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := open(ControllerChart, "1.14.1", func() ([]byte, error) { return tc.archive, nil })()
			runtime.ReadMemStats(&after)
			var refused *MalformedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
				t.Errorf("%d bytes were taken to refuse it", taken)
			}
		})
	}
}

// FuzzWeighArchive: an accepted archive unpacks to no more than a chart may have.
func FuzzWeighArchive(f *testing.F) {
	f.Add(chartWith(f, "karpenter/values.yaml", []byte("a: 1\n")))
	f.Add(chartWith(f, "karpenter/values.yaml", []byte(laughs())))
	f.Add(chartWith(f, "karpenter/charts/a.tgz", chartWith(f, "karpenter/x", nil)))
	f.Add([]byte("nonsense"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if weighArchive(archive) != nil {
			return
		}
		loaded, err := loader.LoadArchive(bytes.NewReader(archive))
		if err != nil {
			return
		}
		size := 0
		for _, one := range loaded.Raw {
			size += len(one.Data)
		}
		if size > maxUnpacked {
			t.Fatalf("%d bytes", size)
		}
	})
}

// FuzzListedIn: an index is parsed, or refused, within its limits.
func FuzzListedIn(f *testing.F) {
	f.Add([]byte("entries: {karpenter: [{version: 1.14.1, urls: [a.tgz]}]}"))
	f.Add([]byte("entries:\n  karpenter: &a [*a]\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = listedIn(text) // neither a panic nor an infinite loop
	})
}
