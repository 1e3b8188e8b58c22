package kube

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl as the administrator and returns its output.
func (c *ControlPlane) Kubectl(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, c.options.Binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig, "HOME=" + c.options.Dir, "NO_PROXY=127.0.0.1,localhost"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.Bytes(), nil
}
