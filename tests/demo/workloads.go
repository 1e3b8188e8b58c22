package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// workloads are two Deployments whose pods do not share nodes. The pods of jobs tolerate the tainted pool, and prefer
// it.
const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, demo: pod}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: karpenter.sh/nodepool, operator: Exists}]
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {demo: pod}}}
      containers:
        - {name: web, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 500m, memory: 256Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: jobs, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: jobs}}
  template:
    metadata: {labels: {app: jobs, demo: pod}}
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{key: workload, operator: Equal, value: batch, effect: NoSchedule}]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: karpenter.sh/nodepool, operator: Exists}]
          preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 100, preference: {matchExpressions: [{key: workload, operator: In, values: [batch]}]}}
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {demo: pod}}}
      containers:
        - {name: job, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 500m, memory: 256Mi}}}
`

// kubectl runs the sandbox's kubectl as the administrator.
func (s *scene) kubectl(ctx context.Context, input []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.sandbox.Bin(), "kubectl"), args...)
	cmd.Env, cmd.Stdin = s.sandbox.Environment(), bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
