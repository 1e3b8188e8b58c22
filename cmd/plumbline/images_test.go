package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/images"
)

// publishingAWS has the releases of AL2023 of two dates for Kubernetes 1.36.
type publishingAWS struct{ denied error }

func (a publishingAWS) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{Version: "1.36"}, a.denied
}

func (a publishingAWS) Images(_ context.Context, class *awsv1.EC2NodeClass, kubernetes string) (found []resolve.Image, err error) {
	version := map[string]string{"al2023@latest": "v20251103", "al2023@v20251002": "v20251002", "al2023@v20251103": "v20251103"}[images.Selects(class)]
	if a.denied != nil || version == "" {
		return nil, errors.Join(a.denied, errors.New("no such alias"))
	}
	created, _ := images.Date(version)
	for aws, arch := range map[string]string{"x86_64": "amd64", "arm64": "arm64"} {
		found = append(found, resolve.Image{
			ID: "ami-" + version + arch, Name: "amazon-eks-node-al2023-" + aws + "-standard-" + kubernetes + "-" + version, Created: created,
			Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}},
		})
	}
	return found, nil
}

// imagesOf runs `plumbline images` on a copy of examples/basic whose EC2NodeClass has an alias.
func imagesOf(t *testing.T, aws publishingAWS, alias string, args ...string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../examples/basic")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "nodesync.yaml")); err != nil {
		t.Fatal(err)
	}
	class := filepath.Join(folder, "nodes", "default.yaml")
	text, err := os.ReadFile(class)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(class, []byte(strings.Replace(string(text), "al2023@latest", alias, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newImagesCommand(imagesCommand{
		now:  func() time.Time { return time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC) },
		dial: func(context.Context, string) (imagesAWS, error) { return aws, nil },
	})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{folder}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestImages checks what `plumbline images` prints, and its exit codes.
func TestImages(t *testing.T) {
	denied := publishingAWS{denied: errors.New("AWS denies eks:DescribeCluster")}
	for name, c := range map[string]struct {
		aws   publishingAWS
		alias string
		args  []string
		want  []string
		code  int
	}{
		"newer": {publishingAWS{}, "al2023@v20251002", nil, []string{
			"Kubernetes 1.36", "default        batch, general   al2023@v20251002   v20251002   amd64, arm64   60 days   al2023@v20251103 (2025-11-03)",
			"releases/tag/v20251103",
		}, exitChanges},
		"current":      {publishingAWS{}, "al2023@v20251103", nil, []string{"28 days   none"}, exitDone},
		"latest":       {publishingAWS{}, "al2023@latest", nil, []string{"not pinned", "pin it: amiSelectorTerms: [{alias: al2023@v20251103}]"}, exitDone},
		"markdown":     {publishingAWS{}, "al2023@v20251002", []string{"-o", "markdown"}, []string{"| `default` | `batch, general` | `al2023@v20251002` |"}, exitChanges},
		"json":         {publishingAWS{}, "al2023@v20251002", []string{"-o", "json"}, []string{`"ageDays": 60`, `"alias": "al2023@v20251103"`}, exitChanges},
		"no AWS":       {denied, "al2023@v20251002", nil, []string{"Kubernetes unknown", "60 days   unknown", "give --kubernetes"}, exitFailed},
		"withdrawn":    {publishingAWS{}, "al2023@v20240101", nil, []string{"no such alias"}, exitFailed},
		"a Kubernetes": {publishingAWS{}, "al2023@v20251103", []string{"--kubernetes", "1.37"}, []string{"Kubernetes 1.37"}, exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := imagesOf(t, c.aws, c.alias, c.args...)
			if got := exitCode(err, &bytes.Buffer{}); got != c.code {
				t.Errorf("exit code %d (%v), want %d", got, err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}
