package charts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkRender renders both of Karpenter's own charts, and prints the peak memory of the process: before, with
// everything that it links, and after. A daemon returns the difference when it is idle.
//
//	go test ./provision/charts -run '^$' -bench Render
func BenchmarkRender(b *testing.B) {
	before := peak(b)
	found, err := FromFolder(ownCharts(b))
	if err != nil {
		b.Fatal(err)
	}
	into := Installation{Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}
	b.Run("both", func(b *testing.B) {
		for b.Loop() {
			if _, err := found.CRDs(b.Context()); err != nil {
				b.Fatal(err)
			}
			if _, err := found.Controller(b.Context(), into); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(before, "MiB-before")
		b.ReportMetric(peak(b), "MiB-peak")
	})
}

// peak returns the peak memory of this process, in MiB. getrusage would include that of the program which started it.
func peak(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("only Linux tells: ", err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscanf(after, "%f kB", &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// ownCharts returns the folder with the charts of the release that plumbline links.
func ownCharts(b *testing.B) string {
	b.Helper()
	dir, err := exec.CommandContext(b.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		b.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(dir)), "charts")
	if _, err := os.Stat(filepath.Join(folder, CRDChart, "Chart.yaml")); err != nil {
		b.Fatal(err)
	}
	return folder
}
