package nodes

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestNode(t *testing.T) {
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	base := machine{
		Name: "ip-10-0-1-7.eu-west-1.compute.internal", InstanceID: "i-0123456789abcdef0", Type: "m5.large",
		Zone: "eu-west-1b", ZoneID: "euw1-az2", IP: "10.0.1.7", Arch: "amd64",
		Size: size{VCPU: 2, MemoryMiB: 8 << 10, MaxPods: 29},
		Join: join{
			Labels: map[string]string{"karpenter.sh/nodepool": "default", corev1.LabelHostname: "a lie"},
			Taints: []corev1.Taint{unregistered},
		},
		KubeletVersion: "v1.36.3",
	}
	gpu := base
	gpu.Type, gpu.Size = "g5.xlarge", size{VCPU: 4, MemoryMiB: 16 << 10, MaxPods: 58, GPUs: 1, GPUResource: "nvidia.com/gpu"}

	for name, m := range map[string]machine{"general": base, "gpu": gpu} {
		t.Run(name, func(t *testing.T) {
			now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			got, err := yaml.Marshal(m.node(now))
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "node-"+name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("node (-want +got); -update rewrites %s:\n%s", golden, diff)
			}
		})
	}
}

func TestReservedMilliCPU(t *testing.T) {
	for cpus, want := range map[int]int64{1: 60, 2: 70, 4: 80, 8: 90, 96: 310} {
		if got := reservedMilliCPU(cpus); got != want {
			t.Errorf("%d CPUs: %d reserved, want %d", cpus, got, want)
		}
	}
}
