package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
	"github.com/plumbline-dev/plumbline/provision/migrate/move"
)

// migrationAccount is an account without groups of nodes.
type migrationAccount struct{ migrationAWS }

func (migrationAccount) NodeGroupSizes(context.Context, string) ([]cloud.NodeGroup, error) {
	return nil, nil
}

func (migrationAccount) AutoScalingGroups(context.Context, []string, []string) ([]cloud.AutoScalingGroup, error) {
	return nil, nil
}

func (migrationAccount) FargateProfiles(context.Context, string) ([]cloud.FargateProfile, error) {
	return []cloud.FargateProfile{{Name: "jobs"}}, nil
}

func (migrationAccount) Addons(context.Context, string) ([]cloud.Addon, error) { return nil, nil }

// autoscalerDeployment is the Cluster Autoscaler, with labels, in a cluster without a kubelet: it has no pods.
func autoscalerDeployment(labels map[string]string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler", Labels: labels}}
	d.Spec.Replicas = new(int32(2))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.1"}}
	return d
}

// migrates returns a command that is connected to a cluster.
func migrates(t *testing.T, c client.Client, change func(*migrateCommand)) (m *migrateCommand, out, said *bytes.Buffer, tested *int) {
	t.Helper()
	out, said, tested = &bytes.Buffer{}, &bytes.Buffer{}, new(0)
	cmd := &cobra.Command{}
	cmd.SetOut(out)
	cmd.SetErr(said)
	cmd.SetIn(strings.NewReader(""))
	m = &migrateCommand{cmd: cmd, cluster: "prod", region: "eu-west-1", began: time.Now(), poll: time.Millisecond, timeout: time.Minute}
	m.dial = func(context.Context, string, steppoint.Points) (migrationAWS, error) { return migrationAccount{}, nil }
	m.attach = func(_ context.Context, aws migrationAWS) (*move.Mover, error) {
		return &move.Mover{
			Cluster: c, AWS: aws, Name: "prod", Plumbline: daemonLabels(), Say: m.say, Poll: m.poll, Timeout: m.timeout, Now: time.Now,
			Test: func(context.Context) error { *tested++; return nil },
		}, nil
	}
	m.exclusive = func(ctx context.Context, perform func(context.Context) error) error { return perform(ctx) }
	if change != nil {
		change(m)
	}
	return m, out, said, tested
}

func migrationCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func exitCodeOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exitError
	if err == nil || !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	return exit.code
}

// TestMigrate: a dry run changes nothing, without --yes the command asks, and then it tests Karpenter once, stops the
// autoscaler, and starts it again with --back.
func TestMigrate(t *testing.T) {
	c := migrationCluster(t, autoscalerDeployment(nil))
	replicas := func() (int32, string) {
		d := &appsv1.Deployment{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler"}, d); err != nil {
			t.Fatal(err)
		}
		return *d.Spec.Replicas, d.Annotations[migrate.ReplicasAnnotation]
	}
	m, out, _, tested := migrates(t, c, func(m *migrateCommand) { m.dryRun = true })
	if code := exitCodeOf(t, m.run(t.Context(), formatTable)); code != exitChanges || *tested > 0 {
		t.Errorf("code %d, tested %d", code, *tested)
	}
	for _, want := range []string{"Cluster Autoscaler: Deployment kube-system/cluster-autoscaler", "fargate/jobs", "scale to 0, and record its 2 replicas"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %s, want %q in it", out, want)
		}
	}
	m, _, _, _ = migrates(t, c, nil)
	if err := m.run(t.Context(), formatTable); err == nil || !strings.Contains(err.Error(), "add --yes") {
		t.Errorf("without a terminal: %v", err)
	}
	if n, before := replicas(); n != 2 || before != "" {
		t.Errorf("%d replicas, recorded %q", n, before)
	}
	m, out, said, tested := migrates(t, c, func(m *migrateCommand) { m.yes = true })
	if err := m.run(t.Context(), formatJSON); err != nil || *tested != 1 || !strings.Contains(said.String(), "next: uninstall") {
		t.Errorf("%v, tested %d, said %s", err, *tested, said)
	}
	plan := migrate.Plan{}
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil || len(plan.Steps) != 2 || plan.Steps[0].Action != migrate.Test {
		t.Errorf("%v, printed %s", err, out)
	}
	if n, before := replicas(); n != 0 || before != "2" {
		t.Errorf("%d replicas, recorded %q", n, before)
	}
	m, _, said, tested = migrates(t, c, nil)
	if err := m.run(t.Context(), formatTable); err != nil || *tested > 0 || !strings.Contains(said.String(), "nothing is left to do") {
		t.Errorf("again: %v, said %s", err, said)
	}
	m, out, _, _ = migrates(t, c, func(m *migrateCommand) { m.back, m.dryRun = true, true })
	if code := exitCodeOf(t, m.run(t.Context(), formatTable)); code != exitChanges || !strings.Contains(out.String(), "scale to 2 replicas again") {
		t.Errorf("back: code %d, printed %s", code, out)
	}
}

