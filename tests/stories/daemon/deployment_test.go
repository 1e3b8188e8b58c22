package daemon

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

const deploymentText = `
kind: Deployment
metadata: {name: plumbline, namespace: plumbline-system}
spec:
  template:
    spec:
      securityContext: {runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532}
      containers:
        - name: plumbline
          args: [run, --leader-elect, "--webhook-addr=:9292"]
          env:
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
            - {name: TMPDIR, value: /tmp}
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
          ports: [{name: health, containerPort: 9440}, {name: webhook, containerPort: 9292}]
          readinessProbe: {httpGet: {path: /readyz, port: health}}
          securityContext: {readOnlyRootFilesystem: true}
          volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]
`

func TestPodOfADeployment(t *testing.T) {
	d := &appsv1.Deployment{}
	if err := yaml.Unmarshal([]byte(deploymentText), d); err != nil {
		t.Fatal(err)
	}
	at := place{name: "plumbline-0", ip: "127.0.0.9", node: "ip-10-0-0-1", api: [2]string{"127.0.0.1", "6443"}, aws: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}}
	p, err := podOf(d, at)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"run", "--leader-elect", "--webhook-addr=127.0.0.9:9292", "--health-addr=127.0.0.9:9440"}
	if diff := cmp.Diff(want, p.args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	for _, variable := range []string{
		"POD_NAMESPACE=plumbline-system", "TMPDIR=/tmp", "NODE_NAME=ip-10-0-0-1", "KUBERNETES_SERVICE_PORT=6443",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:1/v1/credentials",
	} {
		if !slices.Contains(p.env, variable) {
			t.Errorf("the environment lacks %s: %q", variable, p.env)
		}
	}
	if p.user != 65532 || p.fsGroup == nil || !p.readOnly || !slices.Equal(p.scratch, []string{"/tmp"}) {
		t.Errorf("pod = %+v, want the user, a read-only root and /tmp", p)
	}
	container := d.Spec.Template.Spec.Containers[0]
	if got, err := probe(container, container.ReadinessProbe, at.ip); err != nil || got != "http://127.0.0.9:9440/readyz" {
		t.Errorf("probe %q, error %v", got, err)
	}
	if _, err := probe(container, container.LivenessProbe, at.ip); err == nil {
		t.Error("a Deployment without a liveness probe was accepted")
	}
	for name, spoil := range map[string]func(*appsv1.Deployment){
		"root":     func(d *appsv1.Deployment) { *d.Spec.Template.Spec.SecurityContext.RunAsUser = 0 },
		"a volume": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes = nil },
		"a secret": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "status.hostIP"
		},
	} {
		spoiled := d.DeepCopy()
		spoil(spoiled)
		if _, err := podOf(spoiled, at); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