// TestMigrateWaitsForTheUser: what Flux keeps is not changed, and the end names what to do.
func TestMigrateWaitsForTheUser(t *testing.T) {
	c := migrationCluster(t, autoscalerDeployment(map[string]string{"helm.toolkit.fluxcd.io/name": "ca", "helm.toolkit.fluxcd.io/namespace": "flux-system"}))
	m, _, _, _ := migrates(t, c, func(m *migrateCommand) { m.yes = true })
	err := m.run(t.Context(), formatTable)
	if code := exitCodeOf(t, err); code != exitHeld || !strings.Contains(err.Error(), "1 step waits for you") ||
		!strings.Contains(err.Error(), "flux reconcile helmrelease ca --namespace flux-system") {
		t.Errorf("code %d: %v", code, err)
	}
}

func TestMigrateStops(t *testing.T) {
	m, _, _, _ := migrates(t, migrationCluster(t), nil)
	if err := m.run(t.Context(), formatTable); !errors.Is(err, migrate.ErrNoAutoscaler) {
		t.Errorf("without an autoscaler: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := m.stopped(stopped, context.Canceled); exitCodeOf(t, err) != exitFailed || !strings.Contains(err.Error(), "to continue, or with --back") {
		t.Errorf("stopped: %v", err)
	}
	if err := m.stopped(t.Context(), &move.StalledError{Target: "Node/a", Waits: "PodDisruptionBudget shop/web", After: time.Minute}); exitCodeOf(t, err) != exitStalled ||
		!strings.Contains(err.Error(), "PodDisruptionBudget shop/web") {
		t.Errorf("stalled: %v", err)
	}
}

func TestMigrateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no source":        {nil, "accepts 1 arg(s)"},
		"another source":   {[]string{"descheduler"}, "invalid argument"},
		"no cluster":       {[]string{fromClusterAutoscaler}, "--cluster is required"},
		"a malformed keep": {[]string{fromClusterAutoscaler, "--cluster", "a", "--keep", "web=1"}, "--keep web=1: give nodegroup/NAME=N or asg/NAME=N"},
		"keep of nothing":  {[]string{fromClusterAutoscaler, "--cluster", "a", "--keep", "nodegroup/web=-1"}, "--keep nodegroup/web=-1"},
		"no namespace":     {[]string{fromClusterAutoscaler, "--cluster", "a", "--unpinned", "coredns"}, "--unpinned coredns: give NAMESPACE/NAME"},
		"back and keep":    {[]string{fromClusterAutoscaler, "--cluster", "a", "--back", "--keep", "asg/a=1"}, "none of the others can be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{"migrate"}, c.args...)...)
			if got.code != exitFailed || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
		})
	}
}
